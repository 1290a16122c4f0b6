"""Prints the licences of all packages that a crate is linked with, for a target."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

NAMES = ("license", "licence", "copying", "notice", "copyright")


def main(manifest: str, name: str, target: str = "x86_64-unknown-linux-gnu") -> None:
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--manifest-path", manifest]
    found = subprocess.run([*command, f"--filter-platform={target}"], stdout=subprocess.PIPE, check=True)
    metadata = json.loads(found.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    print(f"{name} contains these packages, under these licences.")
    for package in sorted((packages[id] for id in linked(metadata)), key=by_name):
        tell(package)


def by_name(package: dict) -> tuple[str, str]:
    """There may be two versions of one package."""
    return str(package["name"]), str(package["version"])


def linked(metadata: dict) -> set[str]:
    """The packages that end in the library, and not only in its building."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {
        package["id"]
        for package in metadata["packages"]
        if any("proc-macro" in target["kind"] for target in package["targets"])
    }
    seen, todo = set(), [metadata["resolve"]["root"]]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            kinds = [kind["kind"] for kind in dependency["dep_kinds"]]
            if None in kinds and dependency["pkg"] not in seen | macros:
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return seen


def tell(package: dict) -> None:
    if package["source"] is None:
        return  # ours
    print(f"\n{'=' * 80}\n{package['name']} {package['version']}: {package['license']}")
    print(f"{package['repository'] or ''}")
    folder = Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.name.lower().startswith(NAMES))
    for file in (file for file in files if file.is_file()):
        print(f"\n--- {file.name}\n\n{file.read_text(errors='replace').strip()}")


main(*sys.argv[1:])
