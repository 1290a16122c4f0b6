#!/usr/bin/env bash
# Builds the module and the program, side by side: the last step of the module keeps one processor
# busy for most of a minute. Both are in release/ of the target folder afterwards.
#
# Usage: build.sh TARGET
#   BUILD='--bins --tests'    with the tests, and their choice of features: nothing is compiled twice then
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
program=$1/release/dlock

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"$cargo" build ${BUILD:--p dlock} &
"$cargo" build --release -p dlock-module
wait $!
[ "$program" -nt "$1/debug/dlock" ] || install "$1/debug/dlock" "$program"
cp "$1/debug/dlock.d" "$program.d"
scripts/split-debug.sh "$1/release/libdlock.so" "$program"
