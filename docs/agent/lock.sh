#!/bin/sh
# A job under a lock, from a shell. Run it: sh lock.sh /run/dlock/agent.sock
agent() { redis-cli -s "${socket:?}" --raw "$@"; }
socket=$1
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

fence=$(agent DLOCK.ACQUIRE job:42 "$token" 30000 WAIT 10000) || exit
case $fence in
    '') echo 'another client holds the lock' >&2; exit 1 ;;
    *[!0-9]*) echo "no lock: $fence" >&2; exit 1 ;;
esac
echo "held with the fence $fence"

# In work that takes long, from time to time: 1, or the lock is lost and the work has to stop.
if [ "$(agent DLOCK.EXTEND job:42 "$token" 30000)" != 1 ]; then
    echo 'the lock is lost' >&2
    exit 1
fi
agent DLOCK.RELEASE job:42 "$token" >/dev/null
