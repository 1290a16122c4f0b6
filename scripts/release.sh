#!/usr/bin/env bash
# Cuts a release, and publishes what `make dist` has left. .github/workflows/release.yml calls it; every step can be
# tried without publishing anything.
#
# Usage: release.sh cut VERSION        sets the version everywhere, in a commit with its tag; nothing is pushed
#        release.sh check              one version everywhere, with its section in CHANGELOG.md, and the tag in $TAG
#        release.sh crates [--dry-run] the Rust library
#        release.sh npm [--dry-run]    the packages for Node.js
#        release.sh github             the files themselves, with the section of CHANGELOG.md
# A tag is read from the environment alone: its name may be one that a shell would execute.
# Each step leaves out what is published already, so a release that failed half-way is finished by running it again.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
release=dist/release
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
repository=$(sed -n '/^\[workspace.package\]/,/^$/s/^repository = "\(.*\)"/\1/p' Cargo.toml)
# The packages' name is that of the wheel.
name=$(sed -n 's/^name = "\(.*\)"/\1/p' src/python/pyproject.toml)

main() {
    case ${1:-} in
    cut) cut_release "${2:-}" ;;
    check) check "${TAG:-}" ;;
    crates) crates "${@:2}" ;;
    npm) npm_packages "${@:2}" ;;
    github) github "${TAG:-}" ;;
    *) fail "say cut, check, crates, npm or github" ;;
    esac
}

fail() {
    echo "release: $1" >&2
    exit 1
}

# --- a version --------------------------------------------------------------------------------

cut_release() { # version
    local next=$1 stale
    [[ $next =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "give a version: make release VERSION=0.2.0"
    [ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
    ! git rev-parse --quiet --verify "refs/tags/v$next" >/dev/null || fail "v$next is there already"
    [ -n "$(section Unreleased)" ] || fail "CHANGELOG.md has nothing below Unreleased"
    published_somewhere
    stale=$(git grep -lE '(is|been) no release yet' -- '*.md' || true)
    [ -z "$stale" ] || fail "these say that there is no release yet: $(xargs <<<"$stale")"
    set_version "$next"
    sed -i "s/^## Unreleased\$/&\n\n## $next, $(date --utc +%F)/" CHANGELOG.md
    version=$next
    check "v$next"
    git commit --quiet --all --message "Version $next"
    git tag --annotate "v$next" --message "Version $next"
    echo "release: v$next is committed and tagged. When it is right: git push --atomic origin HEAD v$next"
}

set_version() { # version
    local old=${version//./\\.}
    sed -i "s/^version = \"$old\"/version = \"$1\"/; s/version = \"=$old\"/version = \"=$1\"/" Cargo.toml
    sed -i "s/^  \"version\": \"$old\"/  \"version\": \"$1\"/" src/nodejs/package.json
    # What was measured was measured with the old one.
    git grep -lF "$version" -- docs packaging src/cli ':!docs/contributing/benchmarks.md' | xargs sed -i "s/\b$old\b/$1/g"
    "$cargo" update --quiet --workspace --offline
}

published_somewhere() {
    [[ $repository = https://* ]] && [ "$(grep -lx 'repository.workspace = true' src/{core,client,python}/Cargo.toml | wc -l)" = 3 ] ||
        fail "Cargo.toml has no repository below [workspace.package]: set it to the address under which this tree is \
published, https://… and write repository.workspace = true into src/{core,client,python}/Cargo.toml (crates and packages \
name it, and npm compares it with where the provenance comes from)"
}

check() { # tag
    grep -q "^dlock-core = .* version = \"=$version\" }$" Cargo.toml ||
        fail "Cargo.toml asks for another version of dlock-core than $version"
    grep -q "^  \"version\": \"$version\",$" src/nodejs/package.json ||
        fail "src/nodejs/package.json has another version than $version"
    [ -z "$1" ] || [ "$1" = "v$version" ] || fail "the tag is $1, and the version $version"
    [ -z "$1" ] || published_somewhere
    [ -z "$1" ] || [ -n "$(section "$version")" ] || fail "CHANGELOG.md says nothing about $version"
    echo "release: version $version${1:+, tag $1}"
}

# The text of a section of the changelog, without its heading.
section() { # title
    awk -v title="$1" '/^## / { inside = $2 == title || $2 == title ","; next } inside && (text || NF) { text = 1; print }' CHANGELOG.md
}

# --- publishing it ----------------------------------------------------------------------------

# The library, and the rules that it depends on.
crates() { # --dry-run
    local each names=()
    for each in $("$cargo" metadata --no-deps --format-version 1 |
        python3 -c 'import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None: print(package["name"])'); do
        if [ -z "${1:-}" ] && "$cargo" info --quiet --registry crates-io "$each@$version" >/dev/null 2>&1; then
            echo "release: $each $version is published already"
        else
            names+=("--package=$each")
        fi
    done
    [ ${#names[@]} = 0 ] || "$cargo" publish --locked "${names[@]}" "$@"
}

# The package that everybody installs names the others, so it comes last.
npm_packages() { # --dry-run
    local file all=$release/$name-$version.tgz
    [ -f "$release/SHA256SUMS" ] || fail "there is nothing in $release: run \`make dist\`"
    (cd "$release" && sha256sum --check --quiet SHA256SUMS)
    for file in "$release"/*.tgz; do
        [ "$file" = "$all" ] || publish_npm "$file" "$@"
    done
    publish_npm "$all" "$@"
}

publish_npm() { # file, --dry-run
    local package
    package=$(tar -xOzf "$1" package/package.json | python3 -c 'import json, sys; print(json.load(sys.stdin)["name"])')
    if [ -z "${2:-}" ] && [ -n "$(npm view "$package@$version" version 2>/dev/null)" ]; then
        echo "release: $package $version is published already"
        return
    fi
    env -u npm_config_nodedir npm publish --access public "./$1" "${@:2}"
}

github() { # tag
    check "$1"
    if gh release view "$1" >/dev/null 2>&1; then
        gh release upload "$1" --clobber "$release"/*
    else
        section "$version" | gh release create "$1" --verify-tag --title "$1" --notes-file - "$release"/*
    fi
}

main "$@"
