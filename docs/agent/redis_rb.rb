# A worker that holds a lock as long as it lives, with redis-rb. Run it: ruby redis_rb.rb /run/dlock/agent.sock
require 'redis'
require 'securerandom'

# A connection of its own: the agent renews the lock while it lives, and releases it with it. CLOSE closes it
# if the lock is lost. The client must not connect again by itself: the lock would be gone.
agent = Redis.new(path: ARGV[0], reconnect_attempts: 0, read_timeout: 70)
token = SecureRandom.hex

options = %w[WAIT 60000 EPHEMERAL RENEW CLOSE]
fence = agent.call('DLOCK.ACQUIRE', 'worker:mail', token, 10_000, *options)
abort 'another client holds the lock' unless fence
puts "held with the fence #{fence}"

3.times do
  # Before each piece of work: the fence, or nothing if the lock is lost. A closed connection is an error.
  abort 'the lock is lost' unless agent.call('DLOCK.CHECK', 'worker:mail', token)
  sleep 0.1
end
agent.call('DLOCK.RELEASE', 'worker:mail', token)
