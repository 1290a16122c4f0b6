#!/bin/busybox sh
# The step of scripts/test-dist.sh inside a root that has musl and no other C library: starts a server with the module,
# and takes locks.
set -eu
export DLOCK_NODES=redis://127.0.0.1 PATH=/bin:/dlock/bin:/opt/node/bin
cd /tmp

main() {
    local fence later
    start --dlock.newborn-quarantine 0
    dlock run job -- busybox sh -c 'echo "held with the fence $DLOCK_FENCE, by a program of $DLOCK_NODES"'
    python3 /opt/lock.py
    node /opt/lock.cjs
    fence=$(ask DLOCK.ACQUIRE kept token 60000)
    [ "$(ask DLOCK.EXTEND kept token 600000)" -gt 0 ]
    stop
    start
    [ "$(ask DLOCK.CHECK kept token)" = "$fence" ]
    ask DLOCK.RELEASE kept token
    later=$(ask DLOCK.ACQUIRE kept token 1000)
    [ "$later" -gt "$fence" ]
    stop
}

# The AOF keeps the locks over a stop.
start() { # settings
    redis-server --bind 127.0.0.1 --appendonly yes --loadmodule /dlock/lib/libdlock.so "$@" &
    server=$!
    for _ in $(busybox seq 300); do
        [ "$(ask PING 2>/dev/null)" != PONG ] || return 0
        kill -0 $server
        busybox sleep 0.1
    done
    return 1
}

stop() {
    kill $server
    wait $server
}

ask() { # command
    redis-cli "$@"
}

set -x
main
