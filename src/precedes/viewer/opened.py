"""Opens a log of any format for a picture: its runs for the audit, its events for the eye.

What the audit says of a run is there to be drawn: which deliveries, and along which path.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from precedes.audit.logs import RANGE_ROWS
from precedes.audit.report import VIOLATED, Report, explainer, report_on, to_text
from precedes.audit.stages import Outcome, Runner, carry_out, cut_evenly
from precedes.audit.witness import Explainer, Witness
from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import Dialect
from precedes.trace.members import holds_member_logs, join
from precedes.trace.opening import gathered, is_trace, open_rows
from precedes.trace.rows import History, NoOrder, Rows
from precedes.trace.source import STANDARD_INPUT, Log, open_log, title_of
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
    log: Log, format: str = "auto", *, dialect: Dialect | None = None, run: str | None = None
) -> Iterator[Opened]:
    """The run of a log that is to be shown, judged.

    What can be read only once is copied to a temporary file, and the logs of a live group's
    members are joined into one trace there; both are gone after the block.
    """
    title = title_of(log)
    with tempfile.TemporaryDirectory(prefix="precedes-view-") as folder:
        address, format = _again(log, format, Path(folder))
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


def _again(log: Log, format: str, folder: Path) -> tuple[Address, str]:
    """Where the log can be read as often as one likes, and in which format."""
    address = Address.of(log) if isinstance(log, str | os.PathLike) else None
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
    """A run and what was found in it; ``found`` is in the order in which an audit tells it."""

    rows: Rows
    report: Report
    found: list[tuple[int, int, int]]  # node, source, seq of deliveries out of order
    others: list[Witness]  # what is wrong beside
    explain: Explainer

    @property
    def summary(self) -> str:
        """The verdict and the counts in one line."""
        text = to_text([replace(self.report, witnesses=(), notes=())])
        first, *rest = [line.strip() for line in text.splitlines()]
        return "; ".join([first, *rest])

    @property
    def findings(self) -> int:
        """How many there are to look at."""
        return len(self.found) + len(self.others)

    @property
    def is_held(self) -> bool:
        """Whether the run is in memory: what is not takes long to explain."""
        return isinstance(self.rows, History)

    def witness(self, number: int) -> Witness:
        """The finding of this number, from 0: deliveries out of order, then others."""
        if number < len(self.found):
            return self.explain.violation(*self.found[number])
        return self.others[number - len(self.found)]

    def names(self, number: int) -> tuple[str, str]:
        """The node and the message of a delivery out of order, without its explanation."""
        node, source, seq = self.found[number]
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
        found=outcome.violations,
        others=[*others],
        explain=explainer(rows, outcome),
    )


def _outcome(rows: Rows) -> Outcome:
    spans = cut_evenly(rows, 1 + int(rows.counts.sum()) // RANGE_ROWS)
    return carry_out(rows, spans, runner=Runner(), violations_max=MARKED_MAX)


def choose_run(runs: list[Rows], run: str | None, *, title: str) -> Judged:
    """The run that was asked for; without a word, the first that is violated, else the first."""
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
