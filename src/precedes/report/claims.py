"""The list of a paper's claims: closed, filtered by verdict, each reason told once."""

from __future__ import annotations

from html import escape
from itertools import groupby

from precedes.pages.numbers import MINUS
from precedes.papers.claims import FINDING, VERDICTS, Claim
from precedes.papers.outcome import Outcome, counts
from precedes.report.html import MARKS, Row, frame, verdict_badge
from precedes.report.index import Index, filter_of, slug, told

NUMBER = ' class="number"'
KINDS = ("", NUMBER, NUMBER, NUMBER, "", "")
COLUMNS = ("claim", "printed", "measured", "95 % interval", "verdict", "difference, why")


def claims_html(index: Index) -> str:
    """All claims of a paper, findings folded once more, and the reasons that several share."""
    outcome = index.outcome
    if not outcome.claims:
        return ""
    cited = outcome.reference.citation
    judged = [claim for claim in outcome.claims if claim.verdict != FINDING]
    findings = [claim for claim in outcome.claims if claim.verdict == FINDING]
    targets = [
        f'<span class="filter" id="{filter_of(outcome, verdict)}"></span>'
        for verdict in (*VERDICTS, "all")
        if verdict != FINDING
    ]
    parts = [
        f'<details class="claims" id="claims-{outcome.paper}">',
        f"<summary>All {len(outcome.claims):,} claims, with intervals and reasons</summary>",
        *targets,
        _filters(outcome),
        _table(index, judged, f"Claims of {cited}") if judged else "",
    ]
    if findings:
        parts += [
            '<details class="findings"><summary>'
            f"{len(findings):,} findings: measured, with nothing printed beside</summary>",
            f'<span class="filter" id="{filter_of(outcome, FINDING)}"></span>',
            _table(index, findings, f"Findings beside {cited}"),
            "</details>",
        ]
    parts += [_reasons(index), "</details>"]
    return "\n".join(parts)


def _filters(outcome: Outcome) -> str:
    found = [counts([outcome], fitted=which) for which in (False, True)]
    links = [
        f'<li><a class="verdict {slug(verdict)}" href="#{filter_of(outcome, verdict)}">'
        f"<b>{MARKS[verdict]}</b> {number} {verdict}</a></li>"
        for verdict in VERDICTS
        if (number := sum(one[verdict] for one in found))
    ]
    links.append(f'<li><a class="verdict" href="#{filter_of(outcome, "all")}">all</a></li>')
    return (
        f'<nav class="filters" aria-label="Claims of one verdict"><ul class="verdicts">'
        f'{"".join(links)}</ul><label hidden>Text <input type="search"></label></nav>'
    )


def _table(index: Index, claims: list[Claim], label: str) -> str:
    """The roles keep it a table where a narrow screen lays it out otherwise."""
    head = "".join(
        f'<th scope="col" role="columnheader"{kind}>{column.replace(" %", "&nbsp;%")}</th>'
        for column, kind in zip(COLUMNS, KINDS, strict=True)
    )
    bodies = []
    for item, group in groupby(claims, key=lambda claim: claim.item):
        rows = "\n".join(_row(index, claim) for claim in group)
        bodies.append(
            f'<tbody role="rowgroup"><tr role="row"><th scope="rowgroup" colspan="{len(COLUMNS)}" '
            f'class="item" role="rowheader">{escape(item)}</th></tr>\n{rows}</tbody>'
        )
    inner = (
        f'<table class="list" role="table"><caption>{escape(label)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>\n{"".join(bodies)}</table>'
    )
    return frame(label, inner)


def _row(index: Index, claim: Claim) -> str:
    place, row = index.place(claim), Row(claim)
    cells = [
        f'<td class="number {kind}" role="cell" data-label="{label}">{text}</td>'
        for kind, label, text in (
            ("printed", "printed", row.published),
            ("", "measured", row.measured),
            ("interval", "interval", row.interval),
        )
    ]
    return (
        f'<tr class="claim {slug(claim.verdict)}" id="{place}" role="row">'
        f'<th scope="row" role="rowheader"><a href="#{place}">{escape(claim.key)}</a></th>'
        f'{"".join(cells)}<td role="cell">{verdict_badge(claim)}</td>'
        f'<td class="why" role="cell">{_why(index, claim)}</td></tr>'
    ).replace('class="number "', 'class="number"')


def _why(index: Index, claim: Claim) -> str:
    """The difference, what is said of this claim alone, and letters for what others share."""
    texts = [_difference(claim)] if claim.difference else []
    texts += [text for text in told(claim) if text not in index.letters]
    letters = [index.letters[text] for text in told(claim) if text in index.letters]
    links = ", ".join(
        f'<a href="#{_place(index, letter)}" class="letter">{letter}</a>' for letter in letters
    )
    return " ".join(filter(None, ("; ".join(map(escape, texts)), links)))


def _difference(claim: Claim) -> str:
    """How far from print, as a share of it where there is one."""
    if isinstance(claim.published, (int, float)) and isinstance(claim.measured, (int, float)):
        by = claim.measured - claim.published
        if claim.published:
            return f"{by / abs(claim.published):+.1%}".replace("-", MINUS).replace("%", "\xa0%")
    return claim.difference.replace("-", MINUS)


def _place(index: Index, letter: str) -> str:
    return f"why-{index.outcome.paper}-{letter}"


def _reasons(index: Index) -> str:
    if not index.letters:
        return ""
    rows = "".join(
        f'<div id="{_place(index, letter)}"><dt>{letter}</dt><dd>{escape(text)}</dd></div>'
        for text, letter in index.letters.items()
    )
    return f'<h4>Reasons that several claims share</h4><dl class="reasons">{rows}</dl>'
