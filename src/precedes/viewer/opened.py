"""Opens a log of any format for a picture: its runs for the audit, its events for the page.

The findings of the audit are drawn: the deliveries out of order, and the path to each.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.audit.logs import RANGE_ROWS
from precedes.audit.report import VIOLATED, Report, explainer, report_on, to_text
from precedes.audit.stages import Outcome, Runner, carry_out, cut_evenly
from precedes.audit.witness import Explainer, Witness
from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import Dialect
from precedes.trace.members import holds_member_logs, join
from precedes.trace.opening import Readable, gathered, is_stored, is_trace, load, open_rows
from precedes.trace.rows import History, NoOrder, Rows
from precedes.trace.source import STANDARD_INPUT, Log, Recorded, open_log, title_of
from precedes.viewer.events import Events, NamedEvents, TraceEvents

MARKED_MAX: Final = 300_000  # deliveries that are known to be out of order
HELD_ROWS: Final = 16_000_000  # of a run that is judged in memory, some 20 bytes each
OTHERS_MAX: Final = 50  # findings of each other kind


class Opened(NamedTuple):
    """One run of a log."""

    events: Events
    judged: Judged


@contextlib.contextmanager
def opened(
    log: Readable, format: str = "auto", *, dialect: Dialect | None = None, run: str | None = None
) -> Iterator[Opened]:
    """The run of a log to be shown, with its audit.

    What can be read only once is copied to a temporary file, objects in memory are written to one,
    and the logs of a live group's members are joined into one trace there; all are gone after the
    block.
    """
    title = title_of(log)
    with tempfile.TemporaryDirectory(prefix="precedes-view-") as folder:
        if is_stored(log):
            address, format = _again(log, format, Path(folder))
        else:
            address, format, dialect = _written(log, dialect, Path(folder))
        runs = open_rows(address, format, dialect=dialect)
        judged = choose_run(runs, run, title=title)
        if format in ("auto", "precedes") and is_trace(address):
            number = int(judged.rows.run_id)
            events: Events = TraceEvents(address, title=title, run_id=number)
        else:
            events = NamedEvents(
                address,
                title=title,
                run_id=judged.rows.run_id,
                format=format,
                dialect=replace(dialect or Dialect(), pictured=True),
            )
        yield Opened(events, judged)


def _written(
    log: Any, dialect: Dialect | None, folder: Path
) -> tuple[Address, str, Dialect | None]:
    """Address, format and dialect of the events of an object."""
    if isinstance(log, Recorded):
        path = log.trace
        if path is None:
            path = str(folder / "run.parquet")
            log.write_trace(path)
        return Address.of(path), "precedes", None
    runs = load(log, dialect=dialect)
    path = str(folder / "events.parquet")
    pq.write_table(pa.concat_tables([run.to_arrow() for run in runs]), path)
    return Address.of(path), "parquet", Dialect(complete=all(run.complete for run in runs))


def _again(log: Log, format: str, folder: Path) -> tuple[Address, str]:
    """Address at which the log can be read repeatedly, and its format."""
    address = None if hasattr(log, "read") else Address.of(log)
    if address is not None and address != STANDARD_INPUT:
        if format == "members" or (
            format == "auto" and address.is_folder() and holds_member_logs(address)
        ):
            join(address, folder / "members.parquet")
            return Address.of(folder / "members.parquet"), "precedes"
        if address.is_folder() or address.is_file():
            return address, format
    copy = folder / "log"
    with open_log(log) as source:
        try:
            with copy.open("wb") as file:
                shutil.copyfileobj(source.stream, file)
        except OSError as error:
            raise UserError(
                f"cannot copy {source.title} to a temporary file: {error.strerror}; name a "
                "directory with room for it in TMPDIR"
            ) from None
    return Address.of(copy), format


@dataclass(frozen=True, eq=False)
class Judged:
    """A run and its findings; ``violations`` is in the order in which an audit reports them."""

    rows: Rows
    report: Report
    violations: list[tuple[int, int, int]]  # node, source, seq of deliveries out of order
    others: list[Witness]  # of violations of other kinds
    explain: Explainer

    @property
    def summary(self) -> str:
        """The verdict and the counts in one line."""
        text = to_text([replace(self.report, witnesses=(), notes=())])
        first, *rest = [line.strip() for line in text.splitlines()]
        return "; ".join([first, *rest])

    @property
    def findings(self) -> int:
        """Number of findings to show."""
        return len(self.violations) + len(self.others)

    @property
    def is_held(self) -> bool:
        """Return whether the run is in memory; others take long to explain."""
        return isinstance(self.rows, History)

    def witness(self, number: int) -> Witness:
        """The finding of this number, from 0: deliveries out of order, then others."""
        if number < len(self.violations):
            return self.explain.violation(*self.violations[number])
        return self.others[number - len(self.violations)]

    def names(self, number: int) -> tuple[str, str]:
        """The node and the message of a delivery out of order, without its explanation."""
        node, source, seq = self.violations[number]
        return self.rows.node_label(node), self.rows.pair_label(source, seq)


def judge(rows: Rows) -> Judged:
    """Audit a run; of more than MARKED_MAX deliveries out of order the first are known."""
    if int(rows.counts.sum()) <= HELD_ROWS and rows.address is not None:
        rows = gathered(rows)  # each witness reads rows again
    try:
        outcome = _outcome(rows)
    except NoOrder:
        rows = gathered(rows)
        outcome = _outcome(rows)
    others = report_on(rows, outcome._replace(violations=[]), witnesses=OTHERS_MAX).witnesses
    return Judged(
        rows=rows,
        report=report_on(rows, outcome, witnesses=0),
        violations=outcome.violations,
        others=[*others],
        explain=explainer(rows, outcome),
    )


def _outcome(rows: Rows) -> Outcome:
    spans = cut_evenly(rows, 1 + int(rows.counts.sum()) // RANGE_ROWS)
    return carry_out(rows, spans, runner=Runner(), violations_max=MARKED_MAX)


def choose_run(runs: list[Rows], run: str | None, *, title: str) -> Judged:
    """The requested run; by default the first with a violation, or else the first."""
    ids = [str(rows.run_id) for rows in runs]
    if run is not None:
        if run not in ids:
            there = ", ".join(ids[:10]) + (", ..." if len(ids) > 10 else "")
            raise UserError(f"{title} has no run {run!r}: there are {there}")
        return judge(runs[ids.index(run)])
    first: Judged | None = None
    for rows in runs:
        judged = judge(rows)
        if judged.report.verdict == VIOLATED:
            return judged
        first = first or judged
    if first is None:
        raise UserError(f"{title} holds no run: there is nothing to look at")
    return first
