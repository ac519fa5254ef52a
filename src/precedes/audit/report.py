"""Reports for programs and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from precedes.audit.causal_order import Report, combined_verdict
from precedes.model import printable

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
    lines = [f"{combined_verdict(reports)}: {runs}{_counted(deliveries, 'delivery', 'deliveries')}"]
    for name, (one, many) in FINDINGS.items():
        total = _total(reports, name)
        if total:
            lines.append(f"  {_counted(total, one, many)}{_of_messages(reports, name)}")
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
        said = [f"  {printable(note)}" for note in report.notes]
        said += [f"  - {printable(witness.sentence)}" for witness in report.witnesses]
        if said and len(reports) > 1:
            said.insert(0, _heading(report, reports))
        lines += said
    return "\n".join(lines) + "\n"


def _total(reports: Sequence[Report], name: str) -> int:
    return sum(int(getattr(report, name)) for report in reports)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _of_messages(reports: Sequence[Report], name: str) -> str:
    if name != "violations":
        return ""
    return f", of {_counted(_total(reports, 'violating_messages'), 'message', 'messages')}"


def _heading(report: Report, reports: Sequence[Report]) -> str:
    """The file, and the run if it has several; then its own verdict and counts."""
    same = [other for other in reports if other.origin == report.origin]
    run = f" run {report.run_id}" if len(same) > 1 or not report.origin else ""
    counts = [("deliveries", ("delivery", "deliveries")), *FINDINGS.items()]
    parts = [
        _counted(count, *words) for name, words in counts if (count := int(getattr(report, name)))
    ]
    title = printable(f"{report.origin}{run}".lstrip())
    return f"{title}: {', '.join([report.verdict, *parts])}"
