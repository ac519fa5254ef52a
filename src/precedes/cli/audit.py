"""``precedes audit``, and ``--follow``: the audit of a log while it is written."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from precedes.cli import common
from precedes.cli.common import flag, option
from precedes.cli.terminal import VERDICTS, show_text
from precedes.cli.view import add_picture_options, check_pictures, write_pictures
from precedes.console import phase, show
from precedes.errors import Exit, UserError
from precedes.model import printable
from precedes.progress import ProgressBar
from precedes.provenance import made_by
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.audit import Report, Standing, Witness

WITNESSES: Final = 5  # that of `precedes.audit`, which would take its time to import
EVENTS: Final = "events"  # tables that Spark reads, of any size and in any order
WAITS_TOLD: Final = 3

# How the names of logs end, among what else a directory holds.
ENDINGS: Final = (
    *(".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst"),
    *(".csv", ".csv.gz", ".csv.zst"),
)


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "audit",
        _run,
        ("audit examples/chat.jsonl", "a log of your own system"),
        ("audit examples/logs/chat.log --json", "of ShiViz, for programs"),
        help="check causal order in logs, with a witness for what is wrong",
        description="Check causal order. Exit status 0: held, 1: violated, 3: unknown.",
    )
    help = "traces, logs, directories of them (paths or URLs), or - (standard input)"
    option(parser, "path", None, help, Address.of, nargs="+")
    common.add_format_options(parser, more=[EVENTS])
    help = f"at most so many of each kind, and run ({WITNESSES})"
    option(parser, "--witnesses", "K", help, _count, WITNESSES)
    help = "keep what is done, or followed, here: the same command goes on from there"
    option(parser, "--work", "FOLDER", help)
    flag(parser, "--fresh", "start over in --work")
    common.add_spark(parser, help="use Spark, on this master")
    flag(
        parser,
        "--follow",
        "audit a log while it is written: members' logs, JSON lines, CSV; Ctrl-C ends it",
    )
    option(parser, "--every", "S", "look for rows so often (1)", float, 1.0)
    option(parser, "--idle", "S", "end after S seconds without a new byte (never)", float)
    flag(parser, "--until-violated", "end with the first violation")
    add_picture_options(parser)
    common.add_json(parser)


def _count(text: str) -> int:
    """A number of things, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _run(options: argparse.Namespace) -> int:
    check_pictures(options, follows=options.follow, is_table=options.format == EVENTS)
    if options.follow:
        return _follow(options)
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
    from precedes.pipeline.audit import audit_files, audit_tables, audit_tables_here, shared_work_s
    from precedes.pipeline.directory import logs_in
    from precedes.pipeline.runner import open_runner
    from precedes.trace.formats.tables import table_files

    tables = options.format == EVENTS
    dialect = common.dialect_of(options)
    paths = options.path
    if tables:
        paths = table_files(paths)
    else:
        paths = named_logs([logs_in(path) for path in paths], format=options.format)
    for path in paths:
        common.format_noted(path, options.format, dialect)
    asked = options.master or options.conf or options.ui or (tables and options.work)
    work_s = shared_work_s(paths)
    if tables and not asked and not work_s:
        return audit_tables_here(paths, witnesses=options.witnesses)
    kept: dict[str, Any] = {name: getattr(options, name) for name in ("witnesses", "work", "fresh")}
    read: dict[str, Any] = {} if tables else {"format": options.format, "dialect": dialect}
    if not asked and not work_s:
        with phase("audit"), ProgressBar("audit") as bar:
            return audit(list(paths), progress=bar, **read, **kept)
    judge: Any = audit_tables if tables else audit_files
    with (
        common.spark_told(options),
        phase("audit"),
        ProgressBar("audit") as bar,
        open_runner(work_s, **common.spark_of(options)) as runner,
    ):
        reports: list[Report] = judge(runner, paths, progress=bar, **read, **kept)
        return reports


def named_logs(paths: list[Address], *, format: str = "auto") -> list[Address]:
    """The files named, and those in the directories named; a directory of tables is one log."""
    from precedes.trace.members import holds_member_logs
    from precedes.trace.opening import TABLES
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


def _follow(options: argparse.Namespace) -> int:
    """Follow one log, and print a line for each change."""
    from precedes.audit import follow

    if len(options.path) != 1:
        raise UserError("one log can be followed at a time: a file, or a directory")
    verdict = "unknown"
    told = Told(is_json=options.json)
    with _stopping() as stopping:
        standings = follow(
            str(options.path[0]),
            format=options.format,
            every_s=options.every,
            work=options.work,
            dialect=common.dialect_of(options),
            idle_s=options.idle,
            witnesses=options.witnesses,
            fresh=options.fresh,
            is_stopped=lambda: bool(stopping),
        )
        for standing in standings:
            told.tell(standing)
            verdict = standing.report.verdict
            if options.until_violated and verdict == "violated":
                break
    return Exit.of(verdict)


class Told:
    """What was printed of a log so far: nothing is printed twice."""

    def __init__(self, *, is_json: bool, is_brief: bool = False) -> None:
        """``is_brief``: only when a violation is found, and not at the end."""
        self._is_json = is_json
        self._is_brief = is_brief
        self._last = ""
        self._verdict = ""
        self._sentences: set[str] = set()

    def tell(self, standing: Standing) -> None:
        """Print a line, and the witnesses that are new."""
        report = standing.report
        new = [w for w in report.witnesses if w.sentence not in self._sentences]
        self._sentences |= {witness.sentence for witness in new}
        is_news = bool(new) or (report.verdict == "violated") != (self._verdict == "violated")
        self._verdict = report.verdict
        if self._is_brief and (standing.is_final or not is_news):
            return
        if self._is_json:
            text = json.dumps({**as_json(standing), "precedes": made_by()})
        else:
            lines = [f"  - {printable(witness.sentence)}" for witness in new]
            text = "\n".join([_as_line(standing), *lines])
        if text != self._last:
            self._last = text
            show(text) if self._is_json else show_text(text, VERDICTS)


def as_json(standing: Standing) -> dict[str, Any]:
    """A standing as one object: what ``precedes audit --json`` prints, and how far it is."""
    from precedes.audit import to_json

    return {
        **to_json([standing.report]),
        "final": standing.is_final,
        "rows_read": standing.rows_read,
        "rows_judged": standing.rows_judged,
        "waiting": [wait._asdict() for wait in standing.waiting],
        "state_bytes": standing.state_bytes,
    }


def _as_line(standing: Standing) -> str:
    """A standing in a line."""
    from precedes.audit.report import counted_deliveries, other_findings

    report = standing.report
    so_far = "" if standing.is_final or report.verdict == "violated" else " so far"
    parts = [counted_deliveries(report.deliveries, report.violations)]
    parts += other_findings(vars(report))
    if not standing.is_final and standing.rows_judged < standing.rows_read:
        parts.append(f"{standing.rows_judged:,} of {standing.rows_read:,} rows judged")
    waits = [printable(str(wait)) for wait in standing.waiting]
    if len(waits) > WAITS_TOLD:
        more = len(waits) - WAITS_TOLD
        waits[WAITS_TOLD:] = [f"{more} more {'waits' if more == 1 else 'wait'}"]
    return f"{report.verdict}{so_far}: {'; '.join([', '.join(parts), *waits])}"


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """A list that Ctrl-C puts something into, the first time: rows that are read are judged."""
    stopping: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)
        reset()

    def reset() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in before:
        signal.signal(number, stop)
    try:
        yield stopping
    finally:
        reset()
