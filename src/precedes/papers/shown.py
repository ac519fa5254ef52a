"""Tables and figures of a report, published beside measured."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from precedes.errors import InternalError
from precedes.pages.figures import Figure, Point, Series
from precedes.papers.measured import Measured

__all__ = [
    "Cell",
    "Figure",
    "Point",
    "Printed",
    "Series",
    "Table",
    "evidence_of",
    "measured_series",
    "model_series",
    "published_series",
    "seeds_of",
]


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
    by_row: bool = False  # a row is one quantity: its numbers are written alike, not a column's

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise InternalError(f"{self.name}: a row of {len(row)} under {self.header}")


def measured_series(label: str, points: Sequence[tuple[float, Measured]]) -> Series:
    """Means over replications, with their intervals."""
    found = []
    for x, measured in points:
        if not isinstance(measured, Measured):
            raise InternalError(f"{label}: a measured point needs a Measured, not {measured!r}")
        low, high = measured.interval or (None, None)
        found.append(Point(x, measured.mean, low, high, seeds_of(measured), evidence_of(measured)))
    return Series(label, "measured", _some(label, found))


def seeds_of(measured: Measured) -> str:
    """The seeds and experiments that it comes from, in words."""
    seeds = sorted({origin.seed for origin in measured.origins})
    if not seeds:
        return ""
    names = list(dict.fromkeys(origin.experiment for origin in measured.origins))
    whole = seeds == list(range(seeds[0], seeds[-1] + 1))
    text = f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {text}"
    return f"{which} of {' and '.join(names)}"


def evidence_of(measured: Measured) -> Hashable:
    """What tells it from all else that was measured: values, and the runs they come from."""
    return measured.values, measured.origins


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
