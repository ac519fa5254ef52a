"""``precedes audit``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from precedes.cli import follow
from precedes.cli.common import (
    add_json,
    add_spark,
    examples,
    format_noted,
    show_json,
    spark_of,
    spark_told,
)
from precedes.cli.follow import add_follow_options
from precedes.cli.formats import add_format_options, dialect_of
from precedes.cli.terminal import VERDICTS, show_text
from precedes.cli.view import add_picture_options, check_pictures, write_pictures
from precedes.console import phase
from precedes.errors import Exit, UserError
from precedes.progress import ProgressBar
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.audit import Report, Witness
    from precedes.cli.common import Commands
    from precedes.trace import Dialect

WITNESSES: Final = 5  # that of `precedes.audit`, which would take its time to import
EVENTS: Final = "events"  # tables that Spark reads, of any size and in any order

# How the names of logs end, among what else a directory holds.
ENDINGS: Final = tuple(
    ending + packed
    for ending, packings in {
        ".parquet": ("",),
        ".jsonl": ("", ".gz", ".zst"),
        ".csv": ("", ".gz", ".zst"),
    }.items()
    for packed in packings
)


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="check causal order in logs, with a witness for what is wrong",
        description="Check causal order. Exit status 0: held, 1: violated, 3: unknown.",
        epilog=examples(
            ("audit examples/chat.jsonl", "a log of your own system"),
            ("audit examples/logs/chat.log --json", "of ShiViz, for programs"),
        ),
    )
    parser.add_argument(
        "path",
        nargs="+",
        type=Address.of,
        help="traces, logs, directories of them (paths or URLs), or - (standard input)",
    )
    add_format_options(parser, more=[EVENTS])
    add_audit_options(parser)
    add_spark(parser, help="use Spark, on this master")
    add_follow_options(parser)
    add_picture_options(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def add_audit_options(parser: argparse.ArgumentParser) -> None:
    """How much is told, and what is kept of an audit that is stopped."""
    parser.add_argument(
        "--witnesses",
        type=count,
        default=WITNESSES,
        metavar="K",
        help=f"at most so many of each kind, and run ({WITNESSES})",
    )
    parser.add_argument(
        "--work",
        metavar="FOLDER",
        help="keep what is done, or followed, here: the same command goes on from there",
    )
    parser.add_argument("--fresh", action="store_true", help="start over in --work")


def count(text: str) -> int:
    """A number of things, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    check_pictures(options, follows=options.follow, is_table=options.format == EVENTS)
    if options.follow:
        return follow.run(options)
    from precedes.audit import to_json, to_text

    reports = _reports(options)
    combined = to_json(reports)
    if options.json:
        show_json(combined)
    else:
        witnesses = [witness for report in reports for witness in report.witnesses]
        show_text(to_text(reports).rstrip(), VERDICTS, names=_names(witnesses))
    write_pictures(options, reports)
    return Exit.of(combined["verdict"])


def _names(witnesses: Sequence[Witness]) -> Iterator[str]:
    """What sentences call nodes and messages: names of a log may hold spaces."""
    for witness in witnesses:
        yield from (witness.node_name, witness.message_name, witness.earlier_name or "")
        for step in witness.steps:
            yield from (step.node_name, step.message_name)


def _reports(options: argparse.Namespace) -> list[Report]:
    """What the audit says of each run: few and small logs here, others on Spark."""
    from precedes.audit import audit
    from precedes.pipeline.audit import audit_tables_here, is_for_spark
    from precedes.pipeline.directory import logs_in
    from precedes.trace.blocks.tables import table_files

    tables = options.format == EVENTS
    dialect = dialect_of(options)
    paths = options.path
    if tables:
        paths = table_files(paths)
    else:
        paths = named_logs([logs_in(path) for path in paths], format=options.format)
    for path in paths:
        format_noted(path, options.format, dialect)
    asked = options.conf or options.ui or (tables and options.work)
    if asked or is_for_spark(paths, master=options.master):
        with spark_told(options):
            return _on_spark(paths, options, dialect)
    if tables:
        return audit_tables_here(paths, witnesses=options.witnesses)
    with phase("audit"), ProgressBar("audit") as bar:
        return audit(
            list(paths),
            format=options.format,
            dialect=dialect,
            witnesses=options.witnesses,
            work=options.work,
            fresh=options.fresh,
            progress=bar,
        )


def _on_spark(
    paths: Sequence[Address], options: argparse.Namespace, dialect: Dialect
) -> list[Report]:
    """The reports on logs, by Spark; ``events`` are tables that hold many runs in any order."""
    from precedes.pipeline.audit import audit_files, audit_tables
    from precedes.pipeline.spark.session import open_session

    with (
        phase("audit, on Spark"),
        ProgressBar("audit") as bar,
        open_session(**spark_of(options)) as spark,
    ):
        kept = {"witnesses": options.witnesses, "work": options.work, "fresh": options.fresh}
        if options.format == EVENTS:
            return audit_tables(spark, paths, progress=bar, **kept)
        return audit_files(
            spark, paths, format=options.format, dialect=dialect, progress=bar, **kept
        )


def named_logs(paths: list[Address], *, format: str = "auto") -> list[Address]:
    """The files named, and those in the directories named; a directory of tables is one log."""
    from precedes.trace.detect import TABLES
    from precedes.trace.members import holds_member_logs
    from precedes.trace.source import STANDARD_INPUT

    if paths.count(STANDARD_INPUT) > 1:
        raise UserError("standard input can be read only once: name - once")
    found: list[Address] = []
    for path in paths:
        is_one = not path.is_folder() or format in TABLES or holds_member_logs(path)
        found += [path] if is_one else _logs_inside(path, format)
    return found


def _logs_inside(directory: Address, format: str) -> list[Address]:
    shown = [directory / name for name in directory.names() if name[:1] not in (".", "_")]
    if format == "auto":
        shown = [path for path in shown if path.name.endswith(ENDINGS)]
    if not shown:
        raise UserError(f"{directory} holds no traces or logs ({', '.join(ENDINGS)})")
    return shown
