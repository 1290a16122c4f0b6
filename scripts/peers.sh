#!/usr/bin/env bash
# Installs into .peers/ the lock libraries that `make bench` measures dlock beside, in the versions
# that tests/bench/peers/ names. A second run finds everything there and asks no network.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
peers=$PWD/.peers
wanted=$PWD/tests/bench/peers

main() {
    install_packages
    new_enough
    mkdir -p "$peers"
    python_libraries
    node_libraries
    rust_library
}

# --- packages ---------------------------------------------------------------------------------

install_packages() {
    local missing=()
    command -v python3 >/dev/null || missing+=(python3)
    # Debian splits it off: venv can be imported without it, and makes no environment.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    command -v cargo >/dev/null || by_hand "cargo is missing"
    apt_install "${missing[@]}"
}

# What a distribution calls Node or Python may be older than the libraries allow.
new_enough() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
        too_old "redis-py" "Python 3.10" "$(python3 --version)"
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 16 ? 1 : 0)' ||
        too_old "@sesamecare-oss/redlock" "Node 16" "$(node --version)"
}

too_old() { # who needs what, and what there is
    echo "peers: $1 needs $2 or newer, and here is $3" >&2
    exit 1
}

by_hand() { # why
    echo "peers: $1. Please install by hand what is missing." >&2
    exit 1
}

# --- libraries --------------------------------------------------------------------------------

# The list of what is wanted is copied last: what was interrupted half-way is done again.

python_libraries() {
    local list=requirements.txt
    cmp -s "$wanted/python/$list" "$peers/python/$list" && return
    echo "peers: fetching redis-py and python-redis-lock"
    rm -rf "$peers/python"
    python3 -m venv "$peers/python"
    "$peers/python/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary=:all: --requirement "$wanted/python/$list"
    cp "$wanted/python/$list" "$peers/python/$list"
}

node_libraries() {
    local list=package-lock.json
    cmp -s "$wanted/node/$list" "$peers/node/$list.done" && return
    echo "peers: fetching @sesamecare-oss/redlock"
    rm -rf "$peers/node"
    mkdir "$peers/node"
    cp "$wanted/node/package.json" "$wanted/node/$list" "$peers/node"
    npm ci --loglevel=error --no-audit --no-fund --prefix "$peers/node"
    cp "$wanted/node/$list" "$peers/node/$list.done"
}

rust_library() {
    [ -x "$peers/rust/release/rslock-peer" ] || echo "peers: building rslock"
    CARGO_TARGET_DIR=$peers/rust cargo build --quiet --release --locked \
        --manifest-path "$wanted/rslock/Cargo.toml"
}

main
