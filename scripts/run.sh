#!/usr/bin/env bash
# Starts one server with the module in the foreground, to play with. `make run` builds it first.
# SERVER=valkey-9.1 (or another of .servers/) picks the server, PORT=7000 the port.
set -euo pipefail
cd "$(dirname "$0")/.."

server=.servers/${SERVER:-redis-8.2}
module=${DLOCK_MODULE:-${CARGO_TARGET_DIR:-target}/release/libdlock.so}
[ -x "$server" ] || { echo "run: $server is missing: make setup" >&2; exit 1; }
[ -f "$module" ] || { echo "run: $module is missing: make build" >&2; exit 1; }

taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
port=${PORT:-6379}
while taken "$port"; do
    [ -z "${PORT:-}" ] || { echo "run: port $port is taken" >&2; exit 1; }
    port=$((port + 1))
done

# What is locked here is gone when the server ends: nothing of an earlier try comes back.
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat <<HINTS
dlock on 127.0.0.1:$port. In another terminal:  redis-cli -p $port

  DLOCK.ACQUIRE job:42 alice 60000              take the lock for a minute; the answer is the fence
  DLOCK.INSPECT job:42                          who holds it, and who waits

In a third one, wait for it (this blocks):      redis-cli -p $port
  DLOCK.ACQUIRE job:42 bob 60000 WAIT 0

and back in the first, hand it over:
  DLOCK.RELEASE job:42 alice                    bob has it in the same moment, with a larger fence
  DLOCK.HELP                                    all commands

Ctrl-C ends the server.

HINTS
"$server" --port "$port" --bind 127.0.0.1 --dir "$dir" --save "" --appendonly no \
    --loadmodule "$(realpath "$module")" || true
