#!/usr/bin/env bash
# Installs what `make test-world` tests against: PostgreSQL, SQLite, PHP, Ruby and Perl with their clients,
# Chromium, tmux, systemd, cron and PgBouncer, of Debian; and into .world/ Debian's Prometheus, which starts no service
# there, and the clients for Python and Node, in the versions that tests/world/packages/ names. A second
# run finds everything there and asks no network. `world.sh pictures` installs what `make pictures` needs.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
world=$PWD/.world
wanted=$PWD/tests/world/packages

main() {
    if [ "${1:-}" = pictures ]; then
        apt_install $(screens)
        return
    fi
    install_packages
    new_enough
    mkdir -p "$world"
    prometheus
    python_client
    node_clients
}

# --- packages ---------------------------------------------------------------------------------

install_packages() {
    local missing=()
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql postgresql-client)
    command -v sqlite3 >/dev/null || missing+=(sqlite3)
    command -v python3 >/dev/null || missing+=(python3)
    # Debian splits it off: venv can be imported without it, and makes no environment.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    php -m 2>/dev/null | grep -qx redis || missing+=(php-cli php-redis)
    ruby -e 'require "redis"' 2>/dev/null || missing+=(ruby ruby-redis)
    php -r 'require "Predis/Autoloader.php";' 2>/dev/null || missing+=(php-nrk-predis)
    perl -MRedis -e 1 2>/dev/null || missing+=(libredis-perl)
    command -v redis-cli >/dev/null || missing+=(redis-tools)
    command -v systemd-analyze >/dev/null || missing+=(systemd)
    [ -x /usr/sbin/cron ] || missing+=(cron)
    [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
    missing+=($(screens))
    apt_install "${missing[@]}"
}

# What is missing of a browser, a font for it, and a terminal that tests can see.
screens() {
    command -v chromium >/dev/null || echo chromium
    [ -d /usr/share/fonts/truetype/dejavu ] || echo fonts-dejavu-core
    command -v tmux >/dev/null || echo tmux
}

# The package would start it.
prometheus() {
    [ -x "$world/prometheus/usr/bin/promtool" ] && return
    rm -rf "$world/prometheus"
    mkdir "$world/prometheus"
    apt_unpack prometheus "$world/prometheus"
}

# What a distribution calls Node or Python may be older than the examples need.
new_enough() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        by_hand "the examples need Python 3.11 or newer, and here is $(python3 --version)"
    node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 18 ? 1 : 0)' ||
        by_hand "the examples need Node 18 or newer, and here is $(node --version)"
}

by_hand() { # why
    echo "world: $1. Please install by hand what is missing." >&2
    exit 1
}

# --- clients ----------------------------------------------------------------------------------

# The list of what is wanted is copied last: what was interrupted half-way is done again.

python_client() {
    local list=requirements.txt
    cmp -s "$wanted/$list" "$world/python/$list" && return
    echo "world: fetching redis-py"
    rm -rf "$world/python"
    python3 -m venv "$world/python"
    "$world/python/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes --only-binary=:all: --requirement "$wanted/$list"
    cp "$wanted/$list" "$world/python/$list"
}

node_clients() {
    local list=package-lock.json
    cmp -s "$wanted/$list" "$world/node/$list.done" && return
    echo "world: fetching ioredis and node-redis"
    rm -rf "$world/node"
    mkdir "$world/node"
    cp "$wanted/package.json" "$wanted/$list" "$world/node"
    npm ci --loglevel=error --no-audit --no-fund --prefix "$world/node"
    cp "$wanted/$list" "$world/node/$list.done"
}

main "$@"
