#!/usr/bin/env bash
# Builds what a release consists of, into dist/release/: archives, Debian packages, wheels, the packages for Node.js,
# SBOMs and SHA256SUMS. Neither the folder nor the time of a build is in it.
#
# Usage: dist.sh            everything, for each of TARGETS; without any, for this machine
#        dist.sh modules    archives and Debian packages only
#        dist.sh debs NAME  Debian packages only, with the suffix NAME in their version, of the archives in dist/release/
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
cargo=${CARGO:-cargo}
rustc=${RUSTC:-rustc}
# The libraries of glibc's targets run on glibc 2.28 and later: Debian 10, Ubuntu 20.04, RHEL 8. Those of musl's run on
# musl 1.2, and the program needs no library at all.
glibc=2.28
musl=1.2
own=x86_64-unknown-linux-gnu
#       target                      Debian's name    npm's name
known="
        x86_64-unknown-linux-gnu    amd64            linux-x64-gnu
        aarch64-unknown-linux-gnu   arm64            linux-arm64-gnu
        x86_64-unknown-linux-musl   -                linux-x64-musl
        aarch64-unknown-linux-musl  -                linux-arm64-musl
"
tools=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/dist
built=$PWD/target/dist
release=$PWD/dist/release
largest=$((4 * 1024 * 1024))
largest_program=$((12 * 1024 * 1024))
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
repository=$(sed -n '/^\[workspace.package\]/,/^$/s/^repository = "\(.*\)"/\1/p' Cargo.toml)
archives=dlock-$version
# The packages' name is here and in no second place: dlock is taken.
name=$(sed -n 's/^name = "\(.*\)"/\1/p' src/python/pyproject.toml)

main() {
    [ "$(uname -sm)" = "Linux x86_64" ] || fail "this is not Linux on x86-64"
    scripts/release.sh check
    reproducible
    case ${1:-all} in
    all)
        rm -rf "$release" "$built/npm"
        mkdir -p "$release"
        set_up
        texts
        scripts/nodejs.sh setup
        each std modules wheel node_platform sboms
        node_packages
        sums
        ;;
    modules)
        mkdir -p "$release"
        set_up
        texts
        each std modules
        ;;
    debs)
        version=$version+$2
        each unpack debs
        ;;
    *) fail "say modules or debs, or nothing" ;;
    esac
}

each() { # functions
    local step
    for target in ${TARGETS:-$own}; do
        read -r _ debian node_platform < <(grep -- " $target " <<<"$known") ||
            fail "no such target: $target. There are:$known"
        archive=$archives-$target
        tree=$built/$archive
        for step in "$@"; do $step; done
    done
}

# No time but the commit's, and no folder of this machine, is in what is built.
reproducible() {
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
    export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
    umask 022
    local home=${CARGO_HOME:-$HOME/.cargo}
    export CARGO_ENCODED_RUSTFLAGS=--remap-path-prefix=$PWD=/dlock$'\x1f'--remap-path-prefix=$home=/cargo
    export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=debuginfo
}

# Once for a user: further clones find the tools there. They are outside the clone, too, because zig names its headers
# by a relative path if it can, and bindgen does not find them by that.
set_up() {
    local list=packaging/tools.txt
    cmp -s $list "$tools/tools.txt" || {
        echo "dist: fetching cargo-zigbuild, maturin and zig"
        python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
        rm -rf "$tools/python"
        python3 -m venv "$tools/python"
        "$tools/python/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
            --only-binary=:all: --requirement $list
        cp $list "$tools/tools.txt"
    }
    [ -x "$tools/cargo/bin/cargo-cyclonedx" ] || {
        echo "dist: compiling cargo-cyclonedx, for some three minutes"
        env -u CARGO_ENCODED_RUSTFLAGS "$cargo" install --quiet --locked --root "$tools/cargo" cargo-cyclonedx@0.5.9
    }
    PATH=$tools/python/bin:$tools/cargo/bin:$PATH
}

