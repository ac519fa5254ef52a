"""The report as one page: plain HTML and inline SVG, without scripts or outside resources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from precedes.papers.claims import VERDICTS, Claim, number
from precedes.papers.measured import Measured
from precedes.papers.outcome import Outcome, counts
from precedes.papers.shown import Figure, Printed, Table
from precedes.report.charts import svg

MEANINGS = {
    "holds": "the published value lies within the 95 % interval of the measured mean",
    "equal": "every run gives exactly the published value",
    "same trend": "order or sign agree; the number itself is not claimed",
    "differs": "the published value was not met; the reason says by how much",
    "irreproducible": "the paper contradicts itself here",
    "finding": "measured here; nothing is published",
}

NOTHING = '<span role="img" aria-label="nothing">&ndash;</span>'


def page(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    style = resources.files("precedes.report").joinpath("page.css").read_text(encoding="utf-8")
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>precedes: published and measured</title>",
        f"<style>\n{style}{_filters()}</style>",
        "</head>",
        "<body>",
        # Targets of the filter: what a browser has jumped to decides which claims are shown.
        *(f'<span class="filter" id="{_filter(verdict)}"></span>' for verdict in VERDICTS),
        '<span class="filter" id="all"></span>',
        _header(outcomes),
        "<main>",
        *(_paper(outcome) for outcome in outcomes),
        "</main>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def slug(text: str) -> str:
    """A text as an anchor or as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _filter(verdict: str) -> str:
    return f"only-{slug(verdict)}"


def _filters() -> str:
    """Style that hides all claims but those of the verdict jumped to, and marks its link."""
    rules = []
    for verdict in VERDICTS:
        target = f"#{_filter(verdict)}:target"
        rules.append(f"{target} ~ main .claim:not(.{slug(verdict)}) {{ display: none; }}")
        rules.append(f'{target} ~ header a[href="#{_filter(verdict)}"] {{ outline-width: 2px; }}')
    return "\n".join(rules) + "\n"


def _header(outcomes: Sequence[Outcome]) -> str:
    found = counts(outcomes)
    links = [
        f'<li><a class="verdict {slug(verdict)}" href="#{_filter(verdict)}">'
        f"<b>{count}</b> {verdict}</a></li>"
        for verdict, count in found.items()
        if count
    ]
    links.append(f'<li><a class="verdict" href="#all"><b>{sum(found.values())}</b> all</a></li>')
    meanings = [
        f"<div><dt>{verdict}</dt><dd>{MEANINGS[verdict]}</dd></div>" for verdict in VERDICTS
    ]
    papers = [
        f'<li><a href="#paper-{outcome.paper}">{escape(outcome.reference.citation)}</a> '
        f"{escape(outcome.reference.title)}</li>"
        for outcome in outcomes
    ]
    return "\n".join(
        [
            "<header>",
            "<h1>Published and measured</h1>",
            "<p>What the papers print, beside what the simulator measures. Measured values are "
            "means over seeds, with their 95&nbsp;% interval in brackets.</p>",
            '<nav aria-label="Show the claims of one verdict">',
            f'<ul class="verdicts">{"".join(links)}</ul>',
            "</nav>",
            "<details><summary>What the verdicts mean</summary>",
            f"<dl>{''.join(meanings)}</dl></details>",
            f'<nav aria-label="Papers"><ul class="papers">{"".join(papers)}</ul></nav>',
            "</header>",
        ]
    )


def _paper(outcome: Outcome) -> str:
    name = f"paper-{outcome.paper}"
    reference = outcome.reference
    wanted = reference.protocols[0]
    runs = "1 run" if outcome.runs == 1 else f"{outcome.runs} runs"
    parts = [
        f'<section id="{name}" aria-labelledby="{name}-title">',
        f'<h2 id="{name}-title">{escape(reference.citation)} '
        f"<span>{escape(reference.title)}</span></h2>",
        f"<p>{escape(str(reference))}</p>",
        f"<p>{runs}; again with <code>precedes reproduce {wanted} --{outcome.scale} "
        "--out DIR</code></p>",
        _claims(outcome),
    ]
    parts += [_table(outcome, table) for table in outcome.tables]
    parts += [_figure(outcome, figure) for figure in outcome.figures]
    return "\n".join([*parts, "</section>"])


def _claims(outcome: Outcome) -> str:
    """The claims; the roles keep it a table where a narrow screen lays it out otherwise."""
    if not outcome.claims:
        return ""
    rows = "\n".join(_claim(claim) for claim in outcome.claims)
    cited = escape(outcome.reference.citation)
    head = "".join(
        f'<th scope="col" role="columnheader">{column}</th>'
        for column in ("claim", "published", "measured", "verdict")
    )
    return (
        f'<table class="claims" role="table"><caption>Claims of {cited}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{rows}\n</tbody></table>\n'
    )


