#!/usr/bin/env bash
# Checks .github/workflows: by their schema, and for rights and secrets that a stranger could abuse (zizmor). actionlint
# is in no package that could be pinned here; where it is installed, it checks them, too.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh

by_hand() { # why
    echo "lint-workflows: $1" >&2
    exit 1
}

install_checks
"$checks/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$checks/bin/zizmor" --offline --quiet --no-progress .github/workflows
if command -v actionlint >/dev/null; then actionlint; fi
