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
    plan = _Plan(witnesses=witnesses, ranges=ranges)
    if isinstance(source, Rows):
        source = copy.copy(source)  # with which goes what a history finds out about its rows
        return _audit_run(source, plan, runner=runner, on_rows=_shares(source, progress))
    logs: list[Place] = [*source] if isinstance(source, list | tuple) else [source]
    options = {"format": format, "dialect": asdict(dialect or Dialect()), "witnesses": witnesses}
    reports = Reports()
    with opened_work(work, logs, options, fresh=fresh) as kept:
        for number, log in enumerate(logs):
            runs = open_rows(log, format, dialect=dialect)
            for rows in runs:
                told = None
                if progress is not None:
                    told = _share_of(progress, number, len(logs))
                on_rows = _shares(rows, told)
                reports.append(
                    _audit_run(rows, plan, kept=kept, name=f"run-{len(reports)}", on_rows=on_rows)
                )
            if progress is not None:
                progress((number + 1) / len(logs))
    return reports


class _Plan:
    """What holds for every run."""

    def __init__(self, *, witnesses: int, ranges: int | None) -> None:
        if witnesses < 0:
            raise UserError(f"witnesses are 0 or more, not {witnesses}")
        if ranges is not None and ranges < 1:
            raise UserError(f"a run is cut into 1 range or more, not {ranges}")
        self.witnesses = witnesses
        self._ranges = ranges

    def spans(self, rows: Rows) -> list[Span]:
        """The ranges of a run."""
        return cut_evenly(rows, self._ranges or 1 + int(rows.counts.sum()) // RANGE_ROWS)


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


def _audit_run(
    rows: Rows,
    plan: _Plan,
    *,
    runner: Runner | None = None,
    kept: Work | None = None,
    name: str = "",
    on_rows: Callable[[int], None] | None = None,
) -> Report:
    try:
        return _carry_out(rows, plan, runner, kept, name, on_rows)
    except NoOrder:
        rows = gathered(rows)
    return _carry_out(rows, plan, runner, kept, f"{name}-gathered", on_rows)


def _carry_out(
    rows: Rows,
    plan: _Plan,
    runner: Runner | None,
    kept: Work | None,
    name: str,
    on_rows: Callable[[int], None] | None,
) -> Report:
    if kept is None:
        chosen, spans = runner or Runner(on_rows=on_rows), plan.spans(rows)
    else:
        store = kept.run(name)
        spans = store.ranges(lambda: plan.spans(rows))
        chosen = Kept(store, on_rows)
    outcome = carry_out(rows, spans, runner=chosen, violations_max=plan.witnesses)
    return report_on(rows, outcome, witnesses=plan.witnesses)


def _shares(rows: Rows, progress: Progress | None) -> Callable[[int], None] | None:
    """Tells the share that is done, by rows: each is read twice."""
    if progress is None:
        return None
    total = max(1, 2 * int(rows.counts.sum()))
    done = 0

    def told(count: int) -> None:
        nonlocal done
        done += count
        progress(min(1.0, done / total))

    return told


def _share_of(progress: Progress, number: int, count: int) -> Progress:
    """The progress of one log among many."""
    return lambda share: progress((number + share) / count)
