#!/usr/bin/env bash
# Starts local nodes, shows a lock at work on them, and stays until Ctrl-C. `make run` calls it.
#
# Usage: run.sh TARGET [OPTION of dlock dev]…
set -euo pipefail
program=$(realpath "$1")/release/dlock
work=$(mktemp --directory)
dlock() { "$program" "$@"; }

main() {
    trap 'kill "$nodes" 2>/dev/null || true; wait; rm -rf "$work"' EXIT
    "$program" dev "$@" >"$work/nodes" &
    nodes=$!
    until grep -qs 'Ctrl-C here' "$work/nodes"; do
        kill -0 "$nodes"
        sleep 0.1
    done
    DLOCK_NODES=$(sed -n 's/^ *export DLOCK_NODES=//p' "$work/nodes")
    export DLOCK_NODES

    printf 'A lock at work, on these nodes. Alice takes it:\n\n'
    shown dlock acquire demo --ttl 60s --meta who=alice | tee "$work/lease"
    eval "$(grep DLOCK_TOKEN= "$work/lease")"
    printf '\nBob wants it too, and waits:\n\n'
    shown dlock run -w 60 demo -- printenv DLOCK_FENCE &
    bob=$!
    until [ -n "$(dlock ls --contended --json)" ]; do sleep 0.1; done
    shown dlock inspect demo
    printf '\nAlice gives it back, and Bob has it, with a larger fence:\n\n'
    shown dlock release demo
    wait "$bob"
    printf '\n'
    cat "$work/nodes"
    wait "$nodes"
}

# Prints a command, and its output.
shown() {
    echo "  $ $*"
    "$1" --node-timeout 20s "${@:2}" | sed 's/^/  /'
}

main "${@:2}"
