#!/usr/bin/env bash
# Builds what a release consists of, into dist/release/: archives, Debian packages, the wheel, the packages for Node,
# SBOMs and SHA256SUMS. Two builds of one commit have the same module and program.
#
# Usage: dist.sh            everything for this machine's kind
#        dist.sh modules    archives and Debian packages only
#        dist.sh debs NAME  Debian packages only, with the suffix NAME in their version, from what is built
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
cargo=${CARGO:-cargo}
# The targets are built here, and their module runs on glibc 2.28 and later: Debian 10, Ubuntu 20.04, RHEL 8.
target=x86_64-unknown-linux-gnu
glibc=2.28
debian=amd64
node_platform=linux-x64-gnu
tools=${XDG_CACHE_HOME:-$HOME/.cache}/dlock/dist
built=$PWD/target/dist
release=$PWD/dist/release
largest=$((4 * 1024 * 1024))
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The packages' name is here and in no second place: dlock is taken.
name=$(sed -n 's/^name = "\(.*\)"/\1/p' src/python/pyproject.toml)
archive=dlock-$version-$target
tree=$built/$archive

main() {
    [ "$(uname -sm)" = "Linux x86_64" ] || by_hand "this is not Linux on x86-64"
    one_version
    reproducible
    case ${1:-all} in
    all)
        rm -rf "$release"
        mkdir -p "$release"
        set_up
        modules
        wheel
        node_packages
        sboms
        sums
        ;;
    modules)
        mkdir -p "$release"
        set_up
        modules
        ;;
    debs)
        version=$version+$2
        mkdir -p "$release"
        debs
        ;;
    *) fail "say modules or debs, or nothing" ;;
    esac
}

