"""Did every node see causes before effects? The rules, and the report on one run.

The rules, all from each node's own order of broadcasts and deliveries:

- The past of m is the closure of "broadcast or delivered at m's source before m's broadcast".
- A node's position of y is that of its first delivery of y; at y's source, without a delivery
  of its own, that of the broadcast; never delivered is later than everything.
- A join says what its node begins with. A message that it names, and the earlier ones of that
  message's source, the node has from the join on, unless it delivered them before; to deliver one
  after that is a duplicate. Of the node's own messages it says only that they need not be
  delivered. Nothing else is excused.
- A delivery of m at p is a violation iff some y in m's past has a later position at p.
- Messages that nobody broadcast are reported as phantoms and are in nobody's past.
- A message in its own past is a contradiction in the log and is reported. A message is resolved
  if nothing in its past, itself included, lies in such a cycle; only deliveries of resolved
  messages are judged, and first deliveries of the others are counted as unjudged.

``stages`` says how it is done: two passes over the rows, each node alone, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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

HELD: Final = "held"
VIOLATED: Final = "violated"
UNKNOWN: Final = "unknown"

WITNESSES: Final = 5
LISTS: Final = ("notes", "witnesses")  # fields of a report that are no single value
WRONG: Final = ("violations", "lost", "duplicates", "phantom", "cycles")  # counts that convict

# Counts that make a run "violated", with the words for one and for many.
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


@dataclass(frozen=True, kw_only=True)
class Report:
    """The verdict on one run and the counts behind it.

    ``deliveries`` are deliver rows at nodes other than the source. ``lost`` is counted only in
    complete histories; in others the same pairs are ``undelivered_at_end``. ``unjudged`` are
    first deliveries, at the source too, of messages with a cycle in their past. ``skipped`` are
    lines that the reader of the log did not understand: anything may have happened in them.
    """

    origin: str
    run_id: int | str
    nodes: int
    messages: int
    verdict: str
    deliveries: int
    violations: int
    violating_messages: int
    lost: int
    duplicates: int
    phantom: int
    cycles: int
    unjudged: int
    undelivered_at_end: int
    skipped: int = 0
    notes: tuple[str, ...] = ()
    witnesses: tuple[Witness, ...]

    def as_row(self) -> dict[str, Any]:
        """The verdict and the counts."""
        return {name: value for name, value in vars(self).items() if name not in LISTS}

    def to_arrow(self) -> pa.Table:
        """``as_row`` as a table of one row."""
        return frames.arrow_of([self.as_row()])

    def to_pandas(self) -> pd.DataFrame:
        """``as_row`` as a frame of one row."""
        return frames.pandas_of(self.to_arrow())

    def _repr_html_(self) -> str:
        return shown([self])


class Reports(list[Report]):
    """The reports on the runs of logs: a list, a table of a row each, and a page of a notebook."""

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
    """What a notebook shows: the verdicts, what is wrong, and the first witnesses."""
    rows = [
        [report.origin, report.run_id, report.verdict, report.deliveries]
        + [getattr(report, name) for name in WRONG]
        for report in reports
    ]
    word = combined_verdict(reports)
    runs = "1 run" if len(reports) == 1 else f"{len(reports):,} runs"
    deliveries = counted_deliveries(_total(reports, "deliveries"), _total(reports, "violations"))
    head = ("log", "run", "verdict", "deliveries", *WRONG)
    witnesses = [witness for report in reports for witness in report.witnesses][:WITNESSES]
    sentences = [f"<li>{escape(printable(witness.sentence))}</li>" for witness in witnesses]
    return frames.shown(
        frames.verdict(word, f"{runs}, {deliveries}"),
        frames.table(head, rows) if rows else "",
        f"<ul>{''.join(sentences)}</ul>" if sentences else "",
    )


def combined_verdict(reports: Sequence[Report]) -> str:
    """Violated if any run is, else unknown if any is or there is none, else held."""
    verdicts = {report.verdict for report in reports}
    if VIOLATED in verdicts:
        return VIOLATED
    return UNKNOWN if UNKNOWN in verdicts or not verdicts else HELD


def report_on(rows: Rows, outcome: Outcome, *, witnesses: int = WITNESSES) -> Report:
    """What the stages found, with witnesses, which are looked for in the rows again."""
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
        lost=lost,
        duplicates=totals[judge.DUPLICATES],
        phantom=totals[judge.PHANTOM],
        cycles=int(outcome.cyclic.size),
        unjudged=unjudged,
        undelivered_at_end=undelivered - lost,
        skipped=rows.skipped,
        notes=rows.notes,
        witnesses=_witnesses(rows, outcome, missing, witnesses),
    )


def _missing(outcome: Outcome) -> NDArray[np.int64]:
    """How many messages of correct sources each correct node never delivered.

    Own ones are due too in a run in which sources deliver theirs.
    """
    correct = outcome.correct.astype(np.bool_)
    tallies = outcome.tallies
    sent = np.diff(outcome.base)
    due = int(sent[correct].sum()) - sent - tallies[:, judge.HAS]
    if tallies[:, judge.OWN].any():
        due += sent - tallies[:, judge.OWN] - tallies[:, judge.OWN_EXCUSED]
    # What comes after a member has left is not due to it.
    return np.where(correct & (outcome.departed == 0), due, 0)


def _witnesses(
    rows: Rows, outcome: Outcome, missing: NDArray[np.int64], limit: int
) -> tuple[Witness, ...]:
    explain = explainer(rows, outcome)
    tallies = outcome.tallies
    found = [explain.cycle(int(m)) for m in outcome.cyclic[:limit]]
    found += [explain.violation(*one) for one in outcome.violations[:limit]]
    if rows.complete:
        own = bool(tallies[:, judge.OWN].any())
        found += explain.lost(np.flatnonzero(missing), limit, own=own)
    found += explain.duplicates(np.flatnonzero(tallies[:, judge.DUPLICATES]), limit)
    found += explain.phantoms(np.flatnonzero(tallies[:, judge.PHANTOM]), limit)
    return tuple(found)


def explainer(rows: Rows, outcome: Outcome) -> Explainer:
    """Who tells why a finding is one."""
    known = Known(
        base=outcome.base,
        position=outcome.position,
        correct=outcome.correct,
        phantoms=outcome.phantoms,
    )
    return Explainer(rows, known)


def to_json(reports: Sequence[Report]) -> dict[str, Any]:
    """One object for all the runs, ready for ``json.dumps``: verdict, sums and witnesses."""
    more = ("unjudged", "skipped", "undelivered_at_end", "violating_messages")
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
    }


def to_text(reports: Sequence[Report]) -> str:
    """A few lines for people: the verdict, what is wrong, and the witnesses, a line each.

    Of several runs, each that something is said of has a heading.
    """
    runs = f"{len(reports)} runs, " if len(reports) != 1 else ""
    deliveries = _total(reports, "deliveries")
    violations, messages = (_total(reports, n) for n in ("violations", "violating_messages"))
    lines = [f"{combined_verdict(reports)}: {runs}{counted_deliveries(deliveries, violations)}"]
    if messages != violations:
        lines.append(f"  {_counted(messages, 'message', 'messages')} affected")
    lines += [f"  {text}" for text in other_findings({n: _total(reports, n) for n in FINDINGS})]
    unjudged = _total(reports, "unjudged")
    if unjudged:
        counted = _counted(unjudged, "delivery", "deliveries")
        lines.append(f"  {counted} not judged, after messages in their own past")
    skipped = _total(reports, "skipped")
    if skipped:
        counted = _counted(skipped, "line or record", "lines or records")
        lines.append(f"  {counted} of the log skipped, so that nothing is said to have held")
    undelivered = _total(reports, "undelivered_at_end")
    if undelivered:
        lines.append(f"  {undelivered:,} not delivered by the end of the log (not an error)")
    if deliveries == 0:
        lines.append("  nothing was delivered, so nothing was checked")
    for report in reports:
        # Names come from the log, and may hold anything.
        details = [f"  {printable(note)}" for note in report.notes]
        details += [f"  - {printable(witness.sentence)}" for witness in report.witnesses]
        if details and len(reports) > 1:
            details.insert(0, _heading(report, reports))
        lines += details
    return "\n".join(lines) + "\n"


def _total(reports: Sequence[Report], name: str) -> int:
    return sum(int(getattr(report, name)) for report in reports)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def counted_deliveries(deliveries: int, violations: int) -> str:
    """How many deliveries there are, and how many of them are out of causal order."""
    text = _counted(deliveries, "delivery", "deliveries")
    return f"{violations:,} of {text} out of causal order" if violations else text


def other_findings(counts: Mapping[str, int]) -> list[str]:
    """The counts, by the names of ``FINDINGS``, of what is wrong besides violations."""
    found = {name: words for name, words in FINDINGS.items() if name != "violations"}
    return [_counted(counts[name], *words) for name, words in found.items() if counts[name]]


def _heading(report: Report, reports: Sequence[Report]) -> str:
    """The file, and the run if it has several; then its own verdict and counts."""
    same = [other for other in reports if other.origin == report.origin]
    run = f" run {report.run_id}" if len(same) > 1 or not report.origin else ""
    parts = [report.verdict]
    if report.deliveries:
        parts.append(counted_deliveries(report.deliveries, report.violations))
    title = printable(f"{report.origin}{run}".lstrip())
    return f"{title}: {', '.join([*parts, *other_findings(vars(report))])}"
