"""What a plot shows: lines of points, and the words for those who do not see it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Literal

from precedes.errors import InternalError

SERIES_MAX: Final = 8  # more lines than that cannot be told apart


@dataclass(frozen=True)
class Point:
    """A point of a series; low and high bound what is measured more than once.

    ``note`` follows the values where the point is looked at, such as its seeds. Points with one
    ``source`` show the same thing; a page may link them by it.
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
    alt: str  # what the plot shows, for those who do not see it
    log_x: bool = False
    log_y: bool = False

    def __post_init__(self) -> None:
        for kind in ("measured", "published", "model"):
            if sum(one.kind == kind for one in self.series) > SERIES_MAX:
                raise InternalError(f"{self.name}: more than {SERIES_MAX} {kind} series")
        if not self.series or not self.alt.strip():
            raise InternalError(f"{self.name}: a figure needs a series and a text for alt")
