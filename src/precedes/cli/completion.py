"""``precedes completion``: a script that completes the other commands in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from precedes.console import show
from precedes.errors import Exit
from precedes.stores import Address, local_path

if TYPE_CHECKING:
    from precedes.cli.common import Commands

SHELLS: Final = ("bash", "zsh", "tcsh")


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes commands, options and protocols in a shell",
        description="Print a script for a shell to read at its start: see 'precedes docs shell'. "
        'Example: eval "$(precedes completion bash)"',
    )
    parser.add_argument("shell", choices=SHELLS, metavar="|".join(SHELLS))
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import shtab

    from precedes.cli.docs import pages
    from precedes.cli.main import make_parser
    from precedes.registry import names

    parser: Any = make_parser()
    for action in _actions(parser):
        if action.type in (Path, local_path, Address.of):
            action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
        elif action.dest == "protocol":
            action.choices = names()
        elif action.dest == "page":
            action.choices = list(pages())
    show(shtab.complete(parser, shell=options.shell))
    return Exit.DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[Any]:
    """The options and arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
