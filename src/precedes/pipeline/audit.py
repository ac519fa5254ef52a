"""The exact audit on Spark, of many logs and of large ones.

Small logs are audited whole, many in a task. A large trace in order is audited by ranges of its
nodes (``ranges``); any other large log, and tables in no order, are sorted first, by way of blocks
(``unordered``). No event passes through Spark.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from precedes.audit import Report, audit
from precedes.audit.logs import opened_work
from precedes.audit.report import WITNESSES
from precedes.audit.work import PartStore
from precedes.errors import UserError
from precedes.files import make_directory, own_directory
from precedes.model import Progress, part_of
from precedes.pipeline import reading, unordered
from precedes.pipeline.ranges import audit_runs, report_of
from precedes.pipeline.runner import WORTH_SPARK_S, Order, Runner
from precedes.pipeline.spark.session import scratch_base
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _costs_s(entries: Sequence[Entry | None]) -> list[float]:
    """Estimated CPU seconds of the audit of each file; a folder counts as an empty one."""
    return [
        FILE_S
        if entry is None or entry.kind != "file"
        else FILE_S + BYTE_S * entry.size_bytes * (10 if entry.name.endswith(".gz") else 1)
        for entry in entries
    ]


def shared_work_s(paths: Sequence[Address]) -> float:
    """Estimated CPU seconds for several files, if they are worth several processes; else 0.0."""
    entries = look(paths) if len(paths) > 1 else []
    # Only this process can read a pipe.
    is_readable = all(entry is not None and entry.kind in READABLE for entry in entries)
    work_s = sum(_costs_s(entries))
    return work_s if is_readable and work_s > WORTH_SPARK_S else 0.0


def audit_files(
    spark: SparkSession | Runner | None,
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

    Without a session, processes of this machine share the work. ``work`` is a folder that all
    machines see, for partial results of large logs: the same call, or the same one without
    Spark, resumes from it; ``fresh`` starts over. Without one, a single machine has a
    temporary one.
    """
    reading.check_format(format)
    files = [Address.of(path) for path in paths]
    entries = look(files)
    for path, entry in zip(files, entries, strict=True):
        if path == STANDARD_INPUT or entry is None or entry.kind not in READABLE:
            raise UserError(f"there is no file {path}, and Spark tasks read nothing else")
    runner = Runner.of(spark)
    is_large = [row_count(path, format) >= LARGE_ROWS for path in files]
    small = [number for number, large in enumerate(is_large) if not large]
    plan = _Plan(format, dialect, witnesses)
    costs_s = _costs_s(entries)
    share = sum(costs_s[n] for n in small) / sum(costs_s, 1e-9)
    whole = runner.map(
        plan,
        [{"path": str(files[n].absolute()), "shown": str(files[n])} for n in small],
        [costs_s[n] for n in small],
        title="audit files",
        progress=part_of(progress, 0, share),
        addresses=[files[n] for n in small],
    )
    reports = {n: [*map(report_of, rows)] for n, rows in zip(small, whole, strict=True)}
    if len(small) == len(files):
        _end(progress)
        return [report for number in small for report in reports[number]]
    options = {"format": format, "dialect": asdict(dialect or Dialect()), "witnesses": witnesses}
    with open_workspace(runner, work, logs=files, options=options, fresh=fresh) as space:
        for number, path in enumerate(files):
            if is_large[number]:
                before = sum(len(reports[earlier]) for earlier in range(number))
                part = part_of(progress, share + (1 - share) * number / len(files), 1.0)
                reports[number] = _audit_large(runner, plan, path, space, before, part)
    _end(progress)
    return [report for number in range(len(files)) for report in reports[number]]


class _Plan:
    """Settings of all logs, and the work of a task that audits one whole."""

    def __init__(self, format: str, dialect: Dialect | None, witnesses: int) -> None:
        self.format = format
        self.dialect = dialect
        self.witnesses = witnesses

    def __call__(self, order: Order) -> list[dict[str, Any]]:
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


