"""Workloads: senders and times of broadcasts, as text and as a value, with requirements and cost.

``sim.inputs.broadcasts`` draws the broadcasts.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from precedes.errors import UserError
from precedes.forms import Laws, name_of
from precedes.sim.scenario import Scenario

TARGET_SECONDS: Final = 20  # Wilhelm et al. 2023: random targets are reached every 20 s
BELLS_MAX: Final = 1000


class Length(enum.Enum):
    """A field that bounds the length of a workload."""

    OPEN = "messages or duration_s"
    TIMED = "duration_s"
    OWN = "itself"


@dataclass(frozen=True)
class Kind:
    """Base of all workloads."""

    FORMS: ClassVar[tuple[str, ...]]
    LENGTH: ClassVar[Length]

    def check(self, scenario: Scenario) -> None:
        """Raise UserError for numbers that contradict each other, or the scenario."""

    def broadcasts(self, scenario: Scenario) -> float:
        """Approximate number of broadcasts unless ``messages`` bounds them."""
        return scenario.rate * (scenario.duration_s or math.inf)


@dataclass(frozen=True)
class Poisson(Kind):
    """A Poisson process of the group's rate."""

    FORMS = ("poisson",)
    LENGTH = Length.OPEN


@dataclass(frozen=True)
class Periodic(Kind):
    """Every node broadcasts nearly periodically."""

    FORMS = ("periodic",)
    LENGTH = Length.OPEN


@dataclass(frozen=True)
class Window(Kind):
    """Every node broadcasts a given number of times, at uniform times in a window."""

    FORMS = ("window:MS", "window:MS:TIMES")
    LENGTH = Length.OWN
    ms: float
    times: float = 1.0

    def check(self, scenario: Scenario) -> None:
        """Raise UserError unless the number of broadcasts is whole."""
        if self.times != round(self.times) or self.times < 1:
            raise UserError(
                f"workload {scenario.workload!r}: a node broadcasts a whole number of times, "
                "from 1 on"
            )

    def broadcasts(self, scenario: Scenario) -> float:
        """The number in the text."""
        return scenario.nodes * self.times


@dataclass(frozen=True)
class Exponential(Window):
    """The same at exponential times."""

    FORMS = ("exponential:MS", "exponential:MS:TIMES")


@dataclass(frozen=True)
class Triangle(Window):
    """The same at times that are likeliest in the middle of the window, and not at its ends."""

    FORMS = ("triangle:MS", "triangle:MS:TIMES")


@dataclass(frozen=True)
class Burst(Kind):
    """The first nodes broadcast a given number of times each, all at the start."""

    FORMS = ("burst:NODES:EACH",)
    LENGTH = Length.OWN
    nodes: float
    each: float

    def check(self, scenario: Scenario) -> None:
        """Raise UserError unless there are enough nodes, and whole broadcasts."""
        whole = self.nodes % 1 == 0 and self.each % 1 == 0
        if not whole or not 1 <= self.nodes <= scenario.nodes or self.each < 1:
            raise UserError(
                f"workload {scenario.workload!r}: burst takes a number of nodes up to "
                f"{scenario.nodes} and how many messages each of them broadcasts"
            )

    def broadcasts(self, scenario: Scenario) -> float:
        """The number in the text."""
        return self.nodes * self.each


@dataclass(frozen=True)
class Varying(Kind):
    """A rate that varies between two."""

    LENGTH = Length.TIMED
    low: float
    high: float

    def check(self, scenario: Scenario) -> None:
        """Raise UserError unless the rates are in order, and one is above 0."""
        if self.low > self.high or self.high == 0:
            raise UserError(f"workload {scenario.workload!r}: rates are LOW:HIGH with HIGH above 0")

    def broadcasts(self, scenario: Scenario) -> float:
        """The number for a rate in the middle."""
        return (self.low + self.high) / 2 * (scenario.duration_s or math.inf)


@dataclass(frozen=True)
class Bell(Varying):
    """A rate that rises from low to high and falls again, a given number of times."""

    FORMS = ("bell:LOW:HIGH", "bell:LOW:HIGH:TIMES")
    times: float = 1.0

    def check(self, scenario: Scenario) -> None:
        """Raise UserError unless the number of bells is whole."""
        super().check(scenario)
        if self.times != round(self.times) or not 1 <= self.times <= BELLS_MAX:
            raise UserError(
                f"workload {scenario.workload!r}: TIMES is a whole number from 1 to {BELLS_MAX}"
            )


