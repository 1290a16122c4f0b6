# A job under a lock, with Perl's Redis. Run it: perl redis.pl /run/dlock/agent.sock
use strict;
use warnings;
use Redis;

my $agent = Redis->new(sock => $ARGV[0], read_timeout => 60);
# Not by rand, which goes on alike in forked processes: two would have the same token, and so the same lock.
open my $random, '<:raw', '/dev/urandom' or die "/dev/urandom: $!\n";
read($random, my $bytes, 16) == 16 or die "/dev/urandom: $!\n";
my $token = unpack 'H*', $bytes;

# A name with a dot is called so.
my $fence = $agent->__std_cmd('DLOCK.ACQUIRE', 'job:42', $token, 30000, 'WAIT', 10000);
die "another client holds the lock\n" unless defined $fence;
print "held with the fence $fence\n";

# In work that takes long, from time to time: 1, or the lock is lost and the work has to stop.
my $extended = $agent->__std_cmd('DLOCK.EXTEND', 'job:42', $token, 30000);
die "the lock is lost\n" unless $extended;
$agent->__std_cmd('DLOCK.RELEASE', 'job:42', $token);
