"""The audit of logs, wherever they are and however large."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final, overload

from precedes.audit.report import WITNESSES, Report, Reports, report_on
from precedes.audit.stages import Runner, Span, carry_out, cut_evenly
from precedes.audit.work import Kept, Work, code_version, input_version, open_work
from precedes.errors import UserError
from precedes.model import Progress
from precedes.stores import Place
from precedes.trace.dialect import Dialect
from precedes.trace.opening import gathered, open_rows
from precedes.trace.rows import NoOrder, Rows

# Rows of a range, about: a minute's work is lost at most when an audit is stopped.
RANGE_ROWS: Final = 24_000_000

Logs = Place | list[Place] | tuple[Place, ...]


@overload
def audit(
    source: Rows,
    *,
    witnesses: int = ...,
    ranges: int | None = ...,
    runner: Runner | None = ...,
    progress: Progress | None = ...,
) -> Report: ...


@overload
def audit(
    source: Logs,
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
    source: Rows | Logs,
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
    witnesses: int = WITNESSES,
    work: Place | None = None,
    fresh: bool = False,
    ranges: int | None = None,
    runner: Runner | None = None,
    progress: Progress | None = None,
) -> Report | Reports:
    """The exact verdict on a run, or on every run of a log or a list of logs.

    A log is a path or an address; a trace in order is read piece by piece, in bounded memory,
    others are read into memory, which a ``History`` is already. There are up to ``witnesses`` of
    each kind. ``work`` is a folder for what is done so far: the same call goes on from there, and
    ``fresh`` starts over. ``ranges`` is how many parts the nodes of a run are cut into; it changes
    what is done at a time, never the result.
    """
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

    if isinstance(source, Rows):
        # A copy, with which goes what a history finds out about its rows.
        return audited(copy.copy(source), None, "", progress)
    logs: list[Place] = [*source] if isinstance(source, list | tuple) else [source]
    options = {"format": format, "dialect": asdict(dialect or Dialect()), "witnesses": witnesses}
    reports = Reports()
    with opened_work(work, logs, options, fresh=fresh) as kept:
        for number, log in enumerate(logs):
            share = None if progress is None else _share_of(progress, number, len(logs))
            for rows in open_rows(log, format, dialect=dialect):
                reports.append(audited(rows, kept, f"run-{len(reports)}", share))
            if share is not None:
                share(1.0)
    return reports


@contextlib.contextmanager
def opened_work(
    work: Place | None, logs: Sequence[Place], options: Mapping[str, object], *, fresh: bool
) -> Iterator[Work | None]:
    """The work folder for these logs and options, if one is named."""
    if work is None:
        if fresh:
            raise UserError("there is nothing to start over without `work`")
        yield None
        return
    if any(str(log) == "-" for log in logs):
        raise UserError("standard input cannot be read again: name a file, or leave out `work`")
    inputs = [[str(log), input_version(log)] for log in logs]
    plan = {"inputs": inputs, "options": options, "code": code_version()}
    with open_work(work, plan, fresh=fresh) as kept:
        yield kept


def _on_rows(rows: Rows, progress: Progress | None) -> Callable[[int], None] | None:
    """Reports the share that is done, by rows: each is read twice."""
    if progress is None:
        return None
    total = max(1, 2 * int(rows.counts.sum()))
    done = 0

    def report(count: int) -> None:
        nonlocal done
        done += count
        progress(min(1.0, done / total))

    return report


def _share_of(progress: Progress, number: int, count: int) -> Progress:
    """The progress of one log among many."""
    return lambda share: progress((number + share) / count)
