"""``precedes audit``, and ``--follow``: the audit of a log while it is written."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from precedes import frames
from precedes.cli import common
from precedes.cli.common import flag, option
from precedes.cli.terminal import VERDICTS, show_text
from precedes.cli.view import add_picture_options, check_pictures, write_pictures
from precedes.console import phase, say, show
from precedes.errors import Exit, UserError
from precedes.model import printable
from precedes.progress import ProgressBar
from precedes.provenance import made_by
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.audit import Report, Standing, Witness
    from precedes.trace import Dialect

WITNESSES: Final = 5  # that of `precedes.audit`, which would take its time to import
EVENTS: Final = "events"  # tables that Spark reads, of any size and in any order
WAITS_SHOWN: Final = 3
SKIPPED_SHOWN: Final = 5

# Suffixes of logs in a directory.
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
        ("audit examples/chat.jsonl", "JSON lines"),
        ("audit examples/logs/chat.log --json", "a ShiViz log, JSON output"),
        help="check causal order in logs and explain violations",
        description="Check whether causal order held in a log. Exit status 0: held, 1: violated, "
        "3: unknown.",
    )
    help = "trace, log or directory (path or URL), or - for stdin"
    option(parser, "path", None, help, Address.of, nargs="+")
    common.add_format_options(parser, more=[EVENTS])
    flag(parser, "--skip-unknown", "skip files of unknown format in a directory")
    help = f"maximum witnesses per kind and run ({WITNESSES})"
    option(parser, "--witnesses", "K", help, _count, WITNESSES)
    help = "keep progress here; the same command resumes"
    option(parser, "--work", "FOLDER", help)
    flag(parser, "--fresh", "discard the progress in --work")
    common.add_spark(parser, help="run on this Spark master")
    flag(
        parser,
        "--follow",
        "audit members' logs, JSON lines or CSV while they grow",
    )
    option(parser, "--every", "S", "seconds between reads with --follow (1)", float, 1.0)
    option(parser, "--idle", "S", "stop after S seconds without new data (never)", float)
    flag(parser, "--until-violated", "stop at the first violation")
    add_picture_options(parser)
    common.add_json(parser)


def _count(text: str) -> int:
    """A count, for argparse."""
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
    """Names of nodes and messages in sentences: names of a log may contain spaces."""
    for witness in witnesses:
        yield from (witness.node_name, witness.message_name, witness.earlier_name or "")
        for step in witness.steps:
            yield from (step.node_name, step.message_name)


def _reports(options: argparse.Namespace) -> list[Report]:
    """The reports on all runs: few and small logs are audited here, others on Spark."""
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
        skipped: list[Address] | None = [] if options.skip_unknown else None
        places = [logs_in(path) for path in paths]
        paths = named_logs(places, options.format, dialect, skipped=skipped)
        if skipped:
            files = frames.counted(len(skipped), "file")
            shown = ", ".join(map(str, skipped[:SKIPPED_SHOWN]))
            more = ", ..." if len(skipped) > SKIPPED_SHOWN else ""
            say(f"skipped {files} of unknown format: {shown}{more}")
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
        common.spark_reported(options),
        phase("audit"),
        ProgressBar("audit") as bar,
        open_runner(work_s, **common.spark_of(options)) as runner,
    ):
        reports: list[Report] = judge(runner, paths, progress=bar, **read, **kept)
        return reports


def named_logs(
    paths: list[Address],
    format: str = "auto",
    dialect: Dialect | None = None,
    *,
    skipped: list[Address] | None = None,
) -> list[Address]:
    """The files named, and those in the directories named; a directory of tables is one log."""
    from precedes.trace.members import holds_member_logs
    from precedes.trace.opening import TABLES
    from precedes.trace.source import STANDARD_INPUT

    if paths.count(STANDARD_INPUT) > 1:
        raise UserError("standard input can be read only once: name - once")
    logs: list[Address] = []
    for path in paths:
        is_one = not path.is_folder() or format in TABLES or holds_member_logs(path)
        logs += [path] if is_one else _logs_inside(path, format, dialect, skipped)
    return logs


def _logs_inside(
    directory: Address, format: str, dialect: Dialect | None, skipped: list[Address] | None
) -> list[Address]:
    """The files of a directory; those of unknown format go to ``skipped``, or are an error."""
    from precedes.trace.opening import UnknownFormat, format_of

    shown = [directory / name for name in directory.names() if name[:1] not in (".", "_")]
    if format != "auto":
        return _not_empty(shown, directory)
    logs = []
    for path in shown:
        is_usual = path.name.endswith(ENDINGS)
        if not is_usual and path.is_folder():
            continue
        try:
            # A store takes a request for each look.
            if path.is_local or skipped is not None or not is_usual:
                format_of(path, dialect=dialect)
            logs.append(path)
        except UnknownFormat as error:
            if skipped is None:
                raise UserError(f"{error}, or skip such files with --skip-unknown") from None
            skipped.append(path)
    return _not_empty(logs, directory)


def _not_empty(logs: list[Address], directory: Address) -> list[Address]:
    if not logs:
        raise UserError(f"{directory} holds no traces or logs ({', '.join(ENDINGS)})")
    return logs


def _follow(options: argparse.Namespace) -> int:
    """Follow one log, and print a line for each change."""
    from precedes.audit import follow

    if len(options.path) != 1:
        raise UserError("one log can be followed at a time: a file, or a directory")
    verdict = "unknown"
    printer = StandingPrinter(is_json=options.json)
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
            printer.show(standing)
            verdict = standing.report.verdict
            if options.until_violated and verdict == "violated":
                break
    return Exit.of(verdict)


class StandingPrinter:
    """The printed findings of a followed log: nothing is printed twice."""

    def __init__(self, *, is_json: bool, is_brief: bool = False) -> None:
        """``is_brief``: print only violations, and nothing at the end."""
        self._is_json = is_json
        self._is_brief = is_brief
        self._last = ""
        self._verdict = ""
        self._sentences: set[str] = set()

    def show(self, standing: Standing) -> None:
        """Print a line, and the new witnesses."""
        report = standing.report
        sentences = [*(w.sentence for w in report.witnesses), *report.view_findings]
        new = [sentence for sentence in sentences if sentence not in self._sentences]
        self._sentences |= set(new)
        is_news = bool(new) or (report.verdict == "violated") != (self._verdict == "violated")
        self._verdict = report.verdict
        if self._is_brief and (standing.is_final or not is_news):
            return
        if self._is_json:
            text = json.dumps({**as_json(standing), "precedes": made_by()})
        else:
            lines = [f"  - {printable(sentence)}" for sentence in new]
            text = "\n".join([_as_line(standing), *lines])
        if text != self._last:
            self._last = text
            show(text) if self._is_json else show_text(text, VERDICTS)


def as_json(standing: Standing) -> dict[str, Any]:
    """A standing as one object: the output of ``precedes audit --json`` with its position."""
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
    if len(waits) > WAITS_SHOWN:
        more = len(waits) - WAITS_SHOWN
        waits[WAITS_SHOWN:] = [f"{more} more {'waits' if more == 1 else 'wait'}"]
    return f"{report.verdict}{so_far}: {'; '.join([', '.join(parts), *waits])}"


@contextmanager
def _stopping() -> Iterator[list[int]]:
    """A list that the first Ctrl-C appends to: rows that were read are still judged."""
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
