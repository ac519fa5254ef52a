"""The one question of the report as a picture: how far from the published is the measured value?

A dot is a published statement, in the row of its outcome, at measured over published of the reading
that comes closest; it leads to the claim about that reading.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from precedes_papers.report.claims import Index, Row
from precedes_papers.rules import OUTCOMES, Claim, outcome_of, statements

WIDTH: Final = 960.0
LABEL: Final = 180.0  # for the names of outcomes
ZERO: Final = 205.0  # the place of what is 0, or has the other sign
LEFT, RIGHT = 240.0, 770.0  # of the axis
MIDDLE: Final = (LEFT + RIGHT) / 2
NO_RATIO: Final = 875.0  # the middle of what has no number to be divided by
FARTHEST: Final = 32.0  # times; what is farther stands at the end
PITCH: Final = 4.8  # from dot to dot
STACK_MAX: Final = 14  # dots above each other; more are placed next to them


class Dot(NamedTuple):
    """A statement and its place in its row."""

    paper: Index
    readings: list[Claim]
    claim: Claim  # of the reading that comes closest
    column: int
    height: int

    @property
    def x(self) -> float:
        """Its place from left to right."""
        return self.column * PITCH

    @property
    def up(self) -> float:
        """Its place above the line of its row."""
        return PITCH * (self.height + 0.5)

    @property
    def said(self) -> str:
        """The statement and its claims in words."""
        one = self.claim
        measured = "; ".join(
            f"{f'{claim.reading}: ' if claim.reading else ''}measured "
            f"{Row(claim).measured or 'nothing'}, {claim.said}"
            for claim in self.readings
        )
        return (
            f"{self.paper.outcome.reference.citation}, {one.item}: {one.statement}. "
            f"Published {Row(one).published or 'nothing'}; {measured}"
        )


class Picture(NamedTuple):
    """Rows of dots by outcome, each with the height of its line, and the height of the picture."""

    rows: list[tuple[str, list[Dot], float]]
    height: float

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places and labels of the axis, which is logarithmic."""
        return [
            (MIDDLE + e / 5 * (RIGHT - LEFT) / 2, f"1/{2**-e}" if e < 0 else str(2**e))
            for e in range(-5, 6)
        ]

    @property
    def said(self) -> str:
        """The picture in words."""
        counts = "; ".join(f"{len(dots)} {outcome}" for outcome, dots, _ in self.rows)
        return (
            "A dot for each published statement, in the row of its outcome, at measured over "
            f"published on a logarithmic axis: {counts}. Each leads to its row in the lists below."
        )


def picture(indices: Sequence[Index]) -> Picture:
    """The picture; findings have nothing to be compared with and are left out."""
    groups: dict[str, list[tuple[Index, list[Claim]]]] = {name: [] for name in OUTCOMES}
    for index in indices:
        for readings in statements(index.outcome.claims):
            groups[outcome_of(readings)].append((index, readings))
    rows, y = [], 34.0
    for outcome, every in groups.items():
        if every:
            dots = _stacked(every)
            y += 14 + PITCH * max(3, max(dot.height for dot in dots) + 1)
            dots.sort(key=lambda dot: (dot.column, dot.height))
            rows.append((outcome, dots, y))
    return Picture(rows, y + 12)


def _ratio(claim: Claim) -> float | None:
    """Measured over published; None if one is not a number, or only the published value is 0."""
    if not isinstance(claim.published, (int, float)):
        return None
    if not isinstance(claim.measured, (int, float)):
        return None
    if claim.published == 0:
        return 1.0 if claim.measured == 0 else None
    return claim.measured / claim.published


def _place(claim: Claim) -> float:
    ratio = _ratio(claim)
    if ratio is None:
        return NO_RATIO
    if ratio <= 0:
        return ZERO
    share = math.log(min(max(ratio, 1 / FARTHEST), FARTHEST)) / math.log(FARTHEST)
    return MIDDLE + share * (RIGHT - LEFT) / 2


def _stacked(every: Sequence[tuple[Index, list[Claim]]]) -> list[Dot]:
    """Dots of a row: stacked at the same place, and next to the stack if there are too many."""
    heights: dict[int, int] = {}
    dots = []
    closest = [
        (index, readings, min(readings, key=lambda claim: abs(_place(claim) - MIDDLE)))
        for index, readings in every
    ]
    for index, readings, claim in sorted(closest, key=lambda one: abs(_place(one[2]) - MIDDLE)):
        place = _place(claim)
        most = 8 if place == NO_RATIO and len(every) < 80 else STACK_MAX
        wanted = round(place / PITCH)
        column = next(
            wanted + aside
            for distance in range(1000)
            for aside in (distance, -distance)
            if heights.get(wanted + aside, 0) < most
        )
        height = heights.get(column, 0)
        heights[column] = height + 1
        dots.append(Dot(index, readings, claim, column, height))
    return dots
