"""A reproduction on one screen: statements by outcome, and headlines next to what is published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from precedes.pages.numbers import with_commas
from precedes_papers.outcome import Outcome, statement_counts
from precedes_papers.rules import OUTCOMES

COLUMNS_MAX: Final = 100
LINES_MAX: Final = 40
# Of each paper as many lines of its headlines, so that five papers fit.
HEADLINES_MAX: Final = 4
PAPERS_MAX: Final = 5
ROOM: Final = 47  # columns of a headline; two values and the longest verdict follow


def screen(outcomes: Sequence[Outcome], *, seconds: float, page: str) -> str:
    """At most ``LINES_MAX`` lines of at most ``COLUMNS_MAX`` columns, but for the page's address.

    ``seconds`` is what it took the caller, ``page`` where the report is. Of more papers than
    ``PAPERS_MAX`` the first ones are shown, and the sum of all.
    """
    lines = [*_matrix(outcomes), ""]
    for outcome in outcomes[:PAPERS_MAX]:
        lines += _headlines(outcome)
    runs = sum(outcome.runs for outcome in outcomes)
    cpu_s = sum(timing.cpu_s for outcome in outcomes for timing in outcome.timings)
    took = f"{runs:,} runs ({_scales(outcomes)}), {_time(cpu_s)} of CPU time in simulations"
    return "\n".join([*lines, "", f"{took}; {_time(seconds)} from begin to end", f"page: {page}"])


def _matrix(outcomes: Sequence[Outcome]) -> list[str]:
    """Published statements by paper and outcome."""
    rows = [("statements", *OUTCOMES)]
    for outcome in outcomes:
        rows.append((outcome.reference.citation, *map(str, statement_counts([outcome]).values())))
    if len(outcomes) > 1:
        rows.append(("all", *map(str, statement_counts(outcomes).values())))
    if len(rows) > PAPERS_MAX + 2:
        rows = [*rows[: PAPERS_MAX + 1], rows[-1]]
    widths = [max(len(name), 4) for name in OUTCOMES]
    room = COLUMNS_MAX - sum(width + 1 for width in widths)
    return [
        _cut(first, room).ljust(min(room, 24))
        + "".join(f" {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        for first, *cells in rows
    ]


def _headlines(outcome: Outcome) -> list[str]:
    """The paper's name above the columns, and a line for each reading of a statement."""
    rows = [
        (
            f"  {entry.statement.short}{f' ({reading})' if reading else ''}",
            _value(claim.published, entry.statement.unit),
            _value(claim.measured, entry.statement.unit),
            claim.verdict,
        )
        for entry in outcome.story.statements
        for reading, claim in entry.claims.items()
    ][:HEADLINES_MAX]
    head = (outcome.reference.citation, "published", "measured", "")
    lines = []
    for first, published, measured, verdict in [head, *rows]:
        values = "".join(f" {_cut(value, 13):>13}" for value in (published, measured))
        lines.append(f"{_cut(first, ROOM):<{ROOM}}{values}  {verdict}".rstrip())
    return lines


def _value(value: float | str | None, unit: str) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else with_commas(value)
    return f"{text} {unit}" if unit else text


def _scales(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(dict.fromkeys(outcome.scale for outcome in outcomes))


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    return f"{seconds / 60:.0f} min"


def _cut(text: str, columns: int) -> str:
    return text if len(text) <= columns else f"{text[: columns - 3]}..."
