#!/usr/bin/env bash
# Runs the test suite of Redis 7.0 itself, on the server of the distribution with the module loaded,
# and compares what fails with tests/server-tests.txt. An unknown failure fails, and so does a listed
# test that passes. What the machine is to blame for does not count: a unit with an unknown failure
# runs again alone, and then without the module.
#
# Usage: server-tests.sh MODULE [UNIT...]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
module=$(realpath "$1")
shift
list=$PWD/tests/server-tests.txt
folder=$PWD/.server-tests
tags="-slow -needs:repl"

main() { # units
    mkdir -p "$folder"
    install_packages
    get_the_suite
    local units=()
    for unit in "$@"; do units+=(--single "$unit"); done

    known | cut -f2 >"$folder/skip"
    # A test that is known to fail may leave others waiting, so it is not run among them.
    suite all --skipfile "$folder/skip" "${units[@]}" --config loadmodule "$module"
    local failed=0
    unknown_failures "$@" || failed=1
    known_passes "$@" || failed=1
    [ $failed = 0 ] && echo "server-tests: as it should be ($(grep -c '^\[ok\]' "$folder/all.log") tests passed)"
    return $failed
}

# --- the suite ----------------------------------------------------------------------------------

install_packages() {
    local missing=()
    command -v tclsh >/dev/null || missing+=(tcl)
    command -v redis-benchmark >/dev/null || missing+=(redis-tools)
    apt_install "${missing[@]}"
}

by_hand() { # why
    echo "server-tests: $1. Please install by hand what is missing." >&2
    exit 1
}

# The suite is in the distribution's source package of the server that is installed.
get_the_suite() {
    local version
    version=$(dpkg-query --show --showformat '${source:Version}' redis-tools)
    place=$folder/$version
    [ -e "$place/done" ] && return
    echo "server-tests: fetching the sources of redis $version"
    rm -rf "$place"
    mkdir -p "$place" "$folder/apt/parts"
    as_sources
    apt_apart "$folder/apt" apt-get update -qq
    (cd "$place" && apt_apart "$folder/apt" apt-get source -qq --download-only --tar-only "redis=$version")
    tar --extract --file "$place"/redis_*.orig.tar.gz --directory "$place" --strip-components 1
    link_binaries
    touch "$place/done"
}

# Where packages come from, their sources come from as well.
as_sources() {
    local file name
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
        [ -e "$file" ] || continue
        name=$(basename "$file")
        case $name in
            *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" ;;
            *) sed -n 's/^deb\( .*\)/deb-src\1/p' "$file" ;;
        esac >"$folder/apt/parts/$name"
    done
}

link_binaries() {
    local server tool
    server=$(command -v redis-server || command -v redis-check-rdb)
    # One executable, which looks at its name.
    for tool in redis-server redis-sentinel redis-check-rdb redis-check-aof; do
        ln -sf "$server" "$place/src/$tool"
    done
    for tool in redis-cli redis-benchmark; do
        ln -sf "$(command -v $tool)" "$place/src/$tool"
    done
}

# --- runs ---------------------------------------------------------------------------------------

# Leaves what was said in NAME.log, one line a test: [ok]: NAME (n ms), or [err]: NAME in FILE.
suite() { # name, arguments of runtest
    local log=$folder/$1.log
    shift
    echo "server-tests: $(basename "$log" .log)"
    (cd "$place" && timeout 3000 ./runtest --durable --timeout 300 --tags "$tags" \
        --baseport "${BASEPORT:-24111}" "$@") 2>&1 </dev/null | sed 's/\x1b\[[0-9;]*m//g' >"$log" || true
}

alone() { # name, unit, arguments of runtest
    suite "$1" --clients 1 --single "$2" "${@:3}"
}

# UNIT and NAME of what failed, with a tab between them. A unit that never ended has failed, too.
failures() { # name
    sed -n 's|^\[err\]: \(.*\) in tests/\(.*\)\.tcl$|\2\t\1|p; s|^\[exception\]: \(.*\)|?\t\1|p' \
        "$folder/$1.log" | sort -u
    comm -23 <(sed -n 's/^Testing //p' "$folder/$1.log" | sort -u) \
        <(sed -n 's/^\[[0-9/]* done\]: \([^ ]*\) .*/\1/p' "$folder/$1.log" | sort -u) |
        sed 's/$/\tdid not end/'
}

# --- judgement ----------------------------------------------------------------------------------

# The list: unit, test and reason, with tabs between them.
known() {
    grep -v -e '^#' -e '^$' "$list"
}

unknown_failures() {
    local unit failed=0
    grep -q '^\[ok\]' "$folder/all.log" || { tail "$folder/all.log"; return 1; }
    for unit in $(failures all | cut -f1 | sort -u); do
        [ "$unit" = '?' ] && { failures all | grep '^?'; failed=1; continue; }
        alone again "$unit" --skipfile "$folder/skip" --config loadmodule "$module"
        [ -z "$(failures again)" ] && continue
        alone without "$unit" --skipfile "$folder/skip"
        comm -23 <(failures again) <(failures without) >"$folder/unknown"
        [ -s "$folder/unknown" ] || continue
        echo "server-tests: these fail with the module, and not without it:"
        sed 's/^/  /' "$folder/unknown"
        cp "$folder/again.log" "$folder/unknown.log"
        failed=1
    done
    return $failed
}

known_passes() { # units
    local unit name failed=0
    for unit in $(known | cut -f1 | sort -u); do
        [ $# = 0 ] || [[ " $* " = *" $unit "* ]] || continue
        alone listed "$unit" --timeout 60 --config loadmodule "$module"
        while IFS=$'\t' read -r _ name _; do
            grep -qF "[err]: $name in " "$folder/listed.log" && continue
            grep -qF "[ok]: $name (" "$folder/listed.log" || continue
            echo "server-tests: listed, and it passes: $unit: $name"
            failed=1
        done < <(known | grep "^$unit"$'\t')
    done
    return $failed
}

main "$@"
