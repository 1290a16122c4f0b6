<?php
// A lock that the agent renews while the request runs. Run it: php phpredis_renewed.php /run/dlock/agent.sock
$agent = new Redis();
// A connection of its own, not pconnect: closing it releases the lock.
$agent->connect($argv[1]);
$token = bin2hex(random_bytes(16));

$options = ['WAIT', 10000, 'EPHEMERAL', 'RENEW', 'CLOSE'];
$fence = $agent->rawCommand('DLOCK.ACQUIRE', 'job:42', $token, 10000, ...$options);
if ($fence === false) {
    exit($agent->getLastError() ?? "the lock is held by another client\n");
}
echo "held with the fence $fence\n";

// Before each step that must not run twice: the fence, or false if the lock is lost.
if ($agent->rawCommand('DLOCK.CHECK', 'job:42', $token) !== $fence) {
    exit("the lock is lost\n");
}
$agent->rawCommand('DLOCK.RELEASE', 'job:42', $token);
