#!/bin/bash
# One step of scripts/test-dist.sh, inside a root of Debian: starts the server as its unit says, and takes locks.
#
# Usage: server.sh redis|valkey first|libraries|upgrade|removed
set -euo pipefail
name=$1
export DLOCK_NODES=redis://127.0.0.1

first() {
    set_newborn
    start
    dlock run job -- sh -c 'echo "held with the fence $DLOCK_FENCE"' | grep 'held with the fence [1-9]'
    stop
    test -f /usr/share/man/man1/dlock-run.1.gz
    test -f /usr/share/bash-completion/completions/dlock
    test -f /usr/lib/systemd/system/dlock-exporter.service
    test -f /usr/lib/systemd/system/dlock-agent.socket
    [ "$(stat --format %a /etc/dlock/exporter.env /etc/dlock/agent.env | uniq)" = 600 ]
}

# Those for Python and Node.js.
libraries() {
    start
    python3 /opt/lock.py
    node /opt/lock.cjs
    stop
}

# A lock that is held stays held, and a setting that was changed stays changed.
upgrade() {
    start
    local fence later
    fence=$(ask DLOCK.ACQUIRE kept token 600000)
    sed -i 's/^dlock.max-ttl .*/dlock.max-ttl 7200000/' /etc/dlock/module.conf
    apt-get install -y -qq /debs/*+newer_*.deb
    dpkg --list dlock dlock-module | grep -c newer | grep -qx 2
    dlock run job -- true
    # shellcheck disable=SC2046
    ask ACL SETUSER app on nopass '~job:*' +get +dlock.acquire $(ask ACL CAT | sed -n 's/^dlock$/+@dlock/p')
    # Sentinel does this: the server's own file loads the module from now on.
    ask CONFIG REWRITE
    stop
    # An operator's quotation marks may be single ones.
    sed -i "s|^loadmodule \(/[^ ]*libdlock.so\)|loadmodule '\1'|" "/etc/$name/$name.conf"
    echo "user ops on nopass '~job:*' +get '+dlock.break'" >>"/etc/$name/$name.conf"
    start
    [ "$(ask CONFIG GET dlock.max-ttl | tail -1)" = 7200000 ]
    [ "$(ask DLOCK.CHECK kept token)" = "$fence" ]
    ask DLOCK.RELEASE kept token
    later=$(ask DLOCK.ACQUIRE kept token 1000)
    [ "$later" -gt "$fence" ]
    ask DLOCK.RELEASE kept token
    ask SET stays here
    stop
}

removed() {
    start
    [ "$(ask GET stays)" = here ]
    ask ACL LIST | grep 'user app on nopass .*+get'
    ask ACL LIST | grep 'user ops on nopass .*+get'
    ask DLOCK.CHECK kept token 2>&1 | grep -qi 'unknown command'
    stop
}

# This node is new: no client has ever had a lock here.
set_newborn() {
    sed -i 's/^# *\(dlock.newborn-quarantine\) .*/\1 0/' /etc/dlock/module.conf
}

# --- the server -------------------------------------------------------------------------------

# As systemd would: the unit's commands, and then those of its drop-ins.
start() {
    local before command mask
    before=$(said ExecStartPre | sed 's/^+//')
    command=$(said ExecStart)
    mkdir -p "/run/$name"
    chown "$name:$name" "/run/$name"
    mask=$(said UMask)
    # shellcheck disable=SC2086
    [ -z "$before" ] || (umask "$mask" && $before)
    # shellcheck disable=SC2086
    (umask "$mask" && exec setpriv --reuid="$name" --regid="$name" --init-groups $command) &
    server=$!
    for _ in $(seq 300); do
        ! ask PING 2>/dev/null | grep -q PONG || return 0
        kill -0 $server
        sleep 0.1
    done
    exit 1
}

said() { # setting; an empty one forgets those before it
    local units=/lib/systemd/system/$name-server.service
    { cat "$units" "$units".d/*.conf 2>/dev/null || true; } | sed -n "s/^$1=//p" | tail -1
}

stop() {
    kill "$server"
    wait "$server" || true
}

ask() { # command
    "$name-cli" -h 127.0.0.1 "$@"
}

trap 'code=$?; [ $code = 0 ] || tail -20 "/var/log/$name/$name-server.log"; exit $code' EXIT
set -x
"$2"
