"""``precedes audit``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from precedes.cli import common, follow
from precedes.cli.formats import add_format_options, dialect_of, format_noted
from precedes.cli.terminal import VERDICTS
from precedes.cli.view import add_picture_options, check_pictures, write_pictures
from precedes.console import phase
from precedes.errors import Exit, UserError
from precedes.progress import ProgressBar
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.audit import Report, Witness

WITNESSES: Final = 5  # that of `precedes.audit`, which would take its time to import
EVENTS: Final = "events"  # tables that Spark reads, of any size and in any order

# How the names of logs end, among what else a directory holds.
ENDINGS: Final = (
    *(".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst"),
    *(".csv", ".csv.gz", ".csv.zst"),
)


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="check causal order in logs, with a witness for what is wrong",
        description="Check causal order. Exit status 0: held, 1: violated, 3: unknown.",
        epilog=common.examples(
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
    parser.add_argument(
        "--witnesses",
        type=_count,
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
    common.add_spark(parser, help="use Spark, on this master")
    follow.add_options(parser)
    add_picture_options(parser)
    common.add_json(parser)
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
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
    names = _names(witness for report in reports for witness in report.witnesses)
    common.answer(options, combined, to_text(reports).rstrip(), VERDICTS, names=names)
    write_pictures(options, reports)
    return Exit.of(combined["verdict"])


def _names(witnesses: Iterable[Witness]) -> Iterator[str]:
    """What sentences call nodes and messages: names of a log may hold spaces."""
    for witness in witnesses:
        yield from (witness.node_name, witness.message_name, witness.earlier_name or "")
        for step in witness.steps:
            yield from (step.node_name, step.message_name)


def _reports(options: argparse.Namespace) -> list[Report]:
    """What the audit says of each run: few and small logs here, others on Spark."""
    from precedes.audit import audit
    from precedes.pipeline.audit import audit_files, audit_tables, audit_tables_here, is_for_spark
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
    on_spark = asked or is_for_spark(paths, master=options.master)
    if tables and not on_spark:
        return audit_tables_here(paths, witnesses=options.witnesses)
    kept: dict[str, Any] = {
        "witnesses": options.witnesses,
        "work": options.work,
        "fresh": options.fresh,
    }
    read: dict[str, Any] = {} if tables else {"format": options.format, "dialect": dialect}
    if not on_spark:
        with phase("audit"), ProgressBar("audit") as bar:
            return audit(list(paths), progress=bar, **read, **kept)
    from precedes.pipeline.spark.session import open_session

    judge: Any = audit_tables if tables else audit_files
    with (
        common.spark_told(options),
        phase("audit, on Spark"),
        ProgressBar("audit") as bar,
        open_session(**common.spark_of(options)) as spark,
    ):
        reports: list[Report] = judge(spark, paths, progress=bar, **read, **kept)
        return reports


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
