<?php
// Drives docs/examples/phpredis.php: PORT, what to do, and its arguments. An agent at the socket AGENT has the locks.

require __DIR__ . '/phpredis.php';

[, $port, $action] = $argv;
$arguments = array_slice($argv, 3);
$redis = new Redis();
getenv('AGENT') ? $redis->connect(getenv('AGENT')) : $redis->connect('127.0.0.1', (int) $port);
$data = new Redis();
$data->connect('127.0.0.1', (int) $port);
if (getenv('READ_TIMEOUT')) {
    $redis->setOption(Redis::OPT_READ_TIMEOUT, (float) getenv('READ_TIMEOUT'));
}

function count_up(Redis $redis, string $key, string $times): void
{
    global $data;
    for ($i = 0; $i < (int) $times; $i++) {
        with_lock($redis, $key, function () use ($data) {
            $seen = (int) $data->get('counter');
            usleep(1000);
            $data->set('counter', $seen + 1);
        }, wait: 600);
    }
}

function turn(Redis $redis, string $key, string $name): void
{
    with_lock($redis, $key, fn() => $redis->rPush('order', $name), wait: 600, keep: 60);
}

function hold(Redis $redis, string $key, string $ttl): void
{
    try {
        with_lock($redis, $key, function (Held $held) {
            echo "held $held->fence\n";
            do {
                $held->renew();
                [$read, $write, $except] = [[STDIN], [], []];
            } while (!stream_select($read, $write, $except, 0, 100_000));
        }, ttl: (float) $ttl);
        echo "released\n";
    } catch (Lost) {
        echo "lost\n";
    }
}

function fail(Redis $redis, string $key): void
{
    try {
        with_lock($redis, $key, function () {
            echo "held\n";
        }, wait: 1);
    } catch (Refused $error) {
        echo $error->getMessage(), "\n";
    }
}

$actions = ['count' => 'count_up', 'turn' => 'turn', 'hold' => 'hold', 'fail' => 'fail'];
$actions[$action]($redis, ...$arguments);
