#!/usr/bin/env bash
# Tries what `make dist` has left where it is to run: in new roots of Debian, with Debian's own servers. The servers
# run in a network of their own, in which there is only loopback, and end with the test.
#
# Usage: test-dist.sh [SUITE…]    bookworm, trixie, bullseye; all, unless some are named
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
release=$PWD/dist/release
roots=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/roots
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
longest=60

main() {
    [ "$(id -u)" = 0 ] || by_hand "chroot wants root"
    command -v debootstrap >/dev/null || apt_install debootstrap
    # Ubuntu does not know Debian's keys.
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || apt_install debian-archive-keyring
    command -v ip >/dev/null || apt_install iproute2
    [ -f "$release/SHA256SUMS" ] || by_hand "there is no release: run \`make dist\`"
    (cd "$release" && sha256sum --check --quiet SHA256SUMS)
    newer=$(mktemp -d)
    trap 'rm -rf "$newer" ${root:+"$root"}' EXIT
    scripts/dist.sh debs newer >/dev/null
    mv "$release"/*+newer_*.deb "$newer/"
    [ $# -gt 0 ] || set -- bookworm trixie bullseye
    for suite in "$@"; do
        case $suite in
        bookworm) with_server redis ;;
        trixie)
            with_server redis
            with_server valkey
            ;;
        bullseye) without_server ;;
        *) by_hand "no such suite: $suite" ;;
        esac
    done
}

by_hand() { # why
    echo "test-dist: $1" >&2
    exit 1
}

# Installs, takes a lock, upgrades, removes: tests/dist/server.sh is what runs inside.
with_server() { # redis or valkey
    new_root
    local begun=$SECONDS seconds
    inside apt-get update -qq
    # Whoever names no server gets redis-server.
    install_debs "$([ "$1" = redis ] || echo "$1-server")"
    alone "$1" first
    seconds=$((SECONDS - begun))
    [ $seconds -le $longest ] || by_hand "$suite, $1: a lock took $seconds s; $longest are allowed"
    alone "$1" upgrade
    inside apt-get remove -y -qq dlock dlock-module >/dev/null
    alone "$1" removed
    inside apt-get purge -y -qq dlock dlock-module >/dev/null
    [ ! -e "$root/etc/dlock" ] || by_hand "$suite: purge leaves /etc/dlock"
    python_wheel
    echo "test-dist: $suite, $1: a lock $seconds s after an empty root, upgrade, removal"
}

# Debian 11 has a Redis that is too old for the module.
without_server() {
    new_root
    inside apt-get update -qq
    inside apt-get install -y -qq --no-install-recommends "$(file dlock_"$version"_)" >/dev/null
    inside dlock --version
    inside apt-get install -s "$(file dlock-module_"$version"_)" >/dev/null 2>&1 &&
        by_hand "$suite: dlock-module takes a Redis that is too old"
    python_wheel
    echo "test-dist: $suite: program and wheel"
}

install_debs() { # packages
    inside apt-get install -y -qq --no-install-recommends $1 \
        "$(file dlock_"$version"_)" "$(file dlock-module_"$version"_)" >"$root/log" 2>&1 || {
        cat "$root/log" >&2
        by_hand "$suite: the packages do not install"
    }
}

# What begins so, as it is called in the root.
file() { # prefix
    (cd "$root" && echo ./debs/"$1"*)
}

python_wheel() {
    inside apt-get install -y -qq --no-install-recommends python3 >/dev/null 2>&1
    inside python3 -m zipfile -e "$(file dlock_redis-)" /opt/wheel
    inside env PYTHONPATH=/opt/wheel python3 -c 'import dlock; print("wheel", dlock.__version__)'
}

# --- a root of Debian -------------------------------------------------------------------------

new_root() {
    [ -f "$roots/$suite.tar" ] || make_root
    rm -rf ${root:+"$root"}
    root=$(mktemp -d)
    tar --extract --file "$roots/$suite.tar" --directory "$root"
    # The server is not root.
    chmod 755 "$root"
    mkdir "$root/debs"
    cp "$release"/*.{deb,whl} "$newer"/*.deb tests/dist/server.sh "$root/debs/"
}

make_root() {
    echo "test-dist: making a root of $suite"
    local folder
    folder=$(mktemp -d)
    # The certificates of this machine: its mirror may be behind a proxy.
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" >"$folder.log"
    rm "$folder.log"
    # Packages start no service.
    printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"
    chmod +x "$folder/usr/sbin/policy-rc.d"
    mkdir -p "$roots"
    tar --create --file "$roots/$suite.tar.part" --directory "$folder" .
    mv "$roots/$suite.tar.part" "$roots/$suite.tar"
    rm -rf "$folder"
}

inside() { # command
    env --chdir="$root" DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
}

# In its own network and with its own processes: all of them end with the script.
alone() { # server, step
    unshare --net --pid --fork --kill-child --mount sh -c '
        ip link set lo up
        mount -t proc proc "$1/proc"
        mount -t tmpfs tmpfs "$1/run"
        exec chroot "$1" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
            /bin/bash /debs/server.sh "$2" "$3"' sh "$root" "$1" "$2" >"$root/log" 2>&1 || {
        cat "$root/log" >&2
        by_hand "$suite, $1: $2 failed"
    }
}

main "$@"
