"""What the audit says of a run, so that it can be drawn: which deliveries, and along which path."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from precedes.audit.causal_order import VIOLATED, Report, explainer, report_on
from precedes.audit.logs import RANGE_ROWS
from precedes.audit.report import to_text
from precedes.audit.stages import Loop, Outcome, carry_out, cut_evenly
from precedes.audit.witness import Explainer, Witness
from precedes.errors import UserError
from precedes.trace.rows import HistoryRows, NoOrder, Rows

MARKED_MAX: Final = 300_000  # deliveries that are known to be out of order
HELD_ROWS: Final = 16_000_000  # of a run that is judged in memory, some 20 bytes each
OTHERS_MAX: Final = 50  # findings of each other kind


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
        return isinstance(self.rows, HistoryRows)

    def witness(self, number: int) -> Witness:
        """The finding of this number, from 0: deliveries out of order, then others."""
        if number < len(self.found):
            return self.explain.violation(*self.found[number])
        return self.others[number - len(self.found)]

    def names(self, number: int) -> tuple[str, str]:
        """The node and the message of a delivery out of order, without its explanation."""
        node, source, seq = self.found[number]
        return self.rows.node_label(node), self.rows.message_label(source, seq)


def judge(rows: Rows) -> Judged:
    """Audit a run; of more than MARKED_MAX deliveries out of order the first are known."""
    if int(rows.counts.sum()) <= HELD_ROWS and not isinstance(rows, HistoryRows):
        rows = rows.gathered()  # each witness reads rows again
    try:
        outcome = _outcome(rows)
    except NoOrder:
        rows = rows.gathered()
        outcome = _outcome(rows)
    others = report_on(rows, replace_violations(outcome, []), witnesses=OTHERS_MAX).witnesses
    return Judged(
        rows=rows,
        report=report_on(rows, outcome, witnesses=0),
        found=outcome.violations,
        others=[*others],
        explain=explainer(rows, outcome),
    )


def _outcome(rows: Rows) -> Outcome:
    spans = cut_evenly(rows, 1 + int(rows.counts.sum()) // RANGE_ROWS)
    return carry_out(rows, spans, runner=Loop(), violations_max=MARKED_MAX)


def replace_violations(outcome: Outcome, violations: list[tuple[int, int, int]]) -> Outcome:
    """The same outcome with other deliveries to explain."""
    return outcome._replace(violations=violations)


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
