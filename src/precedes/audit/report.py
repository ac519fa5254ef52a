"""The rules of causal order, and the report on one run.

The rules, all from each node's own order of broadcasts and deliveries:

- The past of m is the closure of "broadcast or delivered at m's source before m's broadcast".
- A node's position of y is that of its first delivery of y; at y's source, without a delivery
  of its own, that of the broadcast; never delivered is later than everything.
- A join names the messages that its node begins with. A message that it names, and the earlier
  ones of that message's source, the node has from the join on, unless it delivered them before; to
  deliver one after that is a duplicate. For the node's own messages it means only that they need
  not be delivered. Nothing else is excused.
- A delivery of m at p is a violation iff some y in m's past has a later position at p.
- Messages without a broadcast are reported as phantoms and are in no message's past.
- A message in its own past is a contradiction in the log and is reported. A message is resolved
  if nothing in its past, itself included, lies in such a cycle; only deliveries of resolved
  messages are judged, and first deliveries of the others are counted as unjudged.

``stages`` describes the algorithm: two passes over the rows, each node alone, in bounded memory.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes import frames
from precedes.audit import judge
from precedes.audit.stages import Outcome
from precedes.audit.witness import Explainer, Known, Witness
from precedes.model import printable
from precedes.trace.rows import Rows

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Verdict(enum.StrEnum):
    """Outcome of an audit; each value is its text."""

    HELD = "held"
    VIOLATED = "violated"
    UNKNOWN = "unknown"


HELD: Final = Verdict.HELD
VIOLATED: Final = Verdict.VIOLATED
UNKNOWN: Final = Verdict.UNKNOWN

WITNESSES: Final = 5
APART: Final = ("has_end", "notes", "view_findings", "witnesses")  # fields without a column
WRONG: Final = ("violations", "lost", "duplicates", "phantom", "cycles")  # counts that are errors

# Counts that make a run "violated", as singular and plural.
FINDINGS: Final = {
    "violations": ("delivery out of causal order", "deliveries out of causal order"),
    "lost": ("delivery lost", "deliveries lost"),
    "duplicates": ("duplicate delivery", "duplicate deliveries"),
    "phantom": (
        "delivery of a message nobody broadcast",
        "deliveries of messages nobody broadcast",
    ),
    "cycles": ("message in its own past", "messages in their own past"),
}

VIEWS: Final = ("finding about views", "findings about views")

FIFO: Final = (
    "of these breaks the FIFO order of one sender, which TCP prevents",
    "of these break the FIFO order of one sender, which TCP prevents",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The verdict on one run and the counts behind it.

    ``deliveries`` are deliver rows at nodes other than the source. ``lost`` is counted only in
    complete histories; in others the same pairs are ``undelivered_at_end``. ``fifo_violations``
    are the violations that came before an earlier message of the same sender. ``unjudged`` are
    first deliveries, at the source too, of messages with a cycle in their past. ``skipped`` are
    lines that the reader of the log could not parse: they may have contained anything.
    ``view_findings`` are sentences about the views of a live group (``views``).
    """

    origin: str
    run_id: int | str
    nodes: int
    messages: int
    verdict: Verdict
    deliveries: int
    violations: int
    violating_messages: int
    fifo_violations: int
    lost: int
    duplicates: int
    phantom: int
    cycles: int
    unjudged: int
    undelivered_at_end: int
    skipped: int = 0
    has_end: bool = field(default=False, compare=False)  # the log tells its end from a pause
    notes: tuple[str, ...] = ()
    view_findings: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...]

    def __str__(self) -> str:
        """The lines that ``precedes audit`` prints."""
        return to_text([self]).rstrip()

    def as_row(self) -> dict[str, Any]:
        """The verdict and the counts."""
        return {name: value for name, value in vars(self).items() if name not in APART}

    def to_arrow(self) -> pa.Table:
        """``as_row`` as a table of one row."""
        return frames.arrow_of([self.as_row()])

    def to_pandas(self) -> pd.DataFrame:
        """``as_row`` as a DataFrame of one row."""
        return frames.pandas_of(self.to_arrow())

    def _repr_html_(self) -> str:
        return shown([self])


class Reports(list[Report]):
    """The reports on the runs of logs: a list, a table of a row each, and a page of a notebook."""

    @property
    def verdict(self) -> Verdict:
        """Violated if any run is, else unknown if any is or there is none, else held."""
        return combined_verdict(self)

    def __str__(self) -> str:
        """The lines that ``precedes audit`` prints."""
        return to_text(self).rstrip()

    def to_arrow(self) -> pa.Table:
        """The verdicts and counts; if some runs have names, all numbers of runs are text."""
        rows = [report.as_row() for report in self]
        if any(isinstance(report.run_id, str) for report in self):
            rows = [{**row, "run_id": str(row["run_id"])} for row in rows]
        return frames.arrow_of(rows)

    def to_pandas(self) -> pd.DataFrame:
        """The verdicts and counts."""
        return frames.pandas_of(self.to_arrow())

    def _repr_html_(self) -> str:
        return shown(self)


