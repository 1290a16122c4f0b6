#!/usr/bin/env bash
# Simulates tests/proof/quint/fences.qnt: many random traces, in which each invariant of the sound rule holds, and in which those
# of bent rules do not. Quint is fetched from npm into .world/. It could also search all states, with Apalache, which
# it downloads from elsewhere: that has not been tried.
#
# Usage: quint.sh [TRACES]
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=tests/proof/quint
installed=.world/quint
list=package-lock.json

main() {
    cmp -s $wanted/$list $installed/$list.done || {
        rm -rf $installed
        mkdir -p $installed
        cp $wanted/{package.json,$list} $installed
        npm ci --loglevel=error --no-audit --no-fund --ignore-scripts --prefix $installed
        cp $wanted/$list $installed/$list.done
    }
    simulate sound "${1:-3000}"
    for bent in half above; do
        if said=$(simulate $bent 1000); then
            echo "quint: nothing is found in the module $bent" >&2
            exit 1
        fi
        grep -q '^\[violation\]' <<<"$said" || { echo "$said" && exit 1; }
        echo "quint: the module $bent breaks it, as it must"
    done
}

# The Rust backend would be fetched from elsewhere.
simulate() { # module traces
    $installed/node_modules/.bin/quint run --backend typescript --verbosity 1 --seed 7 --main "$1" --invariant kept \
        --max-samples "$2" --max-steps 40 $wanted/fences.qnt
}

main "$@"
