<?php
// A job under a lock, with Predis. Run it: php predis.php /run/dlock/agent.sock
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

$agent = new Predis\Client(['scheme' => 'unix', 'path' => $argv[1], 'read_write_timeout' => 60]);
$token = bin2hex(random_bytes(16));

$fence = $agent->executeRaw(['DLOCK.ACQUIRE', 'job:42', $token, 30000, 'WAIT', 10000], $failed);
if ($failed || $fence === null) {
    exit($fence ?? "another client holds the lock\n");
}
try {
    echo "held with the fence $fence\n";
    // In work that takes long, from time to time: 1, or the lock is lost and the work has to stop.
    if ($agent->executeRaw(['DLOCK.EXTEND', 'job:42', $token, 30000]) !== 1) {
        throw new RuntimeException('the lock is lost');
    }
} finally {
    $agent->executeRaw(['DLOCK.RELEASE', 'job:42', $token]);
}