def shown(reports: Sequence[Report]) -> str:
    """HTML for a notebook: the verdicts, the findings, and the first witnesses."""
    rows = [
        [report.origin, report.run_id, report.verdict, report.deliveries]
        + [getattr(report, name) for name in WRONG]
        for report in reports
    ]
    headline, *lines = _summary(reports)
    head = ("log", "run", "verdict", "deliveries", *WRONG)
    witnesses = [witness for report in reports for witness in report.witnesses][:WITNESSES]
    sentences = [f"<li>{escape(printable(witness.sentence))}</li>" for witness in witnesses]
    return frames.shown(
        frames.verdict(combined_verdict(reports), headline),
        *map(frames.paragraph, lines),
        frames.table(head, rows) if rows else "",
        f"<ul>{''.join(sentences)}</ul>" if sentences else "",
    )


def combined_verdict(reports: Sequence[Report]) -> Verdict:
    """Violated if any run is, else unknown if any is or there is none, else held."""
    verdicts = {report.verdict for report in reports}
    if VIOLATED in verdicts:
        return VIOLATED
    return UNKNOWN if UNKNOWN in verdicts or not verdicts else HELD


def report_on(rows: Rows, outcome: Outcome, *, witnesses: int = WITNESSES) -> Report:
    """The findings of the stages, with witnesses, which are searched in the rows again."""
    totals = outcome.tallies.sum(axis=0).tolist()
    missing = _missing(outcome)
    undelivered = int(missing.sum())
    lost = undelivered if rows.complete else 0
    unjudged = totals[judge.UNJUDGED]
    columns = (judge.VIOLATIONS, judge.DUPLICATES, judge.PHANTOM)
    wrong = lost + outcome.cyclic.size + sum(totals[column] for column in columns)
    deliveries = totals[judge.DELIVERIES]
    in_doubt = unjudged or rows.skipped or not deliveries
    return Report(
        origin=rows.origin,
        run_id=rows.run_id,
        nodes=rows.nodes,
        messages=int(outcome.base[-1]) + len(outcome.phantoms),
        verdict=VIOLATED if wrong else UNKNOWN if in_doubt else HELD,
        deliveries=deliveries,
        violations=totals[judge.VIOLATIONS],
        violating_messages=outcome.violating_messages,
        fifo_violations=totals[judge.FIFO],
        lost=lost,
        duplicates=totals[judge.DUPLICATES],
        phantom=totals[judge.PHANTOM],
        cycles=int(outcome.cyclic.size),
        unjudged=unjudged,
        undelivered_at_end=undelivered - lost,
        has_end=rows.has_end,
        skipped=rows.skipped,
        notes=rows.notes,
        witnesses=_witnesses(rows, outcome, missing, witnesses),
    )


def _missing(outcome: Outcome) -> NDArray[np.int64]:
    """The number of messages of correct sources that each correct node never delivered.

    Own ones are due too in a run in which sources deliver theirs.
    """
    correct = outcome.correct.astype(np.bool_)
    tallies = outcome.tallies
    sent = np.diff(outcome.base)
    due = int(sent[correct].sum()) - sent - tallies[:, judge.HAS]
    if tallies[:, judge.OWN].any():
        due += sent - tallies[:, judge.OWN] - tallies[:, judge.OWN_EXCUSED]
    # A member that has left need not deliver later messages.
    return np.where(correct & (outcome.departed == 0), due, 0)


def _witnesses(
    rows: Rows, outcome: Outcome, missing: NDArray[np.int64], limit: int
) -> tuple[Witness, ...]:
    explain = explainer(rows, outcome)
    tallies = outcome.tallies
    witnesses = [explain.cycle(int(m)) for m in outcome.cyclic[:limit]]
    witnesses += [explain.violation(*one) for one in outcome.violations[:limit]]
    if rows.complete:
        own = bool(tallies[:, judge.OWN].any())
        witnesses += explain.lost(np.flatnonzero(missing), limit, own=own)
    witnesses += explain.duplicates(np.flatnonzero(tallies[:, judge.DUPLICATES]), limit)
    witnesses += explain.phantoms(np.flatnonzero(tallies[:, judge.PHANTOM]), limit)
    return tuple(witnesses)