# Manual pages and completions are the same for all targets. This machine's own program writes them, for others do not
# run here.
texts() {
    local share=$built/share
    rm -rf "$share"
    mkdir -p "$share"/{man/man1,bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
    own_program man --dir "$share/man/man1"
    own_program completions bash >"$share/bash-completion/completions/dlock"
    own_program completions fish >"$share/fish/vendor_completions.d/dlock.fish"
    own_program completions zsh >"$share/zsh/site-functions/_dlock"
}

# That of `make build`, which is built anew if one of these differs.
own_program() { # arguments
    env -u CARGO_ENCODED_RUSTFLAGS -u CARGO_PROFILE_RELEASE_DEBUG -u CARGO_PROFILE_RELEASE_STRIP -u SOURCE_DATE_EPOCH \
        "$cargo" run --quiet -p dlock -- "$@"
}

by_hand() { # why
    fail "$1"
}

fail() {
    echo "dist: $1" >&2
    exit 1
}

# --- the module and the program ---------------------------------------------------------------

std() {
    RUSTC=$(RUSTC=$rustc scripts/std.sh "$target")
    export RUSTC
}

modules() {
    compile library --release -p dlock-module
    compile program --release -p dlock
    plant
    pack "$tree" "$release/$archive.tar.gz"
    debs
}

compile() { # program or library, arguments of cargo
    local zig=$target
    [[ $target == *-musl ]] || zig=$target.$glibc
    with_flags "$1" "$cargo" zigbuild --quiet --locked --target "$zig" --target-dir "$(folder "$1")" "${@:2}"
}

# What is compiled for musl by other flags would take the place of the same packages.
folder() { # program or library
    if [[ $1 = program && $target == *-musl ]]; then echo "$built/static"; else echo "$built"; fi
}

# With musl a program has its C library in itself, and a library takes that of the program which loads it. zig links,
# and brings what rustc would bring otherwise.
with_flags() { # program or library, command
    local flags=$CARGO_ENCODED_RUSTFLAGS
    [[ $target != *-musl ]] || flags+=$'\x1f'-Clink-self-contained=no
    [[ $target != *-musl || $1 = program ]] || flags+=$'\x1f'-Ctarget-feature=-crt-static
    CARGO_ENCODED_RUSTFLAGS=$flags "${@:2}"
}

# What the archive holds, and the Debian packages are made of.
plant() {
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,lib,examples}
    cp -r --no-preserve=mode "$built/share" "$tree/"
    python3 scripts/packaged_docs.py "$tree"
    install "$(folder program)/$target/release/dlock" "$tree/bin/dlock"
    # A server refuses a module that may not be executed.
    install -m 755 "$built/$target/release/libdlock.so" "$tree/lib/libdlock.so"
    needs_little program "$tree/bin/dlock"
    needs_little library "$tree/lib/libdlock.so"
    small "$tree/bin/dlock" $largest_program
    shown "$tree/lib/libdlock.so"
    install -m 644 packaging/module.conf packaging/*.env packaging/dlock-agent.* docs/monitoring/* "$tree/examples"
    install -m 644 LICENSE "$tree"
    {
        licences "The module and the program of dlock" dlock-module dlock
        [[ $target != *-musl ]] || of_zig "musl, in the program" lib/libc/musl/COPYRIGHT
    } >"$tree/THIRD-PARTY.txt"
}

# The oldest machines of the target have what the file needs.
needs_little() { # program or library, file
    local needed
    case $target:$1 in
    *-musl:*)
        needed=$(readelf --dynamic "$2" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | xargs)
        [ "$1:$needed" = program: ] || [ "$1:$needed" = library:libc.so ] || fail "$2 needs $needed"
        ;;
    *)
        needed=$(grep -aoE 'GLIBC_[0-9.]+' "$2" | sed 's/GLIBC_//' | sort -uV | tail -1)
        [ "$(printf '%s\n' "$needed" $glibc | sort -V | tail -1)" = $glibc ] || fail "$2 needs glibc $needed"
        ;;
    esac
}

licences() { # name, crates
    python3 scripts/licences.py "$1" "$target" "${@:2}"
    of_zig "zig's runtime for compilers" LICENSE
    of_zig "LLVM's libunwind" lib/libunwind/LICENSE.TXT
}

of_zig() { # name, file
    printf '\n%080d\n%s\n\n' 0 "$1" | tr 0 =
    cat "$tools"/python/lib/python3*/site-packages/ziglang/"$2"
}

pack() { # folder, archive
    tar --create --directory "$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" "$(basename "$1")" | gzip -9n >"$2"
    shown "$2"
}

small() { # file, limit
    local size
    size=$(stat --format %s "$1")
    [ "$size" -le "$2" ] || fail "$1 has $size bytes; $2 are allowed"
    shown "$1"
}

unpack() {
    [ -f "$release/$archive.tar.gz" ] || fail "there is no $archive.tar.gz: run \`make dist\`"
    rm -rf "$tree"
    mkdir -p "$built"
    tar --extract --gzip --file "$release/$archive.tar.gz" --directory "$built"
}

shown() { # file
    echo "dist: ${1#"$PWD/"}, $(($(stat --format %s "$1") / 1024)) KiB"
}

# --- Debian packages --------------------------------------------------------------------------

debs() {
    local root=$built/deb
    [ "$debian" != - ] || return 0
    rm -rf "$root"
    program_deb "$root/dlock"
    deb "$root/dlock" dlock
    module_deb "$root/dlock-module"
    deb "$root/dlock-module" dlock-module
}

