#!/usr/bin/env bash
# Random faults for hours, unattended: HOURS=8. Shapes take turns: one node, three, five, a primary behind Sentinels, a
# cluster, holders that write late, and other locks under the same faults. Each run writes its history, and checkers
# that others wrote judge it. target/soak/report.md tells each turn; what went wrong has its log and its histories
# beside it, in 500 MB at most. After 20 turns that failed it ends: nobody reads more.
#
# Usage: soak.sh HOURS    (0.5 is half an hour; TURN=60 seconds a run, SHAPES="three five" some shapes alone)
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
hours=${1:?say for how many hours}
turn=${TURN:-60}
target=$("$cargo" metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
folder=$target/soak
report=$folder/report.md
most_failures=20
most_kept=$((500 * 1024))
# A turn that takes this much longer than its runs hangs.
patience=1200
shapes=(one kills three five power sentinel cluster late faults)

# The suite of a shape, and its tests: those of a row that belongs to many servers take turns.
tests_of() { # shape round
    local chaos=(::redis_8_2 ::valkey_9_1 ::redis_7_0 ::redis_8_6 ::valkey_8_1 _behind_tls)
    local server=${chaos[$(($2 % ${#chaos[@]}))]} kinds=(redis_8_2 valkey_9_1)
    case $1 in
    one) echo quorum random_faults::no_two_hold_together_on_one_node random_faults::no_more_hold ;;
    three) echo quorum random_faults::no_two_hold_together_while random_faults::no_writer_holds ;;
    five) echo quorum random_faults::no_two_hold_together_on_five_nodes ;;
    power) echo quorum random_faults::no_two_hold_together_on_one_node_while_its_power random_faults::no_two_hold_together_while_the_power ;;
    sentinel) echo quorum --exact chaos_sentinels::a_primary_behind_sentinels_keeps_its_promises"$server" ;;
    cluster) echo quorum --exact chaos_cluster::a_cluster_keeps_its_promises"$server" ;;
    kills) echo node restarts::crash::kills_of_a_server --skip "::${kinds[$(($2 % 2))]}" ;;
    late) echo quorum late_writers::a_write_with_its_fence ;;
    faults) echo hazards same_faults::dlock_o ;;
    *) echo "soak: there is no shape $1" >&2 && return 1 ;;
    esac
}

main() {
    read -ra shapes <<<"${SHAPES:-${shapes[*]}}"
    rm -rf "$folder"
    mkdir -p "$folder"
    build
    begin_report
    local begun=$SECONDS round=0 failures=0 shape
    local until=$((SECONDS + $(awk "BEGIN { print int($hours * 3600) }")))
    while [ $SECONDS -lt $until ]; do
        for shape in "${shapes[@]}"; do
            [ $SECONDS -lt $until ] || break
            take_turn "$shape" $round || failures=$((failures + 1))
            [ $failures -lt $most_failures ] || break 2
        done
        round=$((round + 1))
    done
    end_report $((SECONDS - begun)) $failures
    [ $failures = 0 ]
}

# --- building ---------------------------------------------------------------------------------

declare -A program=()

build() {
    local artifact='s|.*"target":{.*"name":"\([^"]*\)".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p'
    "$cargo" test --no-run -p dlock-tests --features soak --test quorum --test node --test hazards
    while read -r name file; do
        program[$name]=$file
    done < <("$cargo" test --no-run --quiet -p dlock-tests --features soak --message-format json \
        --test quorum --test node --test hazards | sed -n "$artifact")
}

# --- turns ------------------------------------------------------------------------------------

take_turn() { # shape round
    local name words begun=$SECONDS code=0 log
    name=$(printf '%s-%04d' "$1" "$2")
    log=$folder/$name/log
    mkdir -p "$folder/$name"
    read -ra words <<<"$(tests_of "$1" "$2")"
    DLOCK_HISTORIES=$folder/$name DLOCK_SOAK_RUN=$turn DLOCK_SOAK_CHAOS=$turn DLOCK_SOAK_FAULTS=$turn DLOCK_SOAK_KILLS=$((turn / 3)) \
        timeout --kill-after=10 $((turn * 10 + patience)) env --chdir=tests "${program[${words[0]}]}" \
        --nocapture --test-threads=2 "${words[@]:1}" >"$log" 2>&1 || code=$?
    grep -q '^test result: ok. [1-9]' "$log" || [ $code != 0 ] || code=99
    tell "$1" "$2" $code $((SECONDS - begun)) "$log"
    if [ $code = 0 ]; then
        rm -rf "${folder:?}/$name"
    else
        tail -c 1000000 "$log" >"$log.end" && mv "$log.end" "$log"
        make_room
        return 1
    fi
}

# The oldest histories go first.
make_room() {
    while [ "$(du -sk "$folder" | cut -f1)" -gt $most_kept ]; do
        rm -f "$(find "$folder" -name '*.jsonl' -printf '%T@ %p\n' | sort -n | head -1 | cut -d' ' -f2-)"
    done
}

# --- the report -------------------------------------------------------------------------------

begin_report() {
    {
        echo "# Soak of $hours hours, runs of $turn s"
        echo
        echo "$(git describe --always --dirty), $(uname -m), $(nproc) processors"
        echo
        echo "| shape | round | seconds | verdict | grants | runs |"
        echo "|---|---|---|---|---|---|"
    } >"$report"
}

tell() { # shape round code seconds log
    local verdict=kept grants runs
    [ "$3" = 0 ] || verdict="**failed ($3)**: see $1-$(printf %04d "$2")"
    grants=$(grep -oE '[0-9]+ (grants|holds)|counted [0-9]+' "$5" | grep -oE '[0-9]+' | awk '{ n += $1 } END { print n + 0 }')
    runs=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$5")
    echo "| $1 | $2 | $4 | $verdict | $grants | ${runs:-0} |" | tee -a "$report"
}

end_report() { # seconds failures
    {
        echo
        echo "$(($1 / 60)) minutes, $2 turns failed. By shape:"
        echo
        echo "| shape | turns | failed | minutes | grants | runs |"
        echo "|---|---|---|---|---|---|"
        awk -F ' *[|] *' '$3 ~ /^[0-9]+$/ { turns[$2]++; bad[$2] += ($5 != "kept"); s[$2] += $4; g[$2] += $6; n[$2] += $7 }
            END { for (one in turns) printf "| %s | %d | %d | %.1f | %d | %d |\n", one, turns[one], bad[one], s[one] / 60, g[one], n[one] }' \
            "$report" | sort
    } >"$folder/end"
    cat "$folder/end" >>"$report"
    cat "$folder/end"
    rm "$folder/end"
    echo "soak: $report"
}

main
