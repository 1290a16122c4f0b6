#!/usr/bin/env bash
# Builds the module and the program, side by side: the last step of the module keeps one processor
# busy for most of a minute. Both are in release/ of the target folder afterwards.
#
# Usage: build.sh TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
program=$1/release/dlock

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"$cargo" build --profile program -p dlock &
"$cargo" build --release -p dlock-module
wait $!
[ "$program" -nt "$1/program/dlock" ] || install "$1/program/dlock" "$program"
cp "$1/program/dlock.d" "$program.d"
scripts/split-debug.sh "$1/release/libdlock.so" "$program"