program_deb() { # folder
    mkdir -p "$1/usr/bin" "$1/usr/lib/systemd/system" "$1/etc/dlock"
    cp "$tree/bin/dlock" "$1/usr/bin/"
    cp -r "$tree/share" "$1/usr/"
    # Debian's place for them.
    mv "$1/usr/share/zsh/site-functions" "$1/usr/share/zsh/vendor-completions"
    gzip -9n "$1"/usr/share/man/man1/*
    install -m 644 docs/monitoring/dlock-exporter.service packaging/dlock-agent.* "$1/usr/lib/systemd/system/"
    install -m 600 packaging/exporter.env packaging/agent.env "$1/etc/dlock/"
    mkdir -p "$1/DEBIAN"
    printf '/etc/dlock/%s.env\n' agent exporter >"$1/DEBIAN/conffiles"
}

module_deb() { # folder
    local server drop_in
    mkdir -p "$1"/usr/lib/{redis,valkey}/modules "$1/usr/lib/dlock" "$1/etc/dlock" "$1/DEBIAN"
    cp "$tree/lib/libdlock.so" "$1/usr/lib/redis/modules/"
    ln -s ../../redis/modules/libdlock.so "$1/usr/lib/valkey/modules/libdlock.so"
    install packaging/debian/write-load "$1/usr/lib/dlock/"
    for server in redis valkey; do
        drop_in=$1/usr/lib/systemd/system/$server-server.service.d
        mkdir -p "$drop_in"
        sed "s/@NAME@/$server/g" packaging/debian/server.conf >"$drop_in/dlock.conf"
    done
    install -m 644 packaging/module.conf "$1/etc/dlock/module.conf"
    echo /etc/dlock/module.conf >"$1/DEBIAN/conffiles"
}

deb() { # folder, package
    local file=$release/$2_${version}_$debian.deb script
    mkdir -p "$1/usr/share/doc/$2"
    cp "$tree/LICENSE" "$1/usr/share/doc/$2/copyright"
    cp "$tree/THIRD-PARTY.txt" "$1/usr/share/doc/$2/"
    python3 scripts/packaged_docs.py "$1/usr/share/doc/$2"
    gzip -9nc CHANGELOG.md >"$1/usr/share/doc/$2/changelog.gz"
    sed "s/@VERSION@/$version/; s/@ARCH@/$debian/" "packaging/debian/$2.control" >"$1/DEBIAN/control"
    for script in postinst prerm postrm; do
        [ ! -f "packaging/debian/$2.$script" ] || install "packaging/debian/$2.$script" "$1/DEBIAN/$script"
    done
    dpkg-deb --root-owner-group -Zxz --build "$1" "$file" >/dev/null
    shown "$file"
}

# --- the libraries ----------------------------------------------------------------------------

wheel() {
    local platform=manylinux_${glibc/./_}
    [[ $target != *-musl ]] || platform=musllinux_${musl/./_}
    licences "dlock for Python" dlock-python >src/python/THIRD-PARTY.txt
    # maturin has a cargo-zigbuild of its own, whose linker has another path than that of `compile`. cargo takes that for
    # a change: in one folder, each would compile again what the other has compiled.
    with_flags library maturin build --quiet --profile bindings --locked --zig --manifest-path src/python/Cargo.toml \
        --target "$target" --target-dir "$built/wheel" --out "$release" --auditwheel check --compatibility "$platform"
    small "$release/${name//-/_}-$version-cp39-abi3-${platform}_${target%%-*}.whl" $largest
}

# A package for each platform, which npm picks by itself, beside the one that everybody installs.
node_platform() {
    local folder=$built/npm/$node_platform
    mkdir -p "$folder"
    compile library --profile bindings -p dlock-nodejs
    install -m 644 "$built/$target/bindings/libdlock_nodejs.so" "$folder/native.node"
    needs_little library "$folder/native.node"
    licences "dlock for Node.js" dlock-nodejs >"$folder/THIRD-PARTY.txt"
}

node_packages() {
    local folder
    rm -rf src/nodejs/lib
    tests/nodejs/node_modules/.bin/tsc --project src/nodejs
    mkdir "$built/npm/all"
    cp -r src/nodejs/lib "$built/npm/all/"
    node packaging/npm.mjs src/nodejs/package.json "$name" "$built/npm" "$repository"
    for folder in "$built"/npm/*; do
        cp LICENSE "$folder/"
        node_package "$folder"
    done
}

node_package() { # folder
    local file
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    file=$release/$(env -u npm_config_nodedir npm pack --loglevel=error --silent --pack-destination "$release" "$1")
    small "$file" $largest
}

# --- what is said of them ---------------------------------------------------------------------

sboms() {
    sbom src/module/Cargo.toml libdlock
    sbom Cargo.toml dlock
    sbom src/python/Cargo.toml dlock-python
    sbom src/nodejs/Cargo.toml dlock-nodejs
}

sbom() { # manifest, name
    local file=$release/$2-$version-$target.cdx.json
    # It writes one file for each member of the workspace.
    "$cargo" cyclonedx --quiet --manifest-path "$1" --format json --spec-version 1.5 --target "$target" \
        --no-build-deps --override-filename dlock-sbom
    sed "s|$PWD|/dlock|g" "$(dirname "$1")/dlock-sbom.json" >"$file"
    find . -name dlock-sbom.json -not -path './target/*' -delete
    shown "$file"
}

sums() {
    (cd "$release" && sha256sum -- * >SHA256SUMS)
}

main "$@"
