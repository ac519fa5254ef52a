"""``precedes docs``: the pages of the documentation, as they were when this was installed."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from precedes.cli import share
from precedes.cli.common import add_json, examples, show_json
from precedes.cli.terminal import show_text
from precedes.console import show
from precedes.errors import Exit, UserError, meant

if TYPE_CHECKING:
    from precedes.cli.common import Commands

INDEX: Final = "index"
PROTOCOLS: Final = "protocols"
STYLES: Final = {r"(?m)^(?!and )\S+": "bold"}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "docs",
        help="list the pages of the documentation, or show one",
        description="List the pages of the documentation, or show one: on a terminal in your "
        "pager, in a pipe as it is.",
        epilog=examples(
            ("docs", "a line for each page"),
            ("docs live", "the page on live groups"),
        ),
    )
    parser.add_argument("page", nargs="?", metavar="NAME", help="of a page, or of a protocol")
    add_json(parser)
    parser.set_defaults(run=_run)


def pages() -> dict[str, Path]:
    """The file of each page by its name, the pages of protocols last."""
    root = share.folder()
    found = {INDEX: root / "docs" / "README.md"}
    folders = (root / "docs", root, root / "docs" / PROTOCOLS)
    for path in (path for folder in folders for path in sorted(folder.glob("*.md"))):
        if path != found[INDEX]:
            found[path.stem.lower()] = path
    return found


def page(name: str) -> Path:
    """The page of this name; links and paths of pages are understood too."""
    found = pages()
    short = Path(name.partition("#")[0]).name.lower().removesuffix(".md")
    if short not in found:
        raise UserError(
            f"there is no page {name!r}{meant(short, found)}: 'precedes docs' lists them all"
        )
    return found[short]


def _run(options: argparse.Namespace) -> int:
    if options.page is None:
        if options.json:
            listed = [{"name": name, "path": str(path)} for name, path in pages().items()]
            show_json({"pages": listed})
        else:
            show_text(_listed(), STYLES)
        return Exit.DONE
    path = page(options.page)
    text = path.read_text(encoding="utf-8")
    if options.json:
        show_json({"name": path.stem.lower(), "path": str(path), "text": text})
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        import pydoc

        pydoc.pager(text)
    else:
        show(text, end="")
    return Exit.DONE


def _listed() -> str:
    """A line for each page: its name, and what the index or its title says of it."""
    found = pages()
    index = found[INDEX].read_text(encoding="utf-8")
    about = dict(re.findall(r"^\| \[([\w-]+)\.md\]\([^)]*\) \| ([^|]*) \|$", index, re.MULTILINE))
    width = max(map(len, found))
    lines, protocols = [], []
    for name, path in found.items():
        if path.parent.name == PROTOCOLS:
            protocols.append(name)
            continue
        with path.open(encoding="utf-8") as file:
            title = file.readline().lstrip("# ").rstrip()
        lines.append(f"{name:{width}}  {about.get(name, title)}")
    return "\n".join([*lines, f"and of protocols: {', '.join(protocols)}"])
