"""Prints the licences of all packages that a crate, or several, is linked with, and of Rust's standard library.

Usage: licences.py NAME TARGET CRATE…
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

NAMES = ("license", "licence", "copying", "notice", "copyright")


def main(name: str, target: str, *crates: str) -> None:
    ends = linked(crates, target)
    found = cargo("metadata", "--format-version=1", f"--filter-platform={target}")
    print(f"{name}: made of these packages, under these licences.")
    for package in sorted(json.loads(found)["packages"], key=by_name):
        if by_name(package) in ends:
            tell(package)
    tell_of_rust()


def by_name(package: dict) -> tuple[str, str]:
    """There may be two versions of one package."""
    return str(package["name"]), str(package["version"])


def linked(crates: tuple[str, ...], target: str) -> set[tuple[str, str]]:
    """The packages that end in the library, with the features that it asks for, and not only in its building."""
    packages = [f"--package={crate}" for crate in crates]
    shown = ("--edges=normal,no-proc-macro", "--prefix=none", "--no-dedupe", "--format={p}")
    lines = cargo("tree", f"--target={target}", *packages, *shown).splitlines()
    return {(name, version.removeprefix("v")) for name, version, *_ in (line.split() for line in lines if line)}


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments, "--locked"], stdout=subprocess.PIPE, check=True, text=True).stdout


def tell(package: dict) -> None:
    if package["source"] is None:
        return  # ours
    print(f"\n{'=' * 80}\n{package['name']} {package['version']}: {package['license']}")
    print(f"{package['repository'] or ''}")
    folder = Path(package["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.name.lower().startswith(NAMES))
    for file in (file for file in files if file.is_file()):
        print(f"\n--- {file.name}\n\n{file.read_text(errors='replace').strip()}")


def tell_of_rust() -> None:
    """The toolchain has the notices: rustup's as a page, Debian's as a text."""
    rustc = os.environ.get("RUSTC", "rustc")
    version, sysroot = (
        subprocess.run([rustc, *asked], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
        for asked in (["--version"], ["--print", "sysroot"])
    )
    documents = Path(sysroot) / "share/doc"
    print(f"\n{'=' * 80}\nRust's standard library, of {version}: MIT OR Apache-2.0")
    for file in [*documents.glob("rust/COPYRIGHT-library.html"), *documents.glob("libstd-rust*-dev/copyright")]:
        text = file.read_text(errors="replace")
        print(f"\n--- {file.name}\n\n{plain(text) if file.suffix == '.html' else text.strip()}")


def plain(page: str) -> str:
    """The text of a page."""
    reader, words = HTMLParser(), []
    reader.handle_data = words.append
    reader.feed(page)
    return re.sub(r"\n\s*\n\s*", "\n\n", "".join(words)).strip()


main(*sys.argv[1:])
