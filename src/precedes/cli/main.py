"""The command line: its parser, and the entry point of ``precedes``.

No command's module imports what the command needs before it runs: help comes at once.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from precedes import console
from precedes.cli.terminal import show_waiting
from precedes.console import one_line, show, tell
from precedes.errors import Exit, meant

VERSION: Final = "--version"


class _Parser(argparse.ArgumentParser):
    """Mistakes in one line that points to the help of the command; options in full alone.

    An abbreviation that is understood today would be ambiguous with the next option.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,  # so that a command leaves alone what stands before it
            help="add to an error where it comes from",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse here what is left over: only the parser of a command knows its options."""
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            name = extra[0].partition("=")[0]
            hint = meant(name, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(extra)}{hint}")
        return found, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            text = (
                f"there is no {value!r}{meant(str(value), known)}: choose from {', '.join(known)}"
            )
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.MISTAKE, f"precedes: {one_line(message)}; see '{self.prog} --help'\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status (docs/results.md)."""
    debug = False
    try:
        try:
            options = parse(arguments)
        except SystemExit as stop:  # after the help, or a mistake
            show("", end="")
            return int(stop.code or 0)
        debug = getattr(options, "debug", False)
        show_waiting()
        return int(options.run(options))
    except BaseException as error:
        return tell(error, debug=debug)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """What is asked for; the modules of commands are imported for commands alone."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if VERSION in itertools.takewhile(lambda text: text.startswith("-"), given):
        return _make_version_parser().parse_args(given)
    return make_parser().parse_args(given)


def _make_version_parser() -> argparse.ArgumentParser:
    from precedes.cli import version

    parser = _Parser(prog=f"precedes {VERSION}", description=version.DESCRIPTION)
    parser.add_argument(VERSION, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=version.run, command=VERSION)
    return parser


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; what it finds has the command's function as ``run``."""
    parser = _Parser(prog="precedes", description="Causal broadcast: simulate, audit, compare.")
    parser.add_argument(
        VERSION, action="store_true", help="print versions and a digest of the sources ([--json])"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _commands():
        command.add(commands)
    return parser


def _commands() -> tuple[Any, ...]:
    """The modules of the commands, in the order of the help."""
    from precedes.cli import (
        audit,
        compile,
        completion,
        docs,
        examples,
        export,
        live,
        protocols,
        reproduce,
        simulate,
        size,
        spark,
        sweep,
    )

    return (
        protocols,
        simulate,
        sweep,
        audit,
        export,
        size,
        reproduce,
        live,
        spark,
        compile,
        docs,
        examples,
        completion,
    )


def run() -> NoReturn:
    """The entry point of the installed command."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.run(main)
