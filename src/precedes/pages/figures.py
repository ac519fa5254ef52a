"""Data of a plot: lines of points, and the words for those who cannot see it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Literal

from precedes.errors import InternalError

SERIES_MAX: Final = 8  # more lines cannot be distinguished


@dataclass(frozen=True)
class Point:
    """A point of a series; low and high bound repeated measurements.

    ``note`` follows the values in the text of the point, such as its seeds. Points with one
    ``source`` show the same run; a page may link them by it.
    """

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    note: str = ""
    source: Hashable = field(default=None, compare=False)


@dataclass(frozen=True)
class Series:
    """A line of a figure; papers make theirs with ``precedes_papers.shown``."""

    label: str
    kind: Literal["measured", "published", "model"]
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Figure:
    """A plot of a page; of a report, its points also go to ``tables/PAPER-NAME.csv``."""

    name: str  # "Figure 1"
    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    alt: str  # description of the plot, for those who cannot see it
    log_x: bool = False
    log_y: bool = False

    def __post_init__(self) -> None:
        for kind in ("measured", "published", "model"):
            if sum(one.kind == kind for one in self.series) > SERIES_MAX:
                raise InternalError(f"{self.name}: more than {SERIES_MAX} {kind} series")
        if not self.series or not self.alt.strip():
            raise InternalError(f"{self.name}: a figure needs a series and a text for alt")
