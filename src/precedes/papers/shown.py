"""Tables and figures of a report, published beside measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from precedes.errors import InternalError
from precedes.papers.measured import Measured

SERIES_MAX = 8  # more lines than that cannot be told apart


@dataclass(frozen=True)
class Printed:
    """A published value in a table."""

    value: float


# Text and plain numbers name the row or come from a model; None: nothing to show.
Cell = str | float | Printed | Measured | None


@dataclass(frozen=True)
class Table:
    """A table of the report, and its file ``tables/PAPER-NAME.csv``."""

    name: str  # "Table 1"
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise InternalError(f"{self.name}: a row of {len(row)} under {self.header}")


@dataclass(frozen=True)
class Point:
    """A point of a series; low and high bound what is measured more than once."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """A line of a figure; made by ``measured_series``, ``published_series``, ``model_series``."""

    label: str
    kind: Literal["measured", "published", "model"]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Figure:
    """A plot of the report; its points also go to ``tables/PAPER-NAME.csv``."""

    name: str  # "Figure 1"
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    alt: str  # what the plot shows, for those who do not see it
    log_x: bool = False
    log_y: bool = False

    def __post_init__(self) -> None:
        for kind in ("measured", "published", "model"):
            if sum(one.kind == kind for one in self.series) > SERIES_MAX:
                raise InternalError(f"{self.name}: more than {SERIES_MAX} {kind} series")
        if not self.series or not self.alt.strip():
            raise InternalError(f"{self.name}: a figure needs a series and a text for alt")


def measured_series(label: str, points: Sequence[tuple[float, Measured]]) -> Series:
    """Means over replications, with their intervals."""
    found = []
    for x, measured in points:
        if not isinstance(measured, Measured):
            raise InternalError(f"{label}: a measured point needs a Measured, not {measured!r}")
        low, high = measured.interval or (None, None)
        found.append(Point(x, measured.mean, low, high))
    return Series(label, "measured", _some(label, found))


def published_series(label: str, points: Sequence[tuple[float, float]]) -> Series:
    """What the paper prints; drawn dashed."""
    return Series(label, "published", _some(label, [Point(x, y) for x, y in points]))


def model_series(label: str, points: Sequence[tuple[float, float]]) -> Series:
    """What a formula predicts; drawn dotted."""
    return Series(label, "model", _some(label, [Point(x, y) for x, y in points]))


def _some(label: str, points: Sequence[Point]) -> tuple[Point, ...]:
    if not points:
        raise InternalError(f"{label}: a series without points")
    return tuple(sorted(points, key=lambda point: point.x))
