"""``precedes examples``: the examples that come with the package, listed or copied."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from precedes.cli import common, share
from precedes.cli.terminal import show_text
from precedes.console import show
from precedes.errors import Exit, UserError

if TYPE_CHECKING:
    from precedes.cli.common import Commands

FOLDERS: Final = ("examples", "experiments")
STYLES: Final = {r"(?m)^\S+": "bold"}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "examples",
        help="list the examples, or copy them into a directory",
        description="List programs, logs and scenario files that come with precedes, or copy them "
        "into DIR/examples and DIR/experiments, where the pages expect them. A file of yours is "
        "never replaced.",
        epilog=common.examples(
            ("examples", "a line for each file"),
            ("examples .", "copies them here"),
        ),
    )
    parser.add_argument("directory", nargs="?", type=common.local_folder, metavar="DIR")
    common.add_json(parser)
    parser.set_defaults(run=_run)


def examples() -> dict[str, Path]:
    """The file of each example by its path below the directory that it is copied into."""
    root = share.folder()
    files = [path for name in FOLDERS for path in sorted((root / name).rglob("*"))]
    return {
        path.relative_to(root).as_posix(): path
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def _run(options: argparse.Namespace) -> int:
    found = examples()
    if options.directory is not None:
        copy(found, options.directory)
    if options.json:
        directory = None if options.directory is None else str(options.directory)
        rows = [{"name": name, "about": _about(path)} for name, path in found.items()]
        common.show_json({"directory": directory, "examples": rows})
        return Exit.DONE
    if options.directory is None:
        width = max(map(len, found))
        lines = [f"{name:{width}}  {_about(path)}".rstrip() for name, path in found.items()]
        show_text("\n".join(lines), STYLES)
        return Exit.DONE
    show(f"{len(found)} files in {', '.join(str(options.directory / name) for name in FOLDERS)}")
    return Exit.DONE


def copy(found: dict[str, Path], directory: Path) -> None:
    """Copy examples; if a file is there that is not the same, nothing is copied."""
    from precedes.files import make_directory, write_aside

    contents = {directory / name: path.read_bytes() for name, path in found.items()}
    for path, content in contents.items():
        if path.exists() and not (path.is_file() and path.read_bytes() == content):
            raise UserError(f"{path} is there and is not the example: name another directory")
    for path, content in contents.items():
        if not path.exists():
            make_directory(path.parent)
            write_aside(path, content)


def _about(path: Path) -> str:
    """The first sentence of a program or a scenario file, or the title of a notebook.

    Logs say nothing of themselves.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return str(json.loads(text)["cells"][0]["source"][0]).removeprefix("# ").strip()
    first = re.match(r'"""(.*)|((?:# .*\n)+)', text)
    if first is None:
        return ""
    words = " ".join((first[1] or first[2].replace("# ", "")).split())
    return re.split(r"(?<!al)\.(?: |$)", words)[0]