@dataclass(frozen=True)
class Random(Varying):
    """A rate that goes from target to target, or stays low except for some peaks."""

    FORMS = ("random:LOW:HIGH", "random:LOW:HIGH:PEAKS")
    peaks: float | None = None

    def targets(self, scenario: Scenario) -> int:
        """The number of targets of the rate, the first one included."""
        assert scenario.duration_s is not None
        return math.ceil(scenario.duration_s / TARGET_SECONDS) + 1

    def check(self, scenario: Scenario) -> None:
        """Raise UserError unless peaks have room, with a target between any two."""
        super().check(scenario)
        if self.peaks is None:
            return
        if self.peaks != round(self.peaks) or not (
            1 <= self.peaks <= (self.targets(scenario) - 1) // 2
        ):
            raise UserError(
                f"workload {scenario.workload!r}: PEAKS is a whole number from 1 to half of the "
                f"targets, of which there is one every {TARGET_SECONDS} s"
            )


@dataclass(frozen=True)
class Shift(Kind):
    """A Poisson process in which from a given time some nodes have a share of the load."""

    FORMS = ("shift:AT_S:SHARE:EVERY",)
    LENGTH = Length.TIMED
    at_s: float
    share: float
    every: float

    def check(self, scenario: Scenario) -> None:
        """Raise UserError unless some nodes have that share, and some are left for the rest."""
        if not self.share < 1 or not 2 <= self.every <= scenario.nodes or self.every % 1:
            raise UserError(
                f"workload {scenario.workload!r}: SHARE is below 1, EVERY a whole number from 2 "
                f"to {scenario.nodes}"
            )


def _nearly_periodic(law: type[Kind]) -> type[Kind]:
    """The same rates and shares, with nodes that broadcast nearly periodically."""
    forms = tuple(f"periodic_{form}" for form in law.FORMS)
    return type(f"Periodic{law.__name__}", (law,), {"FORMS": forms})


NEARLY_PERIODIC: Final = tuple(_nearly_periodic(law) for law in (Bell, Random, Shift))


@dataclass(frozen=True)
class Replay(Kind):
    """A causal graph: a node broadcasts an event once it has delivered its parents."""

    FORMS = ("replay:FILE",)
    LENGTH = Length.OWN
    path: Path

    def broadcasts(self, scenario: Scenario) -> float:
        """An estimate from the file's size: some 100 bytes an event, a tenth of that compressed."""
        size_bytes = self.path.stat().st_size if self.path.is_file() else 0
        return size_bytes / (10 if self.path.suffix == ".gz" else 100)


KINDS: Final = Laws[Kind](
    "workload",
    (
        *(Poisson, Periodic, Window, Exponential, Triangle, Burst),
        *(Bell, Random, Shift, *NEARLY_PERIODIC, Replay),
    ),
)
WORKLOAD_HELP: Final = KINDS.help


def workload_of(scenario: Scenario) -> Kind:
    """The workload of a scenario, checked against the rest of it."""
    text = scenario.workload
    kind = KINDS.law_of(text)
    name = name_of(kind)
    if kind.LENGTH is Length.OPEN and text != name:
        raise UserError(f"workload {name} takes no parameters here: give the load with rate")
    if kind.LENGTH is Length.OWN and scenario.duration_s is not None:
        raise UserError(f"workload {name} ends by itself: leave out duration")
    if kind.LENGTH is Length.OPEN and scenario.messages is None and not scenario.duration_s:
        raise UserError("no length: give `messages` or `duration_s`")
    if kind.LENGTH is Length.TIMED and not scenario.duration_s:
        raise UserError(f"workload {name} needs a duration")
    workload = KINDS.read(text)
    workload.check(scenario)
    return workload


def replayed(text: str) -> Path | None:
    """The graph that a workload replays; None for other workloads, also with mistakes."""
    graph = KINDS.read(text) if KINDS.names(text, Replay) else None
    return graph.path if isinstance(graph, Replay) else None


def broadcasts(scenario: Scenario) -> float:
    """Approximate number of broadcasts of a run; 0 if unknown.

    A workload with mistakes counts as any other: the run itself reports its errors.
    """
    try:
        expected = KINDS.read(scenario.workload).broadcasts(scenario)
    except UserError:
        expected = Kind.broadcasts(Poisson(), scenario)
    if scenario.messages is not None:
        expected = min(expected, float(scenario.messages))
    return expected if math.isfinite(expected) else 0.0
