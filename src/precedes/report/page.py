"""The report as one page: plain HTML and inline SVG, without outside resources.

All of it works without scripts; the script adds a search in lists and what a chart's marks say.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from precedes.pages import document, read
from precedes.papers.claims import (
    DIFFERS,
    EQUAL,
    FINDING,
    FITTED_MEANING,
    HOLDS,
    IN_BOUNDS,
    INCONCLUSIVE,
    IRREPRODUCIBLE,
    MEANINGS,
    SAME_TREND,
    VERDICTS,
)
from precedes.papers.outcome import Outcome, counts
from precedes.report.dots import dots_svg, drawn
from precedes.report.environment import Environment, bibliography_html, environment_html
from precedes.report.html import MARKS, frame
from precedes.report.index import Index, anchor, filter_of, slug
from precedes.report.paper import paper_html

CHARTS = (
    '<p class="file">In charts, solid lines with filled marks are measured, dashed ones with '
    "hollow marks printed, dotted ones a formula. Bars and bands are 95&nbsp;% intervals of means "
    "over seeds, which stand in brackets elsewhere. Point at a mark, or walk along a chart with "
    "the arrow keys, to read its values, its seeds and the command that repeats it. In tables "
    "print is in italics, and a mark stands behind what a claim is about.</p>"
)
AGREEING = (HOLDS, EQUAL, IN_BOUNDS, SAME_TREND)


def page(outcomes: Sequence[Outcome], environment: Environment) -> str:
    """The whole page."""
    indices = [Index(outcome) for outcome in outcomes]
    parts = [
        "<header>",
        "<h1>Published and measured</h1>",
        _opening(outcomes),
        _question(indices),
        _matrix(outcomes),
        _meanings(),
        "</header>",
        "<main>",
        CHARTS,
        *(paper_html(index) for index in indices),
        "</main>",
        "<footer>",
        environment_html(outcomes, environment),
        bibliography_html(outcomes),
        "</footer>",
        f"<script>\n{read('precedes.report', 'page.js')}</script>",
    ]
    style = f"{read('precedes.report', 'page.css')}{_filters()}"
    return document(title="precedes: published and measured", body="\n".join(parts), style=style)


def _filters() -> str:
    """Style that hides all claims but those of the verdict jumped to, and marks its link."""
    rules = []
    for verdict in VERDICTS:
        kind = slug(verdict)
        at = f'.claims:has(.filter[id$="-{kind}"]:target)'
        rules.append(
            f"{at} .claim:not(.{kind}), {at} tbody:not(:has(.{kind})) {{ display: none; }}"
        )
        rules.append(f"{at} .filters a.{kind} {{ outline-width: 2px; }}")
    return "\n".join(rules) + "\n"


def _both(outcomes: Sequence[Outcome]) -> dict[str, int]:
    plain, fitted = (counts(outcomes, fitted=which) for which in (False, True))
    return {verdict: plain[verdict] + fitted[verdict] for verdict in VERDICTS}


def _opening(outcomes: Sequence[Outcome]) -> str:
    found = _both(outcomes)
    fitted = sum(bool(claim.fitted) for claim in drawn(outcomes))
    total = sum(found.values()) - found[FINDING]
    runs = sum(outcome.runs for outcome in outcomes)
    agree = sum(found[verdict] for verdict in AGREEING)
    papers = "One paper says" if len(outcomes) == 1 else f"{_count(len(outcomes))} papers say"
    return (
        f"<p>{papers} {total:,} things that can be measured; {runs:,} simulated runs measured "
        f"them. <b>{agree:,} agree</b> (equal, in the interval or bounds, or the same trend), "
        f"<b>{found[DIFFERS]:,} differ</b>, {found[INCONCLUSIVE]:,} are inconclusive, and "
        f"{found[IRREPRODUCIBLE]:,} contradict other parts of print. {fitted:,} of them depend on "
        "something that print leaves open and that was chosen by a look at it: their dots are "
        f"hollow. {found[FINDING]:,} findings besides have nothing printed to stand beside.</p>"
    )


def _count(number: int) -> str:
    words = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
    return words[number] if number < len(words) else str(number)


def _question(indices: Sequence[Index]) -> str:
    return (
        '<figure class="question">'
        + frame("Measured over printed, a dot for each claim", dots_svg(indices), "picture")
        + "<figcaption>How far from print is what was measured? A dot is a claim, and leads to it. "
        "Filled: nothing fitted takes part; hollow: fitted. At the left stands what is 0, or goes "
        "the other way; at the right what has no ratio, as print gives a direction, an order or a "
        "range. Dots at one place stand side by side.</figcaption></figure>"
    )


def _matrix(outcomes: Sequence[Outcome]) -> str:
    """Papers by verdicts; a number leads to these claims alone."""
    head = "".join(
        f'<th scope="col"><span class="verdict {slug(verdict)}"><b>{MARKS[verdict]}</b> '
        f"{verdict}</span></th>"
        for verdict in VERDICTS
    )
    rows = []
    for outcome in outcomes:
        found = _both([outcome])
        cells = "".join(
            f'<td class="number"><a href="#{filter_of(outcome, verdict)}">{found[verdict]}</a></td>'
            if found[verdict]
            else '<td class="number none">0</td>'
            for verdict in VERDICTS
        )
        rows.append(
            f'<tr><th scope="row"><a href="#{anchor(outcome)}">'
            f"{escape(outcome.reference.citation)}</a></th>{cells}</tr>"
        )
    if len(outcomes) > 1:
        total = _both(outcomes)
        cells = "".join(f'<td class="number">{total[verdict]}</td>' for verdict in VERDICTS)
        rows.append(f'<tr class="total"><th scope="row">all</th>{cells}</tr>')
    label = "Claims by paper and verdict"
    inner = (
        f'<table class="data matrix"><caption>{label}; a number leads to these claims</caption>'
        f'<thead><tr><th scope="col">paper</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table>"
    )
    return f'<nav aria-label="{label}">{frame(label, inner)}</nav>'


def _meanings() -> str:
    meanings = [
        f"<div><dt>{MARKS[verdict]} {verdict}</dt><dd>{MEANINGS[verdict]}</dd></div>"
        for verdict in VERDICTS
    ]
    meanings.append(f"<div><dt>fitted</dt><dd>{FITTED_MEANING}</dd></div>")
    return (
        "<details><summary>What the verdicts mean</summary>"
        f'<dl class="meanings">{"".join(meanings)}</dl></details>'
    )
