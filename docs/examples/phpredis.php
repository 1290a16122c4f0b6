<?php

declare(strict_types=1);

// A lock of dlock from phpredis.
//
// Tried with phpredis 5.3 and PHP 8.2. Run it: php phpredis.php localhost 6379

/** The lock is lost: another client may hold it. */
final class Lost extends RuntimeException {}

/** The server said no; the message begins with the code of the error. */
final class Refused extends RuntimeException {}

/** A connection. Null is null, and an error is an exception: phpredis gives false for both. */
final class Connection
{
    private readonly int $database;
    private bool $is_new = false;

    public function __construct(private readonly Redis $redis)
    {
        $this->database = $redis->getDBNum();
    }

    public function ask(string ...$words): mixed
    {
        if ($this->is_new) {
            $this->start_anew();
        }
        $this->redis->clearLastError();
        try {
            $answer = $this->redis->rawCommand(...$words);
        } catch (RedisException $error) {
            // It throws some errors of the server as well.
            if ($this->redis->getLastError() === null) {
                try {
                    $this->start_anew();
                } catch (RedisException) {
                    // The next request tries it again.
                }
                throw $error;
            }
        }
        if ($this->redis->getLastError() !== null) {
            throw new Refused($this->redis->getLastError());
        }
        return $answer === false ? null : $answer;
    }

    /** After a time-out: else the late answer would be taken for that to the next request. */
    private function start_anew(): void
    {
        $this->is_new = true;
        $this->redis->close();
        try {
            // phpredis opens a new connection by itself, but in database 0.
            $this->redis->select($this->database);
            $this->is_new = false;
        } catch (RedisException $error) {
            $this->redis->close();
            throw $error;
        }
    }
}

/** A lock that was granted. Show its fence to whatever can refuse a smaller one. */
final class Held
{
    public function __construct(
        public readonly int $fence,
        private readonly Closure $extend,
        private float $until,
        private readonly float $ttl,
    ) {}

    /** Call it before each step of the work, more often than the lease is long: PHP has no thread that would do so. */
    public function renew(): void
    {
        $sent = now();
        try {
            // The lease counts from the sending. Clocks differ by less than a hundredth.
            $this->until = ($this->extend)() === 1 ? $sent + 0.99 * $this->ttl : 0;
        } catch (RedisException) {
            // What is left of the lease may do; the next step asks again.
        }
        if (now() >= $this->until) {
            throw new Lost();
        }
    }
}

/** Calls `$work` with the lock. Times are in seconds. */
function with_lock(Redis $redis, string $key, callable $work, float $wait = 60, float $ttl = 30, float $keep = 5): mixed
{
    [$token, $deadline, $fence, $process] = [bin2hex(random_bytes(16)), now() + $wait, null, getmypid()];
    $connection = new Connection($redis);
    $lease = min($ttl, $keep); // a waiter may ask for no more; the first renewal makes it longer
    $read_timeout = $redis->getReadTimeout() ?: (float) ini_get('default_socket_timeout');
    $read_timeout = $read_timeout < 0 ? INF : $read_timeout;
    $stray = false; // whether an earlier request may still be on its way
    try {
        while ($fence === null) {
            $sent = now();
            $left = $deadline - $sent;
            // Half of the time-out: no request ends by it. A third of the lease: it is young when heard.
            $span = ms(min($read_timeout / 2, $lease / 3, 2, $left));
            $words = $left > 0 ? ['KEEP', ms($keep), 'WAIT', $span] : ['KEEP', ms($keep)];
            try {
                $fence = $connection->ask('DLOCK.ACQUIRE', $key, $token, ms($lease), ...$words);
            } catch (RedisException | Refused $error) {
                $stray = true;
                if ($left <= 0 || !may_pass($error)) {
                    throw $error;
                }
                usleep(50_000);
            }
            if ($fence === null && $left <= 0) {
                throw new RuntimeException("$key was not free within $wait s");
            }
        }
        $extend = fn() => $connection->ask('DLOCK.EXTEND', $key, $token, ms($ttl), 'FENCE', (string) $fence);
        $held = new Held($fence, $extend, $sent + 0.99 * $lease, $ttl);
        $held->renew();
        $result = $work($held);
        $held->renew();
        return $result;
    } finally {
        // A child of fork is not the holder.
        if (getmypid() === $process) {
            release($connection, $key, $token, $stray, $keep);
        }
    }
}

function release(Connection $connection, string $key, string $token, bool $stray, float $patience): void
{
    // A stray request that arrives after FINAL takes no lock.
    $final = $stray ? ['FINAL'] : [];
    $until = now() + $patience; // later the lease ends by itself
    while (now() < $until) {
        try {
            $connection->ask('DLOCK.RELEASE', $key, $token, ...$final);
            return;
        } catch (RedisException) {
            usleep(50_000);
        } catch (Refused) {
            return;
        }
    }
}

function may_pass(Exception $error): bool
{
    return $error instanceof RedisException || str_starts_with($error->getMessage(), 'QUARANTINE');
}

function now(): float
{
    return hrtime(true) / 1e9;
}

function ms(float $seconds): string
{
    return (string) max(1, (int) (1000 * $seconds)); // WAIT 0 would be without limit
}

if (realpath($argv[0]) === __FILE__) {
    $redis = new Redis();
    $redis->connect($argv[1], (int) $argv[2]);
    with_lock($redis, 'job:42', function (Held $held) use ($redis) {
        echo "held with the fence $held->fence\n";
        $held->renew();
        // The server refuses this if a later holder has been here.
        $redis->rawCommand('DLOCK.FENCED', '{job:42}:mark', $held->fence, 'INCR', '{job:42}:runs');
    });
}
