#!/usr/bin/env bash
# A former version of dlock beside the present one. It is built once, from the commit named here, below the target
# folder.
#
# Usage: versions.sh test [FILTER…]   clients and nodes of both versions, and nodes that are upgraded
#        versions.sh build            only builds it
#        versions.sh where            the folder in which it is
#        versions.sh write            files of the former version, into tests/former/: the node's tests read them
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
# The oldest state whose files and clients still count. No version has been released; from the first release on, this
# is the tag of the latest one.
former=0a2caca
target=$("$cargo" metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
built=$target/former/$former

main() {
    [ "${1:-}" != where ] || { echo "$built" && return; }
    build
    case ${1:-} in
    test) DLOCK_FORMER=$built "$cargo" test -p dlock-tests --test versions -- "${@:2}" ;;
    write) write ;;
    build) ;;
    *) fail "say test, write, build or where" ;;
    esac
}

fail() {
    echo "versions: $1" >&2
    exit 1
}

# libdlock.so and dlock of the former version.
build() {
    [ ! -f "$built/dlock" ] || return 0
    git cat-file -e "$former^{commit}" 2>/dev/null ||
        fail "commit $former is not in this clone: fetch the whole history (git fetch --unshallow)"
    echo "versions: compiling $former, for some minutes"
    local tree=$built/tree
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive $former | tar --extract --directory "$tree"
    (cd "$tree" && CARGO_TARGET_DIR=$built/target scripts/build.sh "$built/target")
    cp "$built/target/release/libdlock.so" "$built/"
    # The program is copied last: what was interrupted half-way is done again.
    cp "$built/target/release/dlock" "$built/dlock.part"
    mv "$built/dlock.part" "$built/dlock"
    rm -rf "$tree" "$built/target"
}

# --- its files --------------------------------------------------------------------------------

# A node of the former version carries out tests/former/commands.txt. Its files after a crash and after a clean
# shutdown are kept, and its replies, in which the fences are. The oldest server writes them, so that all can read them.
write() {
    local folder=tests/former/$former line
    life=$(mktemp -d)
    trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$life"' EXIT
    rm -rf "$folder"
    mkdir -p "$folder"
    start
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    while read -r line; do
        tell "$line" >>"$folder/replies.txt"
        [ "$line" != BGREWRITEAOF ] || until_in "$life/appendonlydir/appendonly.aof.manifest" 2.base.aof
    done <tests/former/commands.txt
    tell SAVE >/dev/null
    until_in "$life/node.state" "log complete"
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    cp -r "$life"/{dump.rdb,appendonlydir} "$folder/"
    cp "$life/node.state" "$folder/crash.state"
    start
    kill -TERM "$server"
    wait "$server" 2>/dev/null || true
    cp "$life/node.state" "$folder/shutdown.state"
    echo "versions: $folder"
}

start() {
    port=$((20000 + RANDOM % 10000))
    .servers/redis-7.0 --port $port --bind 127.0.0.1 --dir "$life" --save "3600 1" --appendonly yes \
        --appendfsync always --aof-load-truncated no --aof-use-rdb-preamble no \
        --loadmodule "$built/libdlock.so" --dlock.state-file "$life/node.state" >"$life/log" 2>&1 &
    server=$!
    until_in "$life/log" "Ready to accept connections"
}

until_in() { # file, text
    for _ in {1..100}; do
        ! grep -q "$2" "$1" 2>/dev/null || return 0
        sleep 0.1
    done
    fail "after ten seconds $1 does not say \"$2\": $(cat "$1")"
}

# Sends a command, and prints it and its reply, which must be of one line and no error.
tell() { # command
    local reply
    printf '%s\r\n' "$1" >&3
    read -r reply <&3
    reply=${reply%$'\r'}
    case $reply in -*) fail "$1: $reply" ;; esac
    printf '%s\t%s\n' "$1" "$reply"
}

main "$@"
