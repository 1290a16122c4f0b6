#!/bin/sh
# Installs what `make test-world` tests against: PostgreSQL, of Debian.
set -eu

if ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
    exit 0
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -q
$sudo apt-get install -q -y --no-install-recommends postgresql postgresql-client
