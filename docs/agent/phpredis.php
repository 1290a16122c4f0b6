<?php
// A job under a lock, with phpredis. Run it: php phpredis.php /run/dlock/agent.sock
$agent = new Redis();
// php-fpm may share this connection between requests: the lock does not depend on it.
$agent->pconnect($argv[1]);
$token = bin2hex(random_bytes(16));

// A WAIT is shorter than the client's read time-out, which is default_socket_timeout, 60 s.
$fence = $agent->rawCommand('DLOCK.ACQUIRE', 'job:42', $token, 30000, 'WAIT', 10000);
if ($fence === false) {
    exit($agent->getLastError() ?? "another client holds the lock\n");
}
try {
    echo "held with the fence $fence\n";
    // In work that takes long, from time to time: 1, or the lock is lost and the work has to stop.
    if ($agent->rawCommand('DLOCK.EXTEND', 'job:42', $token, 30000) !== 1) {
        throw new RuntimeException('the lock is lost');
    }
} finally {
    $agent->rawCommand('DLOCK.RELEASE', 'job:42', $token);
}