def explainer(rows: Rows, outcome: Outcome) -> Explainer:
    """The explainer of findings."""
    known = Known(
        base=outcome.base,
        position=outcome.position,
        correct=outcome.correct,
        phantoms=outcome.phantoms,
    )
    return Explainer(rows, known)


def to_json(reports: Sequence[Report]) -> dict[str, Any]:
    """One object for all the runs, ready for ``json.dumps``: verdict, sums and witnesses."""
    more = ("unjudged", "skipped", "undelivered_at_end", "violating_messages", "fifo_violations")
    return {
        "verdict": combined_verdict(reports),
        "runs": len(reports),
        **{name: _total(reports, name) for name in ("deliveries", *FINDINGS, *more)},
        "notes": [
            {"origin": report.origin, "run_id": report.run_id, "note": note}
            for report in reports
            for note in report.notes
        ],
        "witnesses": [
            {"origin": report.origin, "run_id": report.run_id, **asdict(witness)}
            for report in reports
            for witness in report.witnesses
        ],
        "view_findings": [text for report in reports for text in report.view_findings],
    }


def to_text(reports: Sequence[Report]) -> str:
    """A few lines for people: the verdict, what is wrong, and the witnesses, a line each.

    Of several runs, each that has findings has a heading.
    """
    headline, *more = _summary(reports)
    lines = [f"{combined_verdict(reports)}: {headline}", *(f"  {line}" for line in more)]
    lines += [f"  {text}" for text in other_findings({n: _total(reports, n) for n in FINDINGS})]
    if views := sum(len(report.view_findings) for report in reports):
        lines.append(f"  {_counted(views, *VIEWS)}")
    unjudged = _total(reports, "unjudged")
    if unjudged:
        counted = _counted(unjudged, "delivery", "deliveries")
        lines.append(f"  {counted} not judged, after messages in their own past")
    skipped = _total(reports, "skipped")
    if skipped:
        counted = _counted(skipped, "line or record", "lines or records")
        lines.append(f"  {counted} of the log skipped, so the verdict is at most unknown")
    ended = [report for report in reports if report.has_end]
    if undelivered := _total(ended, "undelivered_at_end"):
        lines.append(f"  {undelivered:,} not delivered by the end of the log (not an error)")
    if _total(reports, "deliveries") == 0:
        lines.append("  nothing was delivered, so nothing was checked")
    for report in reports:
        # Names come from the log, and may contain anything.
        details = [f"  {printable(note)}" for note in report.notes]
        details += [f"  - {printable(witness.sentence)}" for witness in report.witnesses]
        details += [f"  - {printable(text)}" for text in report.view_findings]
        if details and len(reports) > 1:
            details.insert(0, _heading(report, reports))
        lines += details
    return "\n".join(lines) + "\n"


def _summary(reports: Sequence[Report]) -> list[str]:
    """The lines after the verdict: violations, those of FIFO order, and the messages affected."""
    runs = f"{len(reports):,} runs, " if len(reports) != 1 else ""
    violations, messages = (_total(reports, n) for n in ("violations", "violating_messages"))
    lines = [runs + counted_deliveries(_total(reports, "deliveries"), violations)]
    if fifo := _total(reports, "fifo_violations"):
        lines.append(_counted(fifo, *FIFO))
    if messages != violations:
        lines.append(f"{_counted(messages, 'message', 'messages')} affected")
    return lines


def _total(reports: Sequence[Report], name: str) -> int:
    return sum(int(getattr(report, name)) for report in reports)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def counted_deliveries(deliveries: int, violations: int) -> str:
    """Count of deliveries, and of those out of causal order."""
    text = _counted(deliveries, "delivery", "deliveries")
    return f"{violations:,} of {text} out of causal order" if violations else text


def other_findings(counts: Mapping[str, int]) -> list[str]:
    """The counts of other findings than violations, by the names of ``FINDINGS``."""
    phrases = {name: words for name, words in FINDINGS.items() if name != "violations"}
    return [_counted(counts[name], *words) for name, words in phrases.items() if counts[name]]


def _heading(report: Report, reports: Sequence[Report]) -> str:
    """The file, and the run if it has several; then its own verdict and counts."""
    same = [other for other in reports if other.origin == report.origin]
    run = f" run {report.run_id}" if len(same) > 1 or not report.origin else ""
    parts: list[str] = [report.verdict]
    if report.deliveries:
        parts.append(counted_deliveries(report.deliveries, report.violations))
    title = printable(f"{report.origin}{run}".lstrip())
    return f"{title}: {', '.join([*parts, *other_findings(vars(report))])}"
