#!/usr/bin/env bash
# Prints the rustc that has Rust's standard library for a target. That is the toolchain's own; rustup adds the library to
# it, if it can. Where it cannot, Debian 12's rustc-web is unpacked, once for a user, with the library that
# Debian compiled for the target. Debian has none for musl: that is compiled here, in some three minutes.
#
# Usage: std.sh TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
cargo=${CARGO:-cargo}
own=${RUSTC:-rustc}
target=$1
folder=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/std
debians=$folder/rustc

main() {
    ! { has_std "$own" || by_rustup; } || {
        echo "$own"
        return
    }
    {
        [ -x "$debians" ] || unpack
        has_std "$debians" || compile
    } >&2
    echo "$debians"
}

has_std() { # rustc
    compgen -G "$(library "$1")/libstd[.-]*rlib" >/dev/null
}

by_rustup() {
    [ "$own" = rustc ] && command -v rustup >/dev/null || return
    echo "std: asking rustup for Rust's standard library for $target" >&2
    rustup target add "$target" >&2
}

library() { # rustc
    "$1" --print target-libdir --target "$target"
}

# The compiler with the libraries that it needs, Rust's standard libraries for both processors, and their source.
unpack() {
    local packages file
    [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null || by_hand "this is not Debian on x86-64"
    rm -rf "$folder"
    mkdir -p "$folder/apt/parts" "$folder/debs" "$folder/debian"
    debian_suites deb bookworm bookworm-security >"$folder/apt/parts/debian.list"
    apt_ apt-get update -qq
    packages=$(apt_ apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances rustc-web | grep -xE '(libstd-rust-web|libllvm|libz3|libedit)\S*') ||
        by_hand "this machine's Debian has no rustc-web"
    echo "std: fetching Debian's rustc-web"
    # shellcheck disable=SC2086
    (cd "$folder/debs" && apt_ apt-get download -qq rustc-web rust-web-src libstd-rust-web-dev:arm64 $packages)
    for file in "$folder"/debs/*.deb; do dpkg -x "$file" "$folder/debian"; done
    rm -rf "$folder/debs" "$folder/apt"
    # It takes its place last: what was interrupted is done again.
    cat >"$folder/rustc.part" <<SH
#!/bin/sh
LD_LIBRARY_PATH=$folder/debian/usr/lib/x86_64-linux-gnu exec $folder/debian/usr/bin/rustc "\$@"
SH
    chmod +x "$folder/rustc.part"
    mv "$folder/rustc.part" "$debians"
}

apt_() { # apt-get or apt-cache, arguments
    apt_apart "$folder/apt" "$1" -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 "${@:2}"
}

# As Rust's own bootstrap does, which would want LLVM's sources, too. No folder of this machine is in it.
compile() {
    local source built=$folder/built flags
    source=$(echo "$folder"/debian/usr/src/rustc-*/library)
    echo "std: compiling Rust's standard library for $target"
    flags=(-Cembed-bitcode=yes -Zforce-unstable-if-unmarked "--remap-path-prefix=$folder/debian="
        "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo")
    (
        cd "$source"
        CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}") RUSTC=$debians RUSTC_BOOTSTRAP=1 "$cargo" build --quiet \
            --release --package sysroot --features panic-unwind,backtrace --target "$target" --target-dir "$built"
    )
    mkdir -p "$(library "$debians").part"
    cp "$built/$target"/release/deps/*.rlib "$(library "$debians").part"
    mv "$(library "$debians").part" "$(library "$debians")"
    rm -rf "$built"
}

by_hand() { # why
    echo "std: $own has no standard library for $target, and $1. Please run \`rustup target add $target\`." >&2
    exit 1
}

main
