"""``precedes docs``, ``examples`` and ``completion``: files of the installed package."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from precedes import sources
from precedes.cli import common
from precedes.cli.common import option
from precedes.cli.terminal import in_columns
from precedes.console import show
from precedes.errors import Exit, UserError, meant
from precedes.files import make_directory, write_aside
from precedes.stores import Address, local_path

INDEX: Final = "index"
PROTOCOLS: Final = "protocols"
FOLDERS: Final = ("examples", "experiments")
SHELLS: Final = ("bash", "zsh", "tcsh")


def add(commands: common.Commands) -> None:
    """Add ``precedes docs``."""
    parser = common.command(
        commands,
        "docs",
        _docs,
        ("docs", "list all pages"),
        ("docs live", "show the page on live groups"),
        help="list the documentation pages or show one",
        description="List the documentation pages or show one: rendered in your pager on a "
        "terminal, as Markdown in a pipe.",
    )
    option(parser, "page", "NAME", "name of a page or protocol", nargs="?")
    common.add_json(parser)


def add_examples(commands: common.Commands) -> None:
    """Add ``precedes examples``."""
    parser = common.command(
        commands,
        "examples",
        _examples,
        ("examples", "list all examples"),
        ("examples .", "copy them into the current directory"),
        help="list the examples or copy them to a directory",
        description="List the programs, logs and scenario files that come with precedes, or copy "
        "them to DIR/examples and DIR/experiments. Existing files are never replaced.",
    )
    option(parser, "directory", "DIR", None, common.local_folder, nargs="?")
    common.add_json(parser)


def add_completion(commands: common.Commands) -> None:
    """Add ``precedes completion``."""
    parser = common.command(
        commands,
        "completion",
        _completion,
        ("completion bash", "for bash"),
        ("completion zsh --json", "for zsh, as JSON"),
        help="print a shell completion script",
        description="Print a completion script for a shell (see 'precedes docs shell'). For bash, "
        'add this line to ~/.bashrc: eval "$(precedes completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))
    common.add_json(parser)


def share() -> Path:
    """A folder with README.md, docs/, examples/ and experiments/: in a wheel, or in a clone."""
    repository = sources.PACKAGE.parents[1]
    for folder in (sources.SHARE, repository):
        if (folder / "docs" / "README.md").is_file():
            return folder
    raise UserError(
        f"the pages and examples are not in {sources.PACKAGE}: install precedes from its wheel"
    )


def pages() -> dict[str, Path]:
    """The file of each page by its name, the pages of protocols last."""
    root = share()
    paths = {INDEX: root / "docs" / "README.md"}
    folders = (root / "docs", root, root / "docs" / PROTOCOLS)
    for path in (path for folder in folders for path in sorted(folder.glob("*.md"))):
        if path != paths[INDEX]:
            paths[path.stem.lower()] = path
    return paths


def page(name: str) -> Path:
    """The page of this name; links and paths of pages are understood too."""
    paths = pages()
    short = Path(name.partition("#")[0]).name.lower().removesuffix(".md")
    if short not in paths:
        raise UserError(
            f"there is no page {name!r}{meant(short, paths)}: 'precedes docs' lists them all"
        )
    return paths[short]


def _docs(options: argparse.Namespace) -> int:
    if options.page is None:
        listed = [{"name": name, "path": str(path)} for name, path in pages().items()]
        return common.answer(options, {"pages": listed}, _listed(), {r"(?m)^(?!and )\S+": "bold"})
    path = page(options.page)
    text = path.read_text(encoding="utf-8")
    if options.json:
        common.show_json({"name": path.stem.lower(), "path": str(path), "text": text})
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        _page(text)
    else:
        show(text, end="")
    return Exit.DONE


def _page(text: str) -> None:
    """Show Markdown in the pager; only ``less`` is known to show colours."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    os.environ.setdefault("LESS", "FRX")
    coloured = Path(os.environ.get("PAGER", "less").split()[0]).name == "less"
    with console.pager(styles=coloured and not os.environ.get("NO_COLOR")):
        console.print(Markdown(text, hyperlinks=False))


def _listed() -> str:
    """A line for each page: its name, and its description from the index or its title."""
    paths, lines, protocols = pages(), {}, []
    index = paths[INDEX].read_text(encoding="utf-8")
    about = dict(re.findall(r"^\| \[([\w-]+)\.md\]\([^)]*\) \| ([^|]*) \|$", index, re.MULTILINE))
    for name, path in paths.items():
        if path.parent.name == PROTOCOLS:
            protocols.append(name)
            continue
        with path.open(encoding="utf-8") as file:
            title = file.readline().lstrip("# ").rstrip()
        lines[name] = about.get(name, title)
    return "\n".join([*in_columns(lines), f"and of protocols: {', '.join(protocols)}"])


def examples() -> dict[str, Path]:
    """The file of each example by its path below the directory that it is copied into."""
    root = share()
    files = [path for name in FOLDERS for path in sorted((root / name).rglob("*"))]
    return {
        path.relative_to(root).as_posix(): path
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def _examples(options: argparse.Namespace) -> int:
    paths, directory = examples(), options.directory
    abouts = {name: _about(path) for name, path in paths.items()}
    if directory is None:
        text = "\n".join(in_columns(abouts))
    else:
        _copy(paths, directory)
        text = f"{len(paths)} files in {', '.join(str(directory / name) for name in FOLDERS)}"
    values = {
        "directory": None if directory is None else str(directory),
        "examples": [{"name": name, "about": about} for name, about in abouts.items()],
    }
    styles = {r"(?m)^\S+": "bold"} if directory is None else None
    return common.answer(options, values, text, styles)


def _copy(paths: dict[str, Path], directory: Path) -> None:
    """Copy examples; if a file exists with other contents, nothing is copied."""
    contents = {directory / name: path.read_bytes() for name, path in paths.items()}
    for path, content in contents.items():
        if path.exists() and not (path.is_file() and path.read_bytes() == content):
            raise UserError(f"{path} is there and is not the example: name another directory")
    for path, content in contents.items():
        if not path.exists():
            make_directory(path.parent)
            write_aside(path, content)


def _about(path: Path) -> str:
    """The first sentence of a program or a scenario file, or the title of a notebook.

    Logs have no description.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return str(json.loads(text)["cells"][0]["source"][0]).removeprefix("# ").strip()
    first = re.match(r'"""(.*)|((?:# .*\n)+)', text)
    if first is None:
        return ""
    words = " ".join((first[1] or first[2].replace("# ", "")).split())
    return re.split(r"(?<!al)\.(?: |$)", words)[0]


def _completion(options: argparse.Namespace) -> int:
    import shtab

    from precedes.catalogue import names
    from precedes.cli.main import make_parser

    parser: Any = make_parser()
    for action in _actions(parser):
        if action.type in (Path, local_path, common.local_folder, Address.of, common.folder):
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
        elif action.dest == "protocol":
            action.choices = names()
        elif action.dest == "page":
            action.choices = list(pages())
    script = shtab.complete(parser, shell=options.shell)
    if options.json:
        common.show_json({"shell": options.shell, "script": script})
    else:
        show(script)
    return Exit.DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """The options and arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
