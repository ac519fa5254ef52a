"""The exact audit on Spark, of many logs and of large ones.

Small logs are audited whole, many in a task. A large trace in order is audited by ranges of its
nodes (``ranges``); any other large log, and tables in no order, are sorted first, by way of blocks
(``unordered``). No event passes through Spark.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from precedes.audit import Report, audit
from precedes.audit.report import WITNESSES
from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline import reading, tasks, unordered
from precedes.pipeline.ranges import audit_runs
from precedes.pipeline.reports import report_of
from precedes.pipeline.workspace import Workspace, open_workspace
from precedes.stores import Address, Entry, Place, look
from precedes.trace import Dialect
from precedes.trace.formats.tables import table_files
from precedes.trace.opening import LARGE_ROWS, is_trace, row_count, sort_tables
from precedes.trace.reader import read_metadata, trace_rows
from precedes.trace.rows import NoOrder, Rows
from precedes.trace.source import STANDARD_INPUT

READABLE: Final = ("file", "folder")  # by any process, any number of times

# CPU seconds for auditing a byte of a trace (four to an event) or of a JSON log, and for opening
# a file.
BYTE_S: Final = 0.07e-6
FILE_S: Final = 0.01

# Spark takes some seconds to start: with less work than this, one process is faster.
WORTH_SPARK_S: Final = 20.0

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def audit_costs_s(found: Sequence[Entry | None]) -> list[float]:
    """A guess of the CPU seconds that auditing each file takes; a folder counts as an empty one."""
    return [
        FILE_S
        if entry is None or entry.kind != "file"
        else FILE_S + BYTE_S * entry.size_bytes * (10 if entry.name.endswith(".gz") else 1)
        for entry in found
    ]


def is_for_spark(paths: Sequence[Address], *, master: str | None) -> bool:
    """Whether to audit on Spark: a master is named, or several files are much work together."""
    if master is not None:
        return True
    found = look(paths) if len(paths) > 1 else []
    if sum(audit_costs_s(found)) < WORTH_SPARK_S:
        return False
    # Only this process can read a pipe.
    if not all(entry is not None and entry.kind in READABLE for entry in found):
        return False
    return importlib.util.find_spec("pyspark") is not None


def audit_files(
    spark: SparkSession,
    paths: Sequence[Place],
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
    witnesses: int = WITNESSES,
    work: Place | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[Report]:
    """A report for every run in the files, in their order; the first unreadable file is raised.

    ``work`` is a folder that all machines see, for what is done so far of large logs: the same
    call, or the same one without Spark, goes on from there; ``fresh`` starts over. Without one,
    a machine that is alone has a temporary one.
    """
    reading.check_format(format)
    files = [Address.of(path) for path in paths]
    found = look(files)
    for path, entry in zip(files, found, strict=True):
        if path == STANDARD_INPUT or entry is None or entry.kind not in READABLE:
            raise UserError(f"there is no file {path}, and Spark tasks read nothing else")
    is_large = [row_count(path, format) >= LARGE_ROWS for path in files]
    small = [number for number, large in enumerate(is_large) if not large]
    plan = _Plan(format, dialect, witnesses)
    costs_s = audit_costs_s(found)
    share = sum(costs_s[n] for n in small) / sum(costs_s, 1e-9)
    whole = _audit_small(
        spark,
        plan,
        [files[n] for n in small],
        [costs_s[n] for n in small],
        _part(progress, 0, share),
    )
    reports: dict[int, list[Report]] = dict(zip(small, whole, strict=True))
    if len(small) == len(files):
        return [report for number in small for report in reports[number]]
    options = {"format": format, "dialect": asdict(dialect or Dialect()), "witnesses": witnesses}
    with open_workspace(spark, work, logs=files, options=options, fresh=fresh) as space:
        for number, path in enumerate(files):
            if is_large[number]:
                before = sum(len(reports[earlier]) for earlier in range(number))
                told = _part(progress, share + (1 - share) * number / len(files), 1.0)
                reports[number] = _audit_large(spark, plan, path, space, before, told)
    return [report for number in range(len(files)) for report in reports[number]]


class _Plan:
    """What holds for all logs, and how a task audits one whole."""

    def __init__(self, format: str, dialect: Dialect | None, witnesses: int) -> None:
        self.format = format
        self.dialect = dialect
        self.witnesses = witnesses

    def __call__(self, order: tasks.Order) -> list[dict[str, Any]]:
        try:
            reports = audit(
                [order["path"]],
                format=self.format,
                dialect=self.dialect,
                witnesses=self.witnesses,
            )
            return [{**asdict(report), "origin": order["shown"]} for report in reports]
        except UserError as error:
            raise UserError(str(error).replace(order["path"], order["shown"])) from None


def _audit_small(
    spark: SparkSession,
    plan: _Plan,
    files: Sequence[Address],
    costs_s: Sequence[float],
    progress: Progress | None,
) -> list[list[Report]]:
    found = tasks.run_stage(
        spark,
        plan,
        [{"path": str(file.absolute()), "shown": str(file)} for file in files],
        costs_s,
        title="audit files",
        progress=progress,
        addresses=files,
    )
    return [[report_of(row) for row in rows] for rows in found]


def _audit_large(
    spark: SparkSession,
    plan: _Plan,
    path: Address,
    space: Workspace,
    before: int,
    progress: Progress | None,
) -> list[Report]:
    """The reports on a large log, of which ``before`` others come first."""
    complete = plan.dialect is not None and plan.dialect.complete
    if plan.format in ("auto", "precedes") and is_trace(path):
        complete = complete or read_metadata(path)["complete"]
        with contextlib.suppress(NoOrder):
            runs: list[Rows] = [*trace_rows(str(path.absolute()))]
            for rows in runs:
                rows.origin = str(path)
                rows.complete = complete
            names = [f"run-{before + number}" for number in range(len(runs))]
            return audit_runs(
                spark, runs, space, names=names, witnesses=plan.witnesses, progress=progress
            )
    directory = space.directory(f"sorted-{before}")
    if not unordered.is_sorted(directory):
        packed = unordered.pack_log(
            spark, path, directory, format=plan.format, dialect=plan.dialect, progress=progress
        )
        unordered.sort_blocks(spark, packed, directory)
    found = unordered.runs_in(directory, complete=complete, origin=str(path))
    names = [f"run-{before + number}-sorted" for number in range(len(found))]
    return audit_runs(spark, found, space, names=names, witnesses=plan.witnesses)


def audit_tables_here(paths: Sequence[Place], *, witnesses: int = WITNESSES) -> list[Report]:
    """``audit_tables`` in this process, without Spark: for tables that take it some seconds."""
    runs = sort_tables(table_files(paths))
    return [audit(run, witnesses=witnesses) for run in runs]


def audit_tables(
    spark: SparkSession,
    paths: Sequence[Place],
    *,
    witnesses: int = WITNESSES,
    work: Place | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[Report]:
    """A report for every run in tables of events, whose rows may be in any order.

    The tables are Parquet files, or directories of them, with the columns of a trace; ``node`` and
    ``run_id`` may hold names, and instead of ``source`` and ``seq`` there may be ``message``, a
    name. Whether the log goes on is not known, so nothing counts as lost. ``work`` and ``fresh``
    are as for ``audit_files``.
    """
    files = table_files(paths)
    options = {"format": "events", "witnesses": witnesses}
    with open_workspace(spark, work, logs=files, options=options, fresh=fresh) as space:
        directory = space.directory("sorted")
        if not unordered.is_sorted(directory):
            told = _part(progress, 0.0, 0.5)
            packed = unordered.pack_tables(spark, files, directory, progress=told)
            told = _part(progress, 0.5, 0.6)
            unordered.sort_blocks(spark, packed, directory, progress=told)
        runs = unordered.runs_in(directory)
        names = [f"run-{number}-sorted" for number in range(len(runs))]
        told = _part(progress, 0.6, 1.0)
        return audit_runs(spark, runs, space, names=names, witnesses=witnesses, progress=told)


def _part(progress: Progress | None, low: float, high: float) -> Progress | None:
    """The progress of a part of the work."""
    return None if progress is None else lambda share: progress(low + (high - low) * share)
