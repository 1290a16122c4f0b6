#!/usr/bin/env bash
# Installs what `make test-world` tests against: PostgreSQL, SQLite, PHP and Ruby with their clients, systemd
# and cron, of Debian; and into .world/ Debian's Prometheus, which starts no service there, and a newer Go of Debian
# with go-redis. A second run finds everything there and asks no network.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
world=$PWD/.world

main() {
    install_packages
    mkdir -p "$world"
    prometheus
    go_client
}

# --- packages ---------------------------------------------------------------------------------

install_packages() {
    local missing=()
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql postgresql-client)
    command -v sqlite3 >/dev/null || missing+=(sqlite3)
    php -m 2>/dev/null | grep -qx redis || missing+=(php-cli php-redis)
    ruby -e 'require "redis"' 2>/dev/null || missing+=(ruby ruby-redis)
    command -v redis-cli >/dev/null || missing+=(redis-tools)
    command -v systemd-analyze >/dev/null || missing+=(systemd)
    [ -x /usr/sbin/cron ] || missing+=(cron)
    apt_install "${missing[@]}"
}

# The package would start it.
prometheus() {
    [ -x "$world/prometheus/usr/bin/promtool" ] && return
    rm -rf "$world/prometheus"
    mkdir "$world/prometheus"
    apt_unpack prometheus "$world/prometheus"
}

# go-redis is in Debian's sid alone, and needs a newer Go than Debian 12 has. Both are only unpacked.
go_client() {
    local go=$world/go suite
    [ -x "$go/go" ] && return
    echo "world: fetching Go and go-redis"
    rm -rf "$go"
    mkdir -p "$go/apt/parts" "$go/packages"
    for suite in sid bookworm-backports; do
        debian_suites deb $suite
    done >"$go/apt/parts/world.list"
    [ -s "$go/apt/parts/world.list" ] || by_hand "go-redis is to be had from Debian's mirrors alone, and this machine has none"
    apt_apart "$go/apt" apt-get update -qq
    (cd "$go/packages" && apt_apart "$go/apt" apt-get download -qq golang-1.23-go golang-1.23-src \
        golang-github-redis-go-redis-dev golang-github-cespare-xxhash-v2-dev golang-github-dgryski-go-rendezvous-dev)
    for package in "$go"/packages/*.deb; do
        dpkg -x "$package" "$go"
    done
    rm -rf "$go/apt" "$go/packages"
    # Debian leaves the version out of the path.
    ln -s . "$go/usr/share/gocode/src/github.com/redis/go-redis/v9"
    cat >"$go/go.part" <<GO
#!/bin/sh
export GO111MODULE=off CGO_ENABLED=0 GOPATH=$go/usr/share/gocode GOROOT=$go/usr/lib/go-1.23 GOCACHE=$go/cache
exec $go/usr/lib/go-1.23/bin/go "\$@"
GO
    chmod +x "$go/go.part"
    mv "$go/go.part" "$go/go"
}

by_hand() { # why
    echo "world: $1. Please install by hand what is missing." >&2
    exit 1
}

main "$@"