def _claim(claim: Claim) -> str:
    kind = slug(claim.verdict)
    name = f"claim-{claim.paper}-{slug(claim.item)}-{slug(claim.key)}"
    reason = f'<p class="reason">{escape(claim.reason)}</p>' if claim.reason else ""
    interval = ""
    if claim.low is not None and claim.high is not None:
        interval = _interval(claim.low, claim.high)
    return (
        f'<tr class="claim {kind}" id="{name}" role="row">'
        f'<th scope="row" role="rowheader"><a href="#{name}">{escape(claim.item)}</a>: '
        f"{escape(claim.key)}{reason}</th>"
        f'<td class="number printed" role="cell" data-label="published">'
        f"{_value(claim.published)}</td>"
        f'<td class="number" role="cell" data-label="measured">'
        f"{_value(claim.measured)}{interval}</td>"
        f'<td role="cell"><span class="verdict {kind}">{claim.verdict}</span></td></tr>'
    )


def _table(outcome: Outcome, table: Table) -> str:
    rows = []
    for row in table.rows:
        first, *others = (_cell(cell) for cell in row)
        rows.append(f'<tr><th scope="row">{first[1]}</th>{"".join(map(_data, others))}</tr>')
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    name = f"table-{outcome.paper}-{slug(table.name)}"
    file = f"tables/{outcome.paper}-{slug(table.name)}.csv"
    return (
        f'<h3 id="{name}">{escape(table.name)}</h3>\n{note}'
        + _framed(f"{table.name} of {outcome.reference.citation}", table.header, "\n".join(rows))
        + f'<p class="file"><a href="{file}">{file}</a></p>'
    )


def _figure(outcome: Outcome, figure: Figure) -> str:
    name = f"figure-{outcome.paper}-{slug(figure.name)}"
    file = f"tables/{outcome.paper}-{slug(figure.name)}.csv"
    rows = [
        f'<tr><th scope="row">{escape(series.label)}</th><td>{series.kind}</td>'
        f'<td class="number">{_value(point.x)}</td><td class="number">{_value(point.y)}'
        + (
            _interval(point.low, point.high)
            if point.low is not None and point.high is not None
            else ""
        )
        + "</td></tr>"
        for series in figure.series
        for point in series.points
    ]
    columns = ("series", "kind", figure.x_label, figure.y_label)
    label = f"Points of {figure.name} of {outcome.reference.citation}"
    return "\n".join(
        [
            f'<h3 id="{name}">{escape(figure.name)}</h3>',
            f"<figure>{svg(figure, name=f'{name}-plot')}",
            f"<figcaption>{escape(figure.title)}. {_legend(figure)}</figcaption></figure>",
            "<details><summary>The points as a table</summary>",
            _framed(label, columns, "\n".join(rows)),
            f'<p class="file"><a href="{file}">{file}</a></p></details>',
        ]
    )


def _legend(figure: Figure) -> str:
    """What the lines of a figure are, for those kinds that it has."""
    kinds = {series.kind for series in figure.series}
    meanings = []
    if any(point.low is not None for series in figure.series for point in series.points):
        meanings.append("bars are 95&nbsp;% intervals of the measured means")
    if "published" in kinds:
        meanings.append("dashed lines are published")
    if "model" in kinds:
        meanings.append("dotted lines are a formula's")
    text = "; ".join(meanings)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _framed(label: str, columns: Sequence[str], rows: str) -> str:
    """A table in a frame that scrolls by itself on a narrow screen, also by keyboard."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    return (
        f'<div class="frame" role="region" aria-label="{escape(label)}" tabindex="0">'
        f'<table class="data"><caption>{escape(label)}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n"
    )


def _cell(cell: Any) -> tuple[str, str]:
    """The class of a cell and what stands in it."""
    if isinstance(cell, Measured):
        interval = _interval(*cell.interval) if cell.interval else ""
        return "number", f"{_value(cell.mean)}{interval}"
    if isinstance(cell, Printed):
        return "number printed", _value(cell.value)
    if cell is None:
        return "none", NOTHING
    return ("text" if isinstance(cell, str) else "number"), _value(cell)


def _data(cell: tuple[str, str]) -> str:
    return f'<td class="{cell[0]}">{cell[1]}</td>'


def _value(value: float | str | None) -> str:
    if value is None:
        return NOTHING
    text = value if isinstance(value, str) else number(value)
    return escape(f"\u2212{text[1:]}" if text.startswith("-") else text)


def _interval(low: float, high: float) -> str:
    return f' <span class="interval">({_value(low)} to {_value(high)})</span>'