def _audit_large(
    runner: Runner,
    plan: _Plan,
    path: Address,
    space: _Workspace,
    before: int,
    progress: Progress | None,
) -> list[Report]:
    """The reports on a large log, which ``before`` others precede."""
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
                runner, runs, space.run, names=names, witnesses=plan.witnesses, progress=progress
            )
    directory = space.directory(f"sorted-{before}")
    if not unordered.is_sorted(directory):
        packed = unordered.pack_log(
            runner, path, directory, format=plan.format, dialect=plan.dialect, progress=progress
        )
        unordered.sort_blocks(runner, packed, directory)
    sorted_runs = unordered.runs_in(directory, complete=complete, origin=str(path))
    names = [f"run-{before + number}-sorted" for number in range(len(sorted_runs))]
    return audit_runs(runner, sorted_runs, space.run, names=names, witnesses=plan.witnesses)


def audit_tables_here(paths: Sequence[Place], *, witnesses: int = WITNESSES) -> list[Report]:
    """``audit_tables`` in this process, without Spark: for tables that take it some seconds."""
    runs = sort_tables(table_files(paths))
    return [audit(run, witnesses=witnesses) for run in runs]


def audit_tables(
    spark: SparkSession | Runner | None,
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
    name. The log has no end marker, so nothing counts as lost. ``work`` and ``fresh``
    are as for ``audit_files``.
    """
    runner = Runner.of(spark)
    files = table_files(paths)
    options = {"format": "events", "witnesses": witnesses}
    with open_workspace(runner, work, logs=files, options=options, fresh=fresh) as space:
        directory = space.directory("sorted")
        if not unordered.is_sorted(directory):
            part = part_of(progress, 0.0, 0.5)
            packed = unordered.pack_tables(runner, files, directory, progress=part)
            part = part_of(progress, 0.5, 0.6)
            unordered.sort_blocks(runner, packed, directory, progress=part)
        runs = unordered.runs_in(directory)
        names = [f"run-{number}-sorted" for number in range(len(runs))]
        part = part_of(progress, 0.6, 1.0)
        reports = audit_runs(
            runner, runs, space.run, names=names, witnesses=witnesses, progress=part
        )
    _end(progress)
    return reports


def _end(progress: Progress | None) -> None:
    """Report that all work is done."""
    if progress is not None:
        progress(1.0)


class _Workspace:
    """Parts by the name of a run, and directories for blocks."""

    def __init__(self, parts: Callable[[str], PartStore], base: Path | None) -> None:
        self._parts = parts
        self._base = base

    def run(self, name: str) -> PartStore:
        """The parts of a run."""
        return self._parts(name)

    def directory(self, name: str) -> Path:
        """A directory of this machine, or one that all machines see, for sorted data."""
        if self._base is None:
            raise UserError(
                "unordered logs are sorted in a directory that all machines see: name one with "
                "`work`, not a place in a store"
            )
        make_directory(self._base / name)
        return self._base / name


@contextlib.contextmanager
def open_workspace(
    runner: Runner,
    work: Place | None,
    *,
    logs: Sequence[Address] = (),
    options: Mapping[str, object] | None = None,
    fresh: bool = False,
) -> Iterator[_Workspace]:
    """A work folder for the audit of these logs; without a name, a temporary one.

    The machines of a cluster need one that all of them see. Blocks, which take 9 to 20 bytes a
    row, do not go to stores: there they stay on this machine if it is alone.
    """
    alone = bool(runner.sharers)
    if work is None and not alone:
        raise UserError(
            "the machines of a cluster need a folder that all of them see: name one with `work`"
        )
    with contextlib.ExitStack() as stack:
        base: Path | None = None
        if alone and (work is None or not Address.of(work).is_local):
            base = own_directory(scratch_base(), "precedes-audit-")
            stack.callback(shutil.rmtree, base, ignore_errors=True)
        elif work is not None and Address.of(work).is_local:
            base = Address.of(work).absolute().local
        kept = stack.enter_context(opened_work(work, logs, options or {}, fresh=fresh))
        if kept is not None:
            yield _Workspace(kept.run, base)
            return
        assert base is not None
        yield _Workspace(lambda name: PartStore(Address.of(base / name)), base)
