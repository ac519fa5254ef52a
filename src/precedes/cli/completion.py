"""``precedes completion``: a script that completes the other commands in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from precedes.cli import common
from precedes.console import show
from precedes.errors import Exit
from precedes.stores import Address, local_path

SHELLS: Final = ("bash", "zsh", "tcsh")


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands, options and protocols in a shell",
        description="Print a script for a shell to read at its start: see 'precedes docs shell'. "
        'In bash, with a line in ~/.bashrc: eval "$(precedes completion bash)"',
        epilog=common.examples(
            ("completion bash", "for bash"),
            ("completion zsh --json", "for zsh, as the text of an object"),
        ),
    )
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))
    common.add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import shtab

    from precedes.catalogue import names
    from precedes.cli.docs import pages
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
