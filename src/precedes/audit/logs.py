"""The audit of logs of any location and size."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, overload

from precedes.audit.report import WITNESSES, Report, Reports, report_on
from precedes.audit.stages import Runner, Span, carry_out, cut_evenly
from precedes.audit.views import with_views
from precedes.audit.work import Kept, Work, code_version, input_version, open_work
from precedes.errors import UserError, meant
from precedes.model import Progress, part_of
from precedes.stores import Place
from precedes.trace.dialect import Dialect
from precedes.trace.members import MemberRows
from precedes.trace.opening import Readable, gathered, is_stored, open_rows
from precedes.trace.rows import NoOrder, Rows
from precedes.trace.source import ArrowTable, Log, Recorded, SparkTable

# Approximate rows of a range: at most a minute's work is lost when an audit is stopped.
RANGE_ROWS: Final = 24_000_000
OPTIONS: Final = ("format", "dialect", "witnesses", "work", "fresh", "ranges", "progress")


@overload
def audit(
    source: Rows | Recorded,
    *,
    witnesses: int = ...,
    ranges: int | None = ...,
    runner: Runner | None = ...,
    progress: Progress | None = ...,
) -> Report: ...


@overload
def audit(
    source: Log | ArrowTable | SparkTable | Sequence[Readable],
    *,
    format: str = ...,
    dialect: Dialect | None = ...,
    witnesses: int = ...,
    work: Place | None = ...,
    fresh: bool = ...,
    ranges: int | None = ...,
    progress: Progress | None = ...,
) -> Reports: ...


def audit(
    source: Readable | Sequence[Readable],
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
    witnesses: int = WITNESSES,
    work: Place | None = None,
    fresh: bool = False,
    ranges: int | None = None,
    runner: Runner | None = None,
    progress: Progress | None = None,
    **unknown: Any,
) -> Report | Reports:
    """The exact verdict on a run, or on every run of a log or a list of logs.

    A log is whatever ``precedes.load`` reads. A ``Result`` of ``simulate`` or a ``History`` is one
    run and gives a ``Report``; all others give ``Reports``, a list. A trace in order is read piece
    by piece, in bounded memory; other logs are read into memory.

    The views of a live group's members are checked with their logs (``check_views``).

    There are up to ``witnesses`` of each kind. ``work`` is a folder for partial results: the same
    call resumes from it, and ``fresh`` starts over. ``ranges`` is the number of parts that the
    nodes of a run are divided into; it changes the amount of work at a time, never the result.
    """
    for name in unknown:
        hint = meant(name, OPTIONS)
        if name in Dialect.__annotations__:
            hint = f", but a dialect has: use dialect=Dialect({name}=...) of precedes.trace"
        raise UserError(f"audit has no argument {name!r}{hint}")
    if witnesses < 0:
        raise UserError(f"witnesses are 0 or more, not {witnesses}")
    if ranges is not None and ranges < 1:
        raise UserError(f"a run is cut into 1 range or more, not {ranges}")

    def carried_out(rows: Rows, kept: Work | None, name: str, share: Progress | None) -> Report:
        on_rows = _on_rows(rows, share)
        store = None if kept is None else kept.run(name)

        def cut() -> list[Span]:
            return cut_evenly(rows, ranges or 1 + int(rows.counts.sum()) // RANGE_ROWS)

        if store is None:
            chosen, spans = runner or Runner(on_rows=on_rows), cut()
        else:
            chosen, spans = Kept(store, on_rows), store.ranges(cut)
        outcome = carry_out(rows, spans, runner=chosen, violations_max=witnesses)
        return report_on(rows, outcome, witnesses=witnesses)

    def audited(rows: Rows, kept: Work | None, name: str, share: Progress | None) -> Report:
        try:
            return carried_out(rows, kept, name, share)
        except NoOrder:
            return carried_out(gathered(rows), kept, f"{name}-gathered", share)

    if isinstance(source, Rows | Recorded):
        (rows,) = open_rows(source)
        # A copy, since a history caches data about its rows.
        return audited(copy.copy(rows), None, "", progress)
    logs: list[Any] = [*source] if isinstance(source, list | tuple) else [source]
    options = {"format": format, "dialect": asdict(dialect or Dialect()), "witnesses": witnesses}
    reports = Reports()
    with opened_work(work, logs, options, fresh=fresh) as kept:
        for number, log in enumerate(logs):
            share = part_of(progress, number / len(logs), (number + 1) / len(logs))
            for rows in open_rows(log, format, dialect=dialect):
                report = audited(rows, kept, f"run-{len(reports)}", share)
                if isinstance(rows, MemberRows):
                    report = with_views(report, log)
                reports.append(report)
            if share is not None:
                share(1.0)
    return reports


@contextlib.contextmanager
def opened_work(
    work: Place | None, logs: Sequence[Any], options: Mapping[str, object], *, fresh: bool
) -> Iterator[Work | None]:
    """The work folder for these logs and options, if one is named."""
    if work is None:
        if fresh:
            raise UserError("`fresh` requires `work`")
        yield None
        return
    if not all(is_stored(log) and not hasattr(log, "read") and str(log) != "-" for log in logs):
        raise UserError(
            "`work` needs logs that can be read again, which standard input and objects in memory "
            "cannot: name files, or leave it out"
        )
    inputs = [[str(log), input_version(log)] for log in logs]
    plan = {"inputs": inputs, "options": options, "code": code_version()}
    with open_work(work, plan, fresh=fresh) as kept:
        yield kept


def _on_rows(rows: Rows, progress: Progress | None) -> Callable[[int], None] | None:
    """Report the completed share, by rows: each is read twice."""
    if progress is None:
        return None
    total = max(1, 2 * int(rows.counts.sum()))
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress(min(1.0, done / total))

    return report
