"""Copies the documentation into a package: README.md, CHANGELOG.md and docs/.

A link to a file that is not in the package becomes its words.

Usage: packaged_docs.py FOLDER
"""

import re
import shutil
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(TOP / "docs", folder / "docs", copy_function=shutil.copyfile, dirs_exist_ok=True)
    for name in ("README.md", "CHANGELOG.md"):
        shutil.copyfile(TOP / name, folder / name)
    for page in folder.glob("**/*.md"):
        page.write_text(without_dead_links(page, page.read_text()))


def without_dead_links(page: Path, text: str) -> str:
    def kept(link: re.Match[str]) -> str:
        words, target = link.groups()
        file = target.split("#")[0]
        leads_out = "://" not in target and not (page.parent / file).exists()
        return words if leads_out else link.group()

    # Every second part is an example.
    parts = re.split(r"(^ *```.*?^ *```)", text, flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [LINK.sub(kept, part) for part in parts[::2]]
    return "".join(parts)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
