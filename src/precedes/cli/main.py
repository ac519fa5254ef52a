"""The command line: its parser, and the entry point of ``precedes``.

No command's module imports the command's dependencies before it runs: help is immediate.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from precedes import console
from precedes.cli import common
from precedes.cli.terminal import in_columns
from precedes.console import Level, one_line, show, tell
from precedes.errors import Exit, meant
from precedes.progress import show_waiting
from precedes.provenance import versions

VERSION: Final = "--version"
# Functions that add the commands, in the order of the help.
COMMANDS: Final = (
    *("protocols.add", "simulate.add", "sweep.add", "audit.add", "view.add", "compare.add"),
    *("export.add", "protocols.add_size", "reproduce.add"),
    *("live.add_node", "live.add_members", "live.add_cluster", "live.add_keys"),
    *("spark.add", "compile.add"),
    *("docs.add", "docs.add_examples", "docs.add_completion"),
)


class _HelpFormatter(argparse.HelpFormatter):
    """Fills paragraphs to the width, and leaves lines alone that are indented: examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for is_set, group in itertools.groupby(text.splitlines(), lambda x: x[:1] in ("", " ")):
            paragraph = "\n".join(group)
            lines.append(paragraph if is_set else super()._fill_text(paragraph, width, indent))
        return "\n".join(lines)


def _number(kind: type, name: str) -> Callable[[str], Any]:
    """A type for argparse whose error calls what it takes by this name."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {name}") from None

    return read


class _Parser(argparse.ArgumentParser):
    """Errors in one line that points to the help of the command; no abbreviated options.

    An abbreviation that is unique today would be ambiguous with the next option.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=_HelpFormatter)
        self.register("type", int, _number(int, "whole number"))
        self.register("type", float, _number(float, "number"))
        # Without defaults, a command keeps values set before it.
        unset: dict[str, Any] = {"default": argparse.SUPPRESS}
        for names, level, text in (
            (("-v", "--verbose"), Level.VERBOSE, "log progress and decisions to standard error"),
            (("-q", "--quiet"), Level.QUIET, "print only the result and errors"),
        ):
            self.add_argument(
                *names, dest="level", action="store_const", const=level, help=text, **unset
            )
        common.flag(self, "--debug", "show the origin of an error", **unset)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Report unparsed arguments here: only the parser of a command knows its options."""
        values, extra = super().parse_known_args(args, namespace)
        if extra:
            name = extra[0].partition("=")[0]
            hint = meant(name, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(extra)}{hint}")
        # The options of this parser, by the names of arguments that they stand for.
        named = [(action.dest, action.option_strings) for action in self._actions]
        own = {dest: options[-1] for dest, options in named if options}
        values.spelt = {**own, **getattr(values, "spelt", {})}
        return values, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            hint = meant(str(value), known)
            text = f"there is no {value!r}{hint}: choose from {', '.join(known)}"
            raise argparse.ArgumentError(action, text)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Report output that cannot be written, which argparse ignores."""
        if file is sys.stdout:
            show(message, end="")
        else:
            console.write_error(message)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.MISTAKE, f"precedes: {one_line(message)}; see '{self.prog} --help'\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status (docs/results.md)."""
    debug = False
    spelt: dict[str, str] = {}
    try:
        try:
            options = parse(arguments)
        except SystemExit as stop:  # after the help, or a mistake
            return int(stop.code or 0)
        debug, spelt = getattr(options, "debug", False), options.spelt
        console.set_level(getattr(options, "level", Level.USUAL))
        show_waiting()
        return int(options.run(options))
    except BaseException as error:
        return tell(error, debug=debug, spelt=spelt)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command; the modules of commands are imported for commands alone."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if VERSION in itertools.takewhile(lambda text: text.startswith("-"), words):
        return _make_version_parser().parse_args(words)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    parser = make_parser()
    options = parser.parse_args(words)
    if options.command is None:
        parser.parse_args(["--help"])
    return options


def _make_version_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"precedes {VERSION}",
        description="Print installed versions. 'sources' is the code_version of traces.",
        epilog=common.examples((VERSION, "for people"), (f"{VERSION} --json", "for programs")),
    )
    parser.add_argument(VERSION, action="store_true", help=argparse.SUPPRESS)
    common.add_json(parser)
    parser.set_defaults(run=_version, command=VERSION)
    return parser


def _version(options: argparse.Namespace) -> int:
    """Print the versions, to report a defect or to compare machines."""
    by_name = versions()
    values = {name: value for name, value in by_name.items() if name != "sources"}
    first = f"precedes {by_name.pop('precedes')}"
    lines = in_columns({name: value or "not installed" for name, value in by_name.items()})
    return common.answer(options, values, "\n".join([first, *lines]))


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; its result has the command's function as ``run``."""
    parser = _Parser(
        prog="precedes",
        description="Causal broadcast for Python: live groups, audits of logs, simulations.",
        epilog=common.examples(
            ("simulate vector --nodes 20 --messages 1000", "one run"),
            ("help audit", "options and examples of a command"),
        ),
    )
    parser.add_argument(
        VERSION, action="store_true", help="print installed versions and a digest of the sources"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in COMMANDS:
        module, _, add = name.partition(".")
        getattr(importlib.import_module(f"precedes.cli.{module}"), add)(commands)
    return parser


def run() -> NoReturn:
    """The entry point of the installed command."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.run(main)
