"""The one question of the report as a picture: how far from print is what was measured?

A dot is a claim, in the row of its verdict, at measured over printed; it leads to its row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from precedes.papers.claims import FINDING, VERDICTS, Claim
from precedes.papers.outcome import Outcome
from precedes.report.html import MARKS, Row
from precedes.report.index import Index, slug

WIDTH: Final = 960.0
LABEL: Final = 150.0  # for the names of verdicts
ZERO: Final = 190.0  # the place of what is 0, or has the other sign
LEFT, RIGHT = 240.0, 770.0  # of the axis
NO_RATIO: Final = 875.0  # the middle of what has no number to be divided by
FARTHEST: Final = 32.0  # times; what is farther stands at the end
PITCH: Final = 4.8  # from dot to dot
STACK_MAX: Final = 14  # dots above each other; more stand beside them
RADIUS: Final = 1.9


class Dot(NamedTuple):
    """A claim and its place in its row."""

    paper: Index
    claim: Claim
    column: int
    height: int


def ratio_of(claim: Claim) -> float | None:
    """Measured over printed; None if print is no number, or 0 and the other is not."""
    if isinstance(claim.published, str) or isinstance(claim.measured, str):
        return None
    if claim.published is None or claim.measured is None:
        return None
    if claim.published == 0:
        return 1.0 if claim.measured == 0 else None
    return claim.measured / claim.published


def dots_svg(indices: Sequence[Index]) -> str:
    """The picture; findings have nothing to be compared with and are left out.

    A thousand dots would be in the way of the tabulator key: it stops at the picture, and the
    arrow keys walk from there; the table of papers by verdicts leads to the same rows.
    """
    rows = [(verdict, _stacked(indices, verdict)) for verdict in VERDICTS if verdict != FINDING]
    parts: list[str] = []
    y = 34.0
    for verdict, dots in rows:
        if not dots:
            continue
        y += 14 + PITCH * max(3, max(dot.height for dot in dots) + 1)
        parts += _row(verdict, dots, y)
    height = y + 12
    said = "; ".join(f"{len(dots)} {verdict}" for verdict, dots in rows if dots)
    alt = (
        "A dot for each claim, in the row of its verdict, at measured over printed on a "
        f"logarithmic axis: {said}. Each leads to its row in the lists below."
    )
    return (
        f'<svg class="dots" viewBox="0 0 {WIDTH:g} {height:g}" role="group" '
        'aria-labelledby="dots-alt" font-size="13" fill="currentColor">'
        f'<title id="dots-alt">{escape(alt)}</title>'
        f"{''.join(_axis(height))}{''.join(parts)}</svg>"
    )


def drawn(outcomes: Iterable[Outcome]) -> list[Claim]:
    """The claims that have a dot."""
    return [claim for one in outcomes for claim in one.claims if claim.verdict != FINDING]


def _place(claim: Claim) -> float:
    ratio = ratio_of(claim)
    if ratio is None:
        return NO_RATIO
    if ratio <= 0:
        return ZERO
    share = math.log(min(max(ratio, 1 / FARTHEST), FARTHEST)) / math.log(FARTHEST)
    return (LEFT + RIGHT) / 2 + share * (RIGHT - LEFT) / 2


def _stacked(indices: Sequence[Index], verdict: str) -> list[Dot]:
    """Dots of a row, those at one place above each other, and beside it if there are too many."""
    heights: dict[int, int] = {}
    found = []
    claims = [
        (index, claim)
        for index in indices
        for claim in index.outcome.claims
        if claim.verdict == verdict
    ]
    for index, claim in sorted(claims, key=lambda pair: abs(_place(pair[1]) - (LEFT + RIGHT) / 2)):
        place = _place(claim)
        most = 8 if place == NO_RATIO and len(claims) < 80 else STACK_MAX
        wanted = round(place / PITCH)
        column = next(
            wanted + aside
            for distance in range(1000)
            for aside in (distance, -distance)
            if heights.get(wanted + aside, 0) < most
        )
        height = heights.get(column, 0)
        heights[column] = height + 1
        found.append(Dot(index, claim, column, height))
    return found


def _axis(height: float) -> Iterable[str]:
    exponents = range(-5, 6)
    places = [((LEFT + RIGHT) / 2 + e / 5 * (RIGHT - LEFT) / 2, e) for e in exponents]
    lines = "".join(f"M{x:.1f} 34V{height - 6:.1f}" for x, e in places if e)
    yield f'<path d="{lines}" stroke="currentColor" stroke-opacity=".12" fill="none"/>'
    middle = (LEFT + RIGHT) / 2
    yield f'<path d="M{middle:.1f} 34V{height - 6:.1f}" stroke="currentColor" stroke-opacity=".6"/>'
    edges = f"M{(ZERO + LEFT) / 2:.1f} 34V{height - 6:.1f}M{RIGHT + 30:g} 34V{height - 6:.1f}"
    yield f'<path d="{edges}" stroke="currentColor" stroke-opacity=".3" stroke-dasharray="2 4"/>'
    for x, exponent in places:
        text = f"1/{2**-exponent}" if exponent < 0 else str(2**exponent)
        text += " and less" if exponent == -5 else " and more" if exponent == 5 else ""
        words = text if abs(exponent) < 5 else text.partition(" ")[0]
        yield f'<text x="{x:.1f}" y="28" text-anchor="middle">{words}</text>'
    yield f'<text x="{ZERO:g}" y="28" text-anchor="middle">\N{LESS-THAN OR EQUAL TO} 0</text>'
    yield f'<text x="{NO_RATIO:g}" y="28" text-anchor="middle">no ratio</text>'
    yield (
        f'<text x="{middle:.1f}" y="11" text-anchor="middle" font-style="italic">'
        "measured, in times what is printed</text>"
    )


def _row(verdict: str, dots: Sequence[Dot], y: float) -> Iterable[str]:
    yield f'<path d="M{LABEL:g} {y + 1:.1f}H{WIDTH:g}" stroke="currentColor" stroke-opacity=".25"/>'
    yield f'<g class="{slug(verdict)}"><text x="0" y="{y - 2:.1f}">'
    yield f'<tspan font-weight="600">{MARKS[verdict]} {verdict}</tspan> {len(dots)}</text>'
    for dot in sorted(dots, key=lambda one: (one.column, one.height)):
        x, up = dot.column * PITCH, y - PITCH * (dot.height + 0.5)
        hollow = ' class="fitted"' if dot.claim.fitted else ""
        yield (
            f'<a href="#{dot.paper.place(dot.claim)}" tabindex="-1">'
            f"<title>{escape(_said(dot))}</title>"
            f'<circle cx="{x:.1f}" cy="{up:.1f}" r="{RADIUS:g}"{hollow}/></a>'
        )
    yield "</g>"


def _said(dot: Dot) -> str:
    claim, row = dot.claim, Row(dot.claim)
    plain = [text if "<" not in text else "nothing" for text in (row.published, row.measured)]
    return (
        (
            f"{dot.paper.outcome.reference.citation}, {claim.item}: {claim.key}. "
            f"Printed {plain[0]}, measured {plain[1]}: {claim.said}"
        )
        .replace("&lt;", "<")
        .replace("&gt;", ">")
    )
