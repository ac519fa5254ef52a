"""The section of a paper: what it says and what was measured, then everything it shows."""

from __future__ import annotations

import re
from html import escape

from precedes.papers.headlines import Told
from precedes.papers.outcome import Outcome
from precedes.report.claims import claims_html
from precedes.report.figures import figure_html
from precedes.report.html import Row, value, verdict_words
from precedes.report.index import Index, anchor, command_of
from precedes.report.tables import table_html


def paper_html(index: Index) -> str:
    """The whole section."""
    outcome = index.outcome
    reference, name = outcome.reference, anchor(outcome)
    figures = {figure.name: figure for figure in outcome.figures}
    telling = [figures[one] for one in outcome.story.figures if one in figures]
    parts = [
        f'<section class="paper" id="{name}" aria-labelledby="{name}-title">',
        f'<h2 id="{name}-title">{escape(reference.citation)} '
        f"<span>{escape(reference.title)}</span></h2>",
        _story(index),
        f'<div class="pair">{"".join(figure_html(index, one) for one in telling)}</div>',
        _shown(index),
        claims_html(index),
        f'<p class="file">{_runs(outcome)}; again with <code>{escape(command_of(outcome))}'
        "</code></p>",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _runs(outcome: Outcome) -> str:
    return "1 run" if outcome.runs == 1 else f"{outcome.runs:,} runs"


def _story(index: Index) -> str:
    """What is said and what was measured, a sentence of each; the numbers are the claims'."""
    items = "\n".join(_told(index, told) for told in index.outcome.story.told)
    readings = index.outcome.story.readings
    note = f'<p class="file">{escape(readings)}</p>' if readings else ""
    return f'<ul class="said">{items}</ul>{note}' if items else note


def _told(index: Index, told: Told) -> str:
    statement = told.statement
    claims = list(told.claims.items())
    printed = f"<b>{value(claims[0][1].published, statement.unit)}</b>"
    says = escape(statement.says).replace("{}", printed)
    says = says if says.startswith("<") else says[0].upper() + says[1:]
    measured = []
    for reading, claim in claims:
        row = Row(claim)
        unit = f"\N{NO-BREAK SPACE}{statement.unit}" if statement.unit else ""
        between = f' <span class="interval">({row.interval})</span>' if row.interval else ""
        where = f"{escape(reading)} " if reading else ""
        measured.append(
            f'{where}<a href="#{index.place(claim)}"><b>{row.measured}{unit}</b></a>{between} '
            f"{verdict_words(claim.verdict)}"
        )
    fitted = " (fitted)" if all(claim.fitted for _, claim in claims) else ""
    found = f"Measured{fitted}: {', '.join(measured)}."
    return f"<li><span>{says}.</span> <span>{found}</span></li>"


def _shown(index: Index) -> str:
    """Tables and figures in the order of the paper; the most telling figures stand above."""
    outcome = index.outcome
    items = [(one.name, table_html(index, one)) for one in outcome.tables]
    items += [
        (one.name, figure_html(index, one))
        for one in outcome.figures
        if one.name not in outcome.story.figures
    ]
    if not items:
        return ""
    items.sort(key=lambda pair: _order(pair[0]))
    count = len(outcome.tables), len(outcome.figures)
    words = " and ".join(
        f"{number} {name if number == 1 else f'{name}s'}"
        for number, name in zip(count, ("table", "figure"), strict=True)
        if number
    )
    above = " and ".join(outcome.story.figures)
    words += f" ({above} above)" if above else ""
    return (
        f'<details class="shown"><summary>Everything it shows: {words}, measured beside printed'
        f'</summary>\n<div class="grid">{"".join(text for _, text in items)}</div></details>'
    )


def _order(name: str) -> tuple[int, int]:
    """Tables before figures, each by number as in print, and at last what print does not have."""
    found = re.match(r"(Table|Figure|Section) ([0-9]+|[IVX]+)", name)
    if not found:
        return 3, 0
    number = int(found[2]) if found[2].isdigit() else 0
    return ("Table", "Figure", "Section").index(found[1]), number