# Each file that names a version names the workspace's.
one_version() {
    local manifest
    for manifest in src/python/Cargo.toml src/node/Cargo.toml; do
        grep -qx "version = \"$version\"" $manifest || fail "$manifest has another version than $version"
    done
    grep -q "^  \"version\": \"$version\",$" src/node/package.json ||
        fail "src/node/package.json has another version than $version"
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

by_hand() { # why
    fail "$1"
}

fail() {
    echo "dist: $1" >&2
    exit 1
}

# --- the module and the program ---------------------------------------------------------------

modules() {
    compile --release -p dlock-module
    compile --release -p dlock
    plant
    pack "$tree" "$release/$archive.tar.gz"
    debs
}

compile() { # arguments of cargo
    "$cargo" zigbuild --quiet --locked --target $target.$glibc --target-dir "$built" "$@"
}

# What the archive holds, and the Debian packages are made of.
plant() {
    local share=$tree/share
    rm -rf "$tree"
    mkdir -p "$tree"/{bin,lib,examples} "$share"/{man/man1,bash-completion/completions,fish/vendor_completions.d,zsh/site-functions}
    install "$built/$target/release/dlock" "$tree/bin/dlock"
    # A server refuses a module that may not be executed.
    install -m 755 "$built/$target/release/libdlock.so" "$tree/lib/libdlock.so"
    needs_no_newer_glibc "$tree/bin/dlock" "$tree/lib/libdlock.so"
    "$tree/bin/dlock" man --dir "$share/man/man1"
    "$tree/bin/dlock" completions bash >"$share/bash-completion/completions/dlock"
    "$tree/bin/dlock" completions fish >"$share/fish/vendor_completions.d/dlock.fish"
    "$tree/bin/dlock" completions zsh >"$share/zsh/site-functions/_dlock"
    install -m 644 packaging/module.conf packaging/exporter.env docs/monitoring/* "$tree/examples"
    install -m 644 LICENSE README.md CHANGELOG.md "$tree"
    {
        python3 scripts/licences.py src/module/Cargo.toml "libdlock.so"
        echo
        python3 scripts/licences.py Cargo.toml "The program dlock"
    } >"$tree/THIRD-PARTY.txt"
}

needs_no_newer_glibc() { # files
    local file needed
    for file in "$@"; do
        needed=$(grep -aoE 'GLIBC_[0-9.]+' "$file" | sed 's/GLIBC_//' | sort -uV | tail -1)
        [ "$(printf '%s\n' "$needed" $glibc | sort -V | tail -1)" = $glibc ] || fail "$file needs glibc $needed"
    done
}

pack() { # folder, archive
    tar --create --directory "$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" "$(basename "$1")" | gzip -9n >"$2"
    shown "$2"
}

shown() { # file
    echo "dist: ${1#"$PWD/"}, $(($(stat --format %s "$1") / 1024)) KiB"
}

# --- Debian packages --------------------------------------------------------------------------

debs() {
    local root=$built/deb
    [ -d "$tree" ] || fail "nothing is built: run \`make dist\`"
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
    install -m 644 docs/monitoring/dlock-exporter.service "$1/usr/lib/systemd/system/"
    install -m 600 packaging/exporter.env "$1/etc/dlock/exporter.env"
    mkdir -p "$1/DEBIAN"
    echo /etc/dlock/exporter.env >"$1/DEBIAN/conffiles"
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
    for script in postinst prerm postrm; do
        install packaging/debian/dlock-module.$script "$1/DEBIAN/$script"
    done
}

deb() { # folder, package
    local file=$release/$2_${version}_$debian.deb
    mkdir -p "$1/usr/share/doc/$2"
    cp "$tree/LICENSE" "$1/usr/share/doc/$2/copyright"
    cp "$tree/THIRD-PARTY.txt" "$1/usr/share/doc/$2/"
    gzip -9nc CHANGELOG.md >"$1/usr/share/doc/$2/changelog.gz"
    sed "s/@VERSION@/$version/; s/@ARCH@/$debian/" "packaging/debian/$2.control" >"$1/DEBIAN/control"
    dpkg-deb --root-owner-group -Zxz --build "$1" "$file" >/dev/null
    shown "$file"
}

# --- the libraries ----------------------------------------------------------------------------

wheel() {
    local file
    python3 scripts/licences.py src/python/Cargo.toml "dlock for Python" >src/python/THIRD-PARTY.txt
    maturin build --quiet --release --locked --zig --manifest-path src/python/Cargo.toml --target $target \
        --target-dir "$built/bindings" --out "$release" --auditwheel check --compatibility "manylinux_${glibc/./_}"
    file=$(echo "$release/${name//-/_}"-*.whl)
    small "$file"
}

# One package that everybody installs, and one for each platform, which npm picks by itself.
node_packages() {
    local root=$built/npm
    scripts/node.sh setup
    rm -rf "$root" src/node/lib
    compile --release --manifest-path src/node/Cargo.toml
    tests/nodejs/node_modules/.bin/tsc --project src/node
    needs_no_newer_glibc "$built/$target/release/libdlock_node.so"
    mkdir -p "$root/all" "$root/platform"
    cp -r src/node/lib LICENSE "$root/all/"
    cp LICENSE "$root/platform/"
    python3 scripts/licences.py src/node/Cargo.toml "dlock for Node" >"$root/platform/THIRD-PARTY.txt"
    install -m 644 "$built/$target/release/libdlock_node.so" "$root/platform/native.node"
    node packaging/npm.mjs src/node/package.json "$name" "$node_platform" "$root"
    node_package "$root/all"
    node_package "$root/platform"
}

node_package() { # folder
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    local file
    file=$release/$(env -u npm_config_nodedir npm pack --loglevel=error --silent --pack-destination "$release" "$1")
    small "$file"
}

small() { # file
    local size
    size=$(stat --format %s "$1")
    [ "$size" -le $largest ] || fail "$1 has $size bytes; $largest are allowed"
    shown "$1"
}

# --- what is said of them ---------------------------------------------------------------------

sboms() {
    sbom src/module/Cargo.toml libdlock
    sbom Cargo.toml dlock
    sbom src/python/Cargo.toml dlock-python
    sbom src/node/Cargo.toml dlock-node
}

sbom() { # manifest, name
    local file=$release/$2-$version.cdx.json
    # It writes one file for each member of the workspace.
    "$cargo" cyclonedx --quiet --manifest-path "$1" --format json --spec-version 1.5 --target $target \
        --no-build-deps --override-filename dlock-sbom
    sed "s|$PWD|/dlock|g" "$(dirname "$1")/dlock-sbom.json" >"$file"
    find . -name dlock-sbom.json -not -path './target/*' -delete
    shown "$file"
}

sums() {
    (cd "$release" && sha256sum -- * >SHA256SUMS)
}

main "$@"
