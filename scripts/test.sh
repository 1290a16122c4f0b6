#!/usr/bin/env bash
# Runs all tests. Most of them wait, for leases to end and for servers to start: so the suites run
# side by side, and the largest in a process for each server. The proof waits for nothing and runs beside
# them with a lower priority, in the processor time that they leave. All suites run; failures come last.
#
# Usage: test.sh [FILTER...]    the tests whose names contain one of these
#   SERVER=redis-8.2            those with this server, and those that need none
#   JOBS=6                      so many suites at a time
#   RUST_TEST_THREADS=3         so many tests of a suite at a time
#   LIMIT=1500                  seconds after which a suite that hangs is ended, and has failed
#   VERDICT=FILE                leaves the closing line there, too, if something failed
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
jobs=${JOBS:-$((3 * $(nproc)))}
limit=${LIMIT:-1500}
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))}
# The first has every test, the second most of them.
kinds=(redis_8_2 valkey_9_1 redis_7_0 redis_8_6 valkey_8_1)
filters=("$@")

main() {
    choose_servers
    build
    for name in mutants sim model dlock_redis_core; do suite "$name"; done
    # The longest first: nothing is left that runs alone at the end.
    for name in quorum cli; do suite "$name"; done
    start nodejs scripts/nodejs.sh test "${filters[@]}"
    for kind in "${wanted[@]:0:2}"; do suite node "$kind"; done
    start python scripts/python.sh test "${filters[@]}"
    for name in hazards conformance; do suite "$name"; done
    for kind in "${wanted[@]:2}"; do suite node "$kind"; done
    nodejs_oldest
    for name in "${!program[@]}"; do suite "$name"; done
    start documentation "$cargo" test --quiet --doc -- "${filters[@]}"
    while [ ${#running[@]} != 0 ]; do wait_for_one; done
    report
}

# --- what there is ----------------------------------------------------------------------------

declare -A program=() folder=()

# Builds the tests, and takes down where each suite is. Unit tests are called like their library or
# program.
build() {
    local artifact='s|.*"manifest_path":"\([^"]*\)/Cargo.toml","target":{.*"name":"\([^"]*\)".*'
    artifact+='"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2 \3|p'
    "$cargo" test --no-run
    scripts/python.sh install
    scripts/nodejs.sh install
    while read -r there name file; do
        folder[$name]=$there
        program[$name]=$file
    done < <("$cargo" test --no-run --quiet --message-format json | sed -n "$artifact")
}

choose_servers() {
    wanted=("${kinds[@]}")
    [ -n "${SERVER:-}" ] || return 0
    wanted=("$(tr '.-' '__' <<<"$SERVER")")
    [[ " ${kinds[*]} " == *" ${wanted[0]} "* ]] && return
    echo "test: there is no server $SERVER: see .servers/" >&2
    exit 1
}

# --- running it -------------------------------------------------------------------------------

declare -A begun=() running=()
failed=()
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

# Suites that keep a processor busy and start no server.
busy=" mutants sim model dlock_redis_core "
# Suites that wait most of the time, and long: more of their tests run at a time.
waiting=" quorum cli conformance "

# Starts a suite, with one server or with all that are wanted; once, unless it is divided.
suite() { # name [server]
    local kind skipped=() first=() threads=$RUST_TEST_THREADS
    [[ $busy != *" $1 "* ]] || first=(nice -n 5)
    [[ $waiting != *" $1 "* ]] || threads=$((threads + 2))
    [ $# = 2 ] || [ -z "${begun[$1]:-}" ] || return 0
    begun[$1]=yes
    for kind in "${kinds[@]}"; do
        [[ " ${2:-${wanted[*]}} " == *" $kind "* ]] || skipped+=(--skip "::$kind")
    done
    start "$*" "${first[@]}" env --chdir="${folder[$1]}" RUST_TEST_THREADS="$threads" "${program[$1]}" "${skipped[@]}" "${filters[@]}"
}

# Some of the tests of the library for Node.js, by the oldest Node.js, and with one server.
nodejs_oldest() {
    [[ " ${wanted[*]} " == *" redis_8_2 "* ]] || return 0
    start "nodejs oldest" env SERVER=redis-8.2 scripts/nodejs.sh test-oldest "${filters[@]}"
}

# Starts a command as soon as there is room for it.
start() { # name command
    while [ $((${#running[@]} - $(proofs))) -ge "$jobs" ]; do wait_for_one; done
    timeout --kill-after=10 "$limit" "${@:2}" >"$logs/$1" 2>&1 &
    running[$!]=$1
}

# The number of suites that run with a lower priority: they do not count as jobs.
proofs() {
    local name count=0
    for name in "${running[@]}"; do [[ $busy != *" $name "* ]] || count=$((count + 1)); done
    echo $count
}

wait_for_one() {
    local ended code=0 name
    times >"$logs/before"
    wait -n -p ended || code=$?
    times >"$logs/after"
    name=${running[$ended]}
    unset "running[$ended]"
    [ $code = 0 ] || failed+=("$name")
    printf '%4d s  %-20s %s, %d s of a processor\n' $SECONDS "$name" "$(outcome "$name" $code)" "$(worked)"
}

# The seconds for which the suite that has just ended kept a processor busy, with its servers.
worked() {
    awk 'NR == 2 { gsub(/[ms]/, " "); all = ($1 + $3) * 60 + $2 + $4 } NR == 4 { gsub(/[ms]/, " "); printf "%d", ($1 + $3) * 60 + $2 + $4 - all }' \
        "$logs/before" "$logs/after"
}

outcome() { # name code
    local passed
    passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p; s/^\([0-9]*\) passed.* in .*/\1/p; s/^.* pass \([0-9]*\)$/\1/p' "$logs/$1" |
        awk '{ n += $1 } END { print n }')
    case $2 in
    0) echo "${passed:-0} passed" ;;
    124 | 137) echo "FAILED: had not ended after $limit s" ;;
    *) echo "FAILED" ;;
    esac
}

# Shows what failed suites said of their failures, or all that they said if they did not come so far. The closing line
# names each test that failed.
report() {
    local name verdict=()
    [ ${#failed[@]} = 0 ] && echo "test: all passed, in $SECONDS s" && return
    for name in "${failed[@]}"; do
        printf '\n--- %s ---\n' "$name"
        sed -n '/^failures:$/,$p' "$logs/$name" | grep . || cat "$logs/$name"
        verdict+=("$name: $(named "$name" | paste -sd, | sed 's/,/, /g')")
    done
    printf '%s\n' "${verdict[@]}" | paste -sd';' | sed 's/;/; /g; s/^/FAILED: /' | tee "${VERDICT:-/dev/null}"
    exit 1
}

# The tests of a suite that failed; of one that came to no end, those that were still running.
named() { # name
    local found
    found=$({
        # Rust's list is the last thing before its result, and that of Node.js is the last of all.
        tac "$logs/$1" | sed -n '/^test result: FAILED/,/^failures:$/s/^    //p' | tac
        sed -n 's/^\(FAILED\|ERROR\) \([^ ]*::[^ ]*\).*/\2/p' "$logs/$1"
        sed -n '/failing tests:$/,$s/^ *✖ \(.*\) ([0-9.]*ms)$/\1/p' "$logs/$1"
    } | sort -u)
    [ -n "$found" ] || found=$(awk '/has been running for over/ { slow[$2] } /^test .* \.\.\. / { delete slow[$2] }
        END { for (name in slow) print name " (did not end)" }' "$logs/$1")
    echo "${found:-$(tail -n 1 "$logs/$1")}"
}

main
