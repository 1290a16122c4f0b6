#!/usr/bin/env bash
# Installs into .peers/ the lock libraries that `make bench` measures dlock beside, in the versions that
# tests/bench/peers/ names; those for Node.js are among the tools of tests/nodejs/. A second run finds everything
# there and asks no network. What cannot be installed is left out: the benchmark says so in its rows.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
peers=$PWD/.peers
wanted=$PWD/tests/bench/peers

main() {
    mkdir -p "$peers"
    local part
    for part in python_libraries node_libraries rslock; do
        # In the background, for there a command that fails ends it.
        $part &
        wait $! || echo "peers: could not install: $part" >&2
    done
}

by_hand() { # why
    echo "peers: $1. Please install by hand what is missing." >&2
    exit 1
}

too_old() { # who needs what, and what there is
    echo "peers: $1 needs $2 or newer, and here is $3" >&2
    exit 1
}

# --- parts ------------------------------------------------------------------------------------

# The list of what is wanted is copied last: what was interrupted half-way is done again.

python_libraries() {
    local list=requirements.txt missing=()
    cmp -s "$wanted/python/$list" "$peers/python/$list" && return
    command -v python3 >/dev/null || missing+=(python3)
    # Debian splits it off: venv can be imported without it, and makes no environment.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    apt_install "${missing[@]}"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        too_old "redis-py" "Python 3.10" "$(python3 --version)"
    echo "peers: fetching redis-py and python-redis-lock"
    rm -rf "$peers/python"
    python3 -m venv "$peers/python"
    "$peers/python/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary=:all: --requirement "$wanted/python/$list"
    cp "$wanted/python/$list" "$peers/python/$list"
}

node_libraries() {
    scripts/nodejs.sh setup
}

rslock() {
    build rslock
}

build() { # a folder
    command -v cargo >/dev/null || by_hand "cargo is missing"
    [ -x "$peers/rust/release/$1-peer" ] || echo "peers: building $1"
    CARGO_TARGET_DIR=$peers/rust cargo build --quiet --release --locked \
        --manifest-path "$wanted/$1/Cargo.toml"
}

main
