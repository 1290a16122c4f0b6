#!/usr/bin/env bash
# Makes the pictures of a real run in docs/pictures. `make recording` calls it. run.svg: `dlock run` on two hosts, in
# motion; the first host holds the lock and is killed, and the second one waits, and runs. top.svg: `dlock top`.
# It installs tmux, asciinema and svg-term, the latter into .world/.
#
# Usage: recording.sh TARGET [run|top]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
dlock=$1/release/dlock
tools=$PWD/.world/svg-term
work=$(mktemp --directory)
clients=()
screen() { tmux -S "$work/tmux" "$@"; }

main() {
    setup
    trap 'screen kill-server 2>/dev/null || true; kill "${clients[@]}" "$nodes" 2>/dev/null || true; rm -rf "$work"' EXIT
    "$dlock" dev -n 3 --server .servers/redis-8.2 >"$work/nodes" &
    nodes=$!
    until grep -qs ready "$work/nodes"; do sleep 0.1; done
    DLOCK_NODES=$(sed -n 's/^ *export DLOCK_NODES=//p' "$work/nodes")
    [ "${1:-run}" != run ] || run
    [ "${1:-top}" != top ] || top
}

run() {
    printf '#!/bin/sh\nfor step in 1 2 3 4 5 6 7 8 9; do echo "deploying: step $step"; sleep 1; done\n' >"$work/deploy.sh"
    chmod +x "$work/deploy.sh"
    screen -f /dev/null new-session -d -x 90 -y 17 "$(host web-1)"
    screen set-option -g status off
    screen split-window "$(host web-2)"
    (play) &
    asciinema rec --quiet --overwrite --cols 90 --rows 17 -c "tmux -S $work/tmux attach" "$work/cast"
    # The last screen stays: tmux clears it when it ends.
    sed -i 's/^\(\[[0-9.]*, "o", \).*\(1049l\|server exited\).*/\1""]/' "$work/cast"
    draw run
}

# One client holds each lock, and others wait.
top() {
    local key
    export DLOCK_NODES
    for key in nightly nightly nightly account:7 account:7 deploy; do
        client run "$key" -- sleep 60
        sleep 0.5
    done
    asciinema rec --quiet --overwrite --cols 100 --rows 14 -c "timeout --foreground 8 $dlock top" "$work/cast"
    # svg-term makes one of several spaces, so they are drawn as blanks of Braille.
    sed -i 's/  /\xe2\xa0\x80\xe2\xa0\x80/g' "$work/cast"
    draw top --at 6000
    sed -i 's/\xe2\xa0\x80/\xc2\xa0/g' docs/pictures/top.svg
}

client() { # arguments
    "$dlock" "$@" >/dev/null 2>&1 &
    clients+=($!)
}

draw() { # picture, options
    "$tools/node_modules/.bin/svg-term" --in "$work/cast" --out "docs/pictures/$1.svg" --no-cursor --padding 10 "${@:2}"
}

setup() {
    local missing=()
    command -v tmux >/dev/null || missing+=(tmux)
    command -v asciinema >/dev/null || missing+=(asciinema)
    command -v npm >/dev/null || missing+=(npm)
    apt_install "${missing[@]}"
    [ -x "$tools/node_modules/.bin/svg-term" ] ||
        npm install --loglevel=error --no-audit --no-fund --ignore-scripts --prefix "$tools" svg-term-cli@2.1.1 >/dev/null
}

host() { # name
    echo "cd $work; env PATH=$(dirname "$dlock"):\$PATH PS1='$1\$ ' DLOCK_NODES=$DLOCK_NODES bash --norc --noprofile"
}

play() {
    until screen list-clients | grep -q .; do sleep 0.1; done
    sleep 1
    type_in 0 'dlock run --ttl 5s deploy -- ./deploy.sh'
    shows 0 'step 2'
    type_in 1 'dlock run --ttl 5s deploy -- ./deploy.sh'
    shows 0 'step 5'
    kill -9 "$(holder)"
    shows 1 'step 4'
    sleep 2
    screen kill-server
}

# The process that META names.
holder() {
    "$dlock" inspect --nodes "$DLOCK_NODES" deploy | sed -n 's/.* holds .* pid=\([0-9]*\) .*/\1/p' | head -1
}

type_in() { # pane, text
    screen send-keys -t "$1" "$2" Enter
}

shows() { # pane, text
    until screen capture-pane -p -t "$1" | grep -q "$2"; do sleep 0.1; done
}

by_hand() { # why
    echo "recording: $1. Please install by hand what is missing." >&2
    exit 1
}

main "${2:-}"
