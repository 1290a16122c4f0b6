#!/usr/bin/env bash
# Builds the image of packaging/images/debian.Containerfile from the archive that `make dist` has left, over a base made
# by debootstrap, so that no registry of images is asked, and tries what containers go through: kills, restarts, a lost
# volume. The containers have no network but loopback. The image for Alpine is only linted.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
suite=trixie
base=debian:13-slim
# Each letter needs care in a configuration file or in a URL.
password='a "b\c%é@/'

main() {
    [ "$(id -u)" = 0 ] || by_hand "containers want root here"
    set_up
    "$checks/bin/hadolint" --ignore DL3008 --ignore DL3018 packaging/images/*.Containerfile
    compgen -G 'dist/release/dlock-*-linux-gnu.tar.gz' >/dev/null || by_hand "there is no release: run \`make dist\`"
    folder=$(mktemp -d)
    trap end EXIT
    secrets
    build
    a_new_node_waits
    a_crash_is_remembered
    a_stop_is_clean
    the_exporter_watches
    a_lost_volume_is_noticed
    nobody_is_let_in_without_a_password
    echo "test-images: all passed"
}

by_hand() { # why
    echo "test-images: $1" >&2
    exit 1
}

set_up() {
    local missing=() program
    for program in podman runc debootstrap; do
        command -v $program >/dev/null || missing+=("$program")
    done
    apt_install "${missing[@]}"
    install_checks
}

end() {
    podman_ rm --all --force --depend >/dev/null 2>&1 || true
    podman_ rmi --all --force >/dev/null 2>&1 || true
    rm -rf "$folder"
}

# Its images and containers are in a folder of this test.
podman_() { # arguments
    podman --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs --cgroup-manager cgroupfs \
        --runtime runc "$@"
}

secrets() {
    mkdir "$folder/secrets"
    printf '%s\n' "$password" >"$folder/secrets/password"
    echo watching >"$folder/secrets/watch"
    chmod 755 "$folder" "$folder/secrets"
}

build() {
    local target image
    image=$(debian_root $suite amd64)
    podman_ import --quiet --change "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        "$image" "$base" >/dev/null
    for target in program server; do
        echo "test-images: building $target"
        podman_ build --quiet --isolation chroot --network host --format docker --pull-never --target $target \
            --file packaging/images/debian.Containerfile --tag localhost/dlock-$target . >"$folder/log" 2>&1 || {
            cat "$folder/log" >&2
            by_hand "the image $target cannot be built"
        }
    done
}

# --- what is tried ------------------------------------------------------------------------------

a_new_node_waits() {
    node new-volume
    is_in_quarantine "this node has no state file"
    podman_ exec node dlock-node alive | grep -q NOAUTH || by_hand "a node in quarantine is not alive"
    podman_ rm --force node >/dev/null
    node volume --dlock.newborn-quarantine 0
    is_ready
}

# The volume remembers the fence and who the node is, and the node waits.
a_crash_is_remembered() {
    local fence later name
    fence=$(ask DLOCK.ACQUIRE job token 30000)
    name=$(state node-id)
    podman_ kill --signal KILL node >/dev/null
    podman_ start node >/dev/null
    is_in_quarantine "the last life ended without a clean shutdown"
    [ "$(state node-id) $(state boot)" = "$name 2" ] || by_hand "the state file has not survived"
    ask CONFIG SET dlock.quarantine off >/dev/null
    ask DEL job >/dev/null
    later=$(ask DLOCK.ACQUIRE job token 30000)
    [ "$later" -gt "$fence" ] || by_hand "after a crash the fence $later is not above $fence"
}

# What Kubernetes and Docker send first is TERM.
a_stop_is_clean() {
    local fence
    fence=$(ask DLOCK.CHECK job token)
    podman_ stop --time 10 node >/dev/null
    [ "$(podman_ inspect --format '{{.State.ExitCode}}' node)" = 0 ] || by_hand "a stop is no clean end"
    podman_ start node >/dev/null
    is_ready
    [ "$(ask DLOCK.CHECK job token)" = "$fence" ] || by_hand "a stop has lost a lock"
}

the_exporter_watches() {
    podman_ run --pull never --detach --name exporter --network container:node "${limits[@]}" \
        --env DLOCK_NODES=redis://watch:watching@127.0.0.1 localhost/dlock-program exporter >/dev/null
    eventually "the exporter sees the node" exporter_sees
    podman_ exec node sh -c 'valkey-cli --user watch --pass watching --no-auth-warning DLOCK.ACQUIRE a b 1000' |
        grep -q NOPERM || by_hand "the user watch takes locks"
    podman_ stop --time 10 exporter >/dev/null
    [ "$(podman_ inspect --format '{{.State.ExitCode}}' exporter)" = 0 ] || by_hand "TERM does not end the exporter"
    podman_ rm exporter >/dev/null
}

exporter_sees() {
    podman_ exec exporter bash -c 'exec 3<>/dev/tcp/127.0.0.1/9763
        printf "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" >&3; cat <&3' |
        grep '^dlock_up.* 1.0$'
}

a_lost_volume_is_noticed() {
    podman_ rm --force node >/dev/null
    podman_ volume rm volume >/dev/null
    node volume
    is_in_quarantine "this node has no state file"
    podman_ rm --force node >/dev/null
}

nobody_is_let_in_without_a_password() {
    podman_ run --pull never --detach --name node --network none "${limits[@]}" localhost/dlock-server >/dev/null
    eventually "a node without a password answers" podman_ exec node dlock-node alive
    podman_ exec node valkey-cli CONFIG GET bind | grep -qx '127.0.0.1 -::1' ||
        by_hand "a node without a password listens beyond loopback"
}

# --- a node -------------------------------------------------------------------------------------

# As many open files as this machine lets us have; a runtime would ask for more.
limits=(--read-only --no-hosts --ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit nproc=1000:1000
    --cap-drop all --security-opt no-new-privileges)

node() { # volume, arguments of the server
    podman_ run --pull never --detach --name node --network none --health-interval disable "${limits[@]}" \
        --volume "$1:/data" --volume "$folder/secrets:/run/secrets:ro" \
        --env DLOCK_PASSWORD_FILE=/run/secrets/password --env DLOCK_WATCH_PASSWORD_FILE=/run/secrets/watch \
        localhost/dlock-server serve "${@:2}" >/dev/null
    eventually "the node answers" podman_ exec node dlock-node alive
}

is_ready() {
    eventually "the node is healthy" podman_ healthcheck run node
}

is_in_quarantine() { # what the log says of it
    eventually "the node logs that $1" logs "$1"
    ! podman_ exec node dlock-node ready 2>"$folder/said" || by_hand "a node is ready although $1"
    grep -q 'in quarantine' "$folder/said" || by_hand "a node is not ready, and says: $(cat "$folder/said")"
}

logs() { # words
    podman_ logs node 2>&1 | grep "quarantine: nothing is granted" | tail -1 | grep -q "$1"
}

ask() { # command
    podman_ exec --env REDISCLI_AUTH="$password" node valkey-cli "$@"
}

state() { # word of the state file
    podman_ exec node sed -n "s/^$1 //p" dlock-6379.state
}

eventually() { # what, command
    local _
    for _ in $(seq 100); do
        ! "${@:2}" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    podman_ logs node >&2 || true
    by_hand "not within ten seconds: $1"
}

main "$@"
