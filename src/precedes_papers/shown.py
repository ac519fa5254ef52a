"""Content of a paper in a report: tables, figures, and headlines, its main statements.

A headline names the claims that judge it and has no numbers of its own: published and measured
values are read from the claims.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from precedes.errors import InternalError
from precedes.pages.figures import Figure, Point, Series
from precedes_papers.measured import Measured
from precedes_papers.rules import Claim

__all__ = [
    "Cell",
    "Claims",
    "Figure",
    "Headlines",
    "Point",
    "Published",
    "Series",
    "Statement",
    "Story",
    "Table",
    "evidence_of",
    "measured_series",
    "model_series",
    "published_series",
    "seeds_of",
    "story",
]


@dataclass(frozen=True)
class Published:
    """A published value in a table."""

    value: float


# Text and plain numbers name the row or come from a model; None: nothing to show.
Cell = str | float | Published | Measured | None


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
    means = []
    for x, measured in points:
        if not isinstance(measured, Measured):
            raise InternalError(f"{label}: a measured point needs a Measured, not {measured!r}")
        low, high = measured.interval or (None, None)
        means.append(Point(x, measured.mean, low, high, seeds_of(measured), evidence_of(measured)))
    return Series(label, "measured", _some(label, means))


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
    """Identity of a measured quantity: its values, and the runs that they come from."""
    return measured.values, measured.origins


def published_series(label: str, points: Sequence[tuple[float, float]]) -> Series:
    """Series of published values; drawn dashed."""
    return Series(label, "published", _some(label, [Point(x, y) for x, y in points]))


def model_series(label: str, points: Sequence[tuple[float, float]]) -> Series:
    """Series of values of a formula; drawn dotted."""
    return Series(label, "model", _some(label, [Point(x, y) for x, y in points]))


def _some(label: str, points: Sequence[Point]) -> tuple[Point, ...]:
    if not points:
        raise InternalError(f"{label}: a series without points")
    return tuple(sorted(points, key=lambda point: point.x))


class Claims:
    """The claims of a paper by item and key, of which tables, figures and headlines are made."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        for claim in claims:
            if (claim.item, claim.key) in self._claims:
                raise InternalError(f"the claim {claim.item}, {claim.key} occurs twice")
            self._claims[claim.item, claim.key] = claim

    def __iter__(self) -> Iterator[Claim]:
        return iter(self._claims.values())

    def of(self, item: str, statement: str, reading: str = "") -> Claim:
        """The claim of this item and statement under a reading."""
        key = f"{statement}, {reading}" if reading else statement
        if (item, key) not in self._claims:
            raise InternalError(f"there is no claim {item}, {key}")
        return self._claims[item, key]

    def measured(self, item: str, statement: str, reading: str = "") -> Measured:
        """The value that it judges."""
        (one,) = self.of(item, statement, reading).evidence
        return one

    def cells(self, item: str, statement: str, readings: Iterable[str] = ("",)) -> list[Cell]:
        """The published value of a statement, and the measured ones under each reading."""
        claims = [self.of(item, statement, reading) for reading in readings]
        published = claims[0].published
        listed = Published(published) if isinstance(published, (int, float)) else None
        return [listed, *(claim.evidence[0] for claim in claims)]

    def line(self, label: str, item: str, points: Mapping[float, str], reading: str = "") -> Series:
        """The measured values of statements as a line, by their place on the x axis."""
        values = [(x, self.measured(item, one, reading)) for x, one in points.items()]
        return measured_series(label, values)


@dataclass(frozen=True)
class Statement:
    """Something that a paper says: ``says`` has ``{}`` where the published value stands."""

    says: str  # "aggregation saves {} of the packets of 1,024 nodes"
    short: str  # "packets saved, 1,024 nodes": a line of the terminal begins with it
    item: str  # "Table 1"
    statement: str  # of its claims
    readings: Mapping[str, str] = field(default_factory=lambda: {"": ""})  # by their short names
    unit: str = ""  # follows a number: "%", "s"


@dataclass(frozen=True)
class Headlines:
    """The statements, most important first, and the names of the two most instructive figures."""

    statements: tuple[Statement, ...] = ()
    figures: tuple[str, ...] = ()
    readings: str = ""  # what the readings are, or what else holds for all tables


class _JudgedStatement(NamedTuple):
    """A statement with the claims that judge it, by reading."""

    statement: Statement
    claims: Mapping[str, Claim]


@dataclass(frozen=True)
class Story:
    """The headlines of a paper with their claims."""

    statements: tuple[_JudgedStatement, ...] = ()
    figures: tuple[str, ...] = ()
    readings: str = ""


def story(headlines: Headlines, claims: Claims, figures: Iterable[str]) -> Story:
    """Find the claims and figures that are named; one that is not there is an error."""
    statements = [
        _JudgedStatement(
            one,
            {
                name: claims.of(one.item, one.statement, reading)
                for name, reading in one.readings.items()
            },
        )
        for one in headlines.statements
    ]
    missing = set(headlines.figures) - set(figures)
    if missing:
        raise InternalError(f"headlines name no figure: {', '.join(sorted(missing))}")
    return Story(tuple(statements), headlines.figures, headlines.readings)
