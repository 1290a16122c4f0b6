<?php
// A lock that the agent renews while the request runs. Run it: php phpredis.php /run/dlock/agent.sock
$agent = new Redis();
// A connection of its own, not pconnect: closing it releases the lock.
$agent->connect($argv[1]);
$token = bin2hex(random_bytes(16));

// phpredis returns false for null and for some errors, and keeps the last error until it is cleared. It throws others.
$ask = function (...$words) use ($agent) {
    $agent->clearLastError();
    $reply = $agent->rawCommand(...$words);
    if ($error = $agent->getLastError()) {
        throw new RuntimeException($error);
    }
    return $reply;
};

$options = ['WAIT', 10000, 'EPHEMERAL', 'RENEW', 'CLOSE'];
$fence = $ask('DLOCK.ACQUIRE', 'job:42', $token, 10000, ...$options);
if ($fence === false) {
    throw new RuntimeException('another client holds the lock');
}
echo "held with the fence $fence\n";

// Before each step that must not run twice.
if ($ask('DLOCK.CHECK', 'job:42', $token) !== $fence) {
    throw new RuntimeException('the lock is lost');
}
$ask('DLOCK.RELEASE', 'job:42', $token);
