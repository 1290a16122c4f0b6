#!/usr/bin/env bash
# The library for Python: its tools in .python/, its wheel in dist/, its tests. The tools that are missing
# are fetched first.
#
# Usage: python.sh setup            the tools that tests/python/requirements.txt names
#        python.sh build            a wheel that installs without a compiler
#        python.sh check            formatting, lints, types
#        python.sh install          that wheel, beside the tools
#        python.sh test [FILTER…]   the tests whose names contain one of these; SERVER=redis-8.2 picks those
#                                   with that server
#        python.sh world            the examples, with gunicorn, and other lock libraries
#        python.sh bench            figures, beside what they are to be compared with
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
cargo=${CARGO:-cargo}
tools=$PWD/.python
crate=src/python
tests=tests/python
# What the wheel may need of the machine: glibc 2.34, as in RHEL 9, Debian 12, Ubuntu 22.04.
platform=manylinux_2_34
largest=$((4 * 1024 * 1024))

setup() {
    local list=$tests/requirements.txt missing=()
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    apt_install "${missing[@]}"
    # The list is copied last: what was interrupted half-way is done again.
    cmp -s "$list" "$tools/requirements.txt" && return
    echo "python: fetching the tools for the Python library"
    rm -rf "$tools"
    python3 -m venv "$tools"
    pip install --only-binary=:all: --no-deps --requirement "$list"
    cp "$list" "$tools/requirements.txt"
}

build() {
    rm -f dist/dlock_redis-*.whl
    "$tools/bin/python" scripts/licences.py "dlock for Python" x86_64-unknown-linux-gnu dlock-python \
        >"$crate/THIRD-PARTY.txt"
    PATH=$tools/bin:$PATH maturin build --quiet --profile bindings --locked --manifest-path "$crate/Cargo.toml" \
        --target-dir "$PWD/target" --out dist --auditwheel check --compatibility "$platform"
    local wheel size
    wheel=$(echo dist/dlock_redis-*.whl)
    size=$(stat --format %s "$wheel")
    [ "$size" -le $largest ] || fail "$wheel has $size bytes; $largest are allowed"
    [[ $wheel == *-cp39-abi3-${platform}_x86_64.whl ]] || fail "$wheel is not for $platform"
    echo "python: $wheel, $((size / 1024)) KiB"
}

check() {
    "$tools/bin/ruff" format --quiet --check --config "$crate/pyproject.toml" "$crate" "$tests"
    "$tools/bin/ruff" check --quiet --config "$crate/pyproject.toml" "$crate" "$tests"
    MYPYPATH=$crate:$tests "$tools/bin/mypy" --config-file "$crate/pyproject.toml" \
        --cache-dir target/bindings/mypy --explicit-package-bases --namespace-packages \
        "$crate/dlock" "$crate"/examples/{cron,service,wsgi}.py "$tests"/*.py
}

install() {
    local wheel
    wheel=$(echo dist/dlock_redis-*.whl)
    [ -f "$wheel" ] || fail "there is no wheel in dist/: run \`make python\`"
    [ "$wheel" -nt "$tools/installed" ] || return 0
    pip install --no-deps --force-reinstall "$wheel"
    touch "$tools/installed"
}

tests() { # filters
    # What each thread does is shown of a test that takes very long.
    DLOCK_TESTS="$*" "$tools/bin/python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=300 \
        --ignore "$tests/world" "$tests"
}

# Beside real programs of others; `make test-world` calls it.
world() {
    local list=$tests/world/requirements.txt
    cmp -s "$list" "$tools/world.txt" || {
        pip install --only-binary=:all: --no-deps --requirement "$list"
        cp "$list" "$tools/world.txt"
    }
    install
    "$tools/bin/python" -m pytest -q -p no:cacheprovider "$tests/world"
}

pip() {
    "$tools/bin/python" -m pip "$1" --quiet --disable-pip-version-check "${@:2}"
}

fail() {
    echo "python: $1" >&2
    exit 1
}

by_hand() { # why
    fail "$1. Please install Python 3.11 or later with venv and pip."
}

case ${1:-} in
setup) setup ;;
build | check | install | world) setup; "$1" ;;
test) setup; tests "${@:2}" ;;
bench) setup; "$tools/bin/python" $tests/bench.py ;;
*) fail "say setup, build, check, install, test, world or bench" ;;
esac
