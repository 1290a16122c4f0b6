#!/usr/bin/env bash
# Tries the archives of `make dist` on a machine of their kind: a server of the distribution loads the module that is
# linked with its C library, and the program of each archive for this processor takes a lock there.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
release=dist/release
processor=$(uname -m)
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT

main() {
    local archive
    (cd $release && sha256sum --check --quiet SHA256SUMS) || by_hand "there is no whole release: run \`make dist\`"
    for archive in "$release"/dlock-*-"$processor"-*.tar.gz; do
        [ -f "$archive" ] || by_hand "there is no archive for $processor in $release"
        tar --extract --gzip --file "$archive" --directory "$folder"
    done
    start "$(echo "$folder"/dlock-*-gnu/lib/libdlock.so)"
    for archive in "$folder"/dlock-*-linux-*; do
        try "$archive"
    done
}

by_hand() { # why
    echo "try-archives: $1" >&2
    exit 1
}

start() { # module
    # redis-tools has the server under this name, and no service that starts by itself.
    command -v redis-check-rdb >/dev/null || apt_install redis-tools
    ln -s "$(command -v redis-check-rdb)" "$folder/redis-server"
    mkdir "$folder/data"
    port=$((20000 + RANDOM % 10000))
    "$folder/redis-server" --port $port --bind 127.0.0.1 --dir "$folder/data" --save "" --loadmodule "$1" \
        --dlock.newborn-quarantine 0 >"$folder/log" 2>&1 &
    server=$!
    "$(dirname "$1")/../bin/dlock" --nodes redis://127.0.0.1:$port ready --wait 10s ||
        by_hand "the server does not grant locks: $(cat "$folder/log")"
}

try() { # folder of an archive
    local dlock=$1/bin/dlock fence
    fence=$("$dlock" --nodes redis://127.0.0.1:$port run job -- sh -c 'echo "$DLOCK_FENCE"')
    [[ $fence =~ ^[0-9]+$ ]] || by_hand "$(basename "$1"): the fence is '$fence'"
    echo "try-archives: $(basename "$1"): $("$dlock" --version), a lock with the fence $fence"
}

main
