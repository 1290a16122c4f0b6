#!/usr/bin/env bash
# Runs a command beside busy loops (LOOPS=3), which end with it, whatever happens; again and again (RUNS=1), until it
# fails.
set -euo pipefail

loops=()
verdict=$(mktemp)
trap 'rm -f "$verdict"; [ ${#loops[@]} = 0 ] || kill "${loops[@]}"' EXIT
for _ in $(seq "${LOOPS:-3}"); do
    # The kernel ends them with this script, even if nobody asks it.
    setpriv --pdeathsig KILL sh -c 'while :; do :; done' &
    loops+=($!)
done
runs=${RUNS:-1}
for run in $(seq "$runs"); do
    echo "busy: run $run of $runs, beside ${#loops[@]} busy loops"
    VERDICT=$verdict "$@" && continue
    echo "busy: run $run of $runs: $(cat "$verdict")"
    exit 1
done
