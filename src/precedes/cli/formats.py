"""Options that say how a log is read, for every command that reads one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from precedes.cli.common import listed
from precedes.console import is_verbose, note
from precedes.errors import UserError
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.trace import Dialect

# Those of `precedes.trace`, which would take its time to import.
FORMATS: Final = (
    *("auto", "precedes", "jsonl", "members", "parquet"),
    *("shiviz", "csv", "otel", "edits", "automerge"),
)


def add_format_options(parser: argparse.ArgumentParser, *, more: Sequence[str] = ()) -> None:
    """What a log is, and how it says what ours say; ``more`` are formats of this command alone."""
    parser.add_argument("--format", default="auto", choices=(*FORMATS, *more))
    group = parser.add_argument_group("logs of other systems ('precedes docs formats')")
    group.add_argument(
        "--parser", metavar="EXPR", help="shiviz: finds an event; groups host, clock, kind, ..."
    )
    group.add_argument(
        "--delimiter", metavar="EXPR", help="shiviz: stands between runs; csv: between cells"
    )
    group.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="OURS=THEIRS,...",
        help="csv, parquet: what columns are called, as node=host,message=id",
    )
    group.add_argument(
        "--kinds",
        action="append",
        default=[],
        metavar="OURS=THEIRS,...",
        help="what kinds are called, as deliver=recv,ignore=ack; ignore=* takes the rest",
    )
    group.add_argument(
        "--node-by",
        type=listed,
        action="extend",
        default=[],
        metavar="ATTRIBUTE,...",
        help="otel: what makes a node (service.instance.id)",
    )
    group.add_argument(
        "--complete", action="store_true", help="the log has ended: what is undelivered is lost"
    )


def dialect_of(options: argparse.Namespace, *, pictured: bool = False) -> Dialect:
    """What was said about the log; ``pictured``: arrivals and drops are read too."""
    from precedes.trace import Dialect

    kinds: dict[str, str] = {}
    for ours, theirs in _pairs(options.kinds, "--kinds"):
        if kinds.setdefault(theirs, ours) != ours:
            raise UserError(f"--kinds says that {theirs!r} is {kinds[theirs]} and {ours}: choose")
    columns: dict[str, str] = {}
    for ours, theirs in _pairs(options.columns, "--columns"):
        if columns.setdefault(ours, theirs) != theirs:
            raise UserError(f"--columns names two for {ours}: choose one")
    return Dialect(
        parser=options.parser,
        delimiter=options.delimiter,
        columns=columns,
        kinds=kinds,
        node_by=tuple(options.node_by),
        complete=options.complete,
        pictured=pictured,
    )


def format_noted(path: Address, format: str, dialect: Dialect) -> None:
    """Note which log is read, and as what."""
    if is_verbose():
        from precedes.trace.detect import format_of

        found = format if format != "auto" else format_of(path, dialect=dialect)
        note(f"{path}: {found or 'looked at when it is read'}")


def _pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    found = []
    for part in (part for text in texts for part in text.split(",")):
        ours, equals, theirs = part.partition("=")
        if not equals or not ours or not theirs:
            raise UserError(f"{option} takes OURS=THEIRS, not {part!r}")
        found.append((ours.strip(), theirs.strip()))
    return found
