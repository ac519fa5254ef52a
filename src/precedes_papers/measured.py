"""Measured values: read from the results of runs, and nowhere else.

A value that agrees because a parameter was chosen for it shows less than one that agrees by itself.
A paper lists such parameters as ``FITTED`` in its experiments; every run whose scenario has one of
these values is marked, and every claim that a marked run takes part in names it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from operator import getitem
from typing import Any, Final, NamedTuple, TypeVar

from precedes.errors import InternalError
from precedes.intervals import student_t

Run = Mapping[str, Any]  # one ``Result.as_dict()``, with its marks
Results = Mapping[str, Sequence[Run]]  # by experiment, in the order of its scenarios
Reader = Callable[[Run], float]
Pair = Callable[[Run, Run], float]
Read = TypeVar("Read", bound=Callable[..., float])

MARKS: Final = "fitted"  # the key of a run's marks
ORIGIN: Final = "origin"  # and of where it comes from
EVERYTHING: Final = (-math.inf, math.inf)

_SEAL: Final = object()


class Origin(NamedTuple):
    """The run that a value was read from; it links every number of a report to its records."""

    experiment: str
    run: str  # as its files are called, "" if it has none
    seed: int


def ranged(low: float, high: float = math.inf) -> Callable[[Read], Read]:
    """Decorate a reader of a quantity with bounds, such as a share or a count."""

    def decorate(read: Read) -> Read:
        read.range = (low, high)  # type: ignore[attr-defined]
        return read

    return decorate


def value(*path: str, factor: float = 1.0, low: float = -math.inf) -> Reader:
    """Reader of the number at these keys of a run; ``low`` is its lower bound."""
    return ranged(low)(lambda run: float(functools.reduce(getitem, path, run)) * factor)


def less(read: Reader) -> Pair:
    """Difference of the first run from the second."""
    return lambda run, other: read(run) - read(other)


@dataclass(frozen=True)
class Measured:
    """Values of one quantity, one for each replication. Only ``measure`` and ``pooled`` make one.

    So a published value, a plain number, cannot be used as a measured one. ``fitted`` names the
    parameters that the values depend on and that were fitted; ``origins`` names the runs.
    """

    values: tuple[float, ...]
    seal: InitVar[object]
    range: tuple[float, float] = EVERYTHING
    fitted: tuple[Fitted, ...] = ()
    origins: tuple[Origin, ...] = ()

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise InternalError("a Measured is made by measure() or pooled(), from results")

    @property
    def mean(self) -> float:
        """The mean over replications."""
        return statistics.fmean(self.values)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the mean; None: one replication has none."""
        return self._around(1 / len(self.values))

    @property
    def deviation(self) -> float:
        """The standard deviation of replications; 0 for a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def around(self, runs: int) -> tuple[float, float] | None:
        """The 95 % prediction interval of the mean of this number of further replications."""
        return self._around(1 / runs + 1 / len(self.values))

    def _around(self, variance: float) -> tuple[float, float] | None:
        """An interval around the mean; the variance is in units of that of one replication.

        It is cut to the bounds of the quantity, which costs no confidence.
        """
        count = len(self.values)
        if count < 2:
            return None
        half = student_t(count - 1) * self.deviation * math.sqrt(variance)
        low, high = self.range
        return max(self.mean - half, low), min(self.mean + half, high)


def measure(read: Callable[..., float], *runs: Sequence[Run]) -> Measured:
    """One value for each replication: ``read`` of a run.

    With several lists, ``read`` gets the runs at the same index, such as one seed with and without
    an option.
    """
    if not runs or not runs[0] or len({len(one) for one in runs}) > 1:
        raise InternalError(f"measure() needs lists of equally many runs, not {_lengths(runs)}")
    return _checked(read, [read(*row) for row in zip(*runs, strict=True)], runs)


def paired(read: Callable[..., float], *runs: Sequence[Run]) -> Measured:
    """Measure runs of the same seeds; those that only one of the lists has are left out."""
    count = min(map(len, runs))
    return measure(read, *(one[:count] for one in runs))


def pooled(read: Callable[..., float], *runs: Sequence[Run]) -> Measured:
    """One value for all replications together, such as a ratio of sums; it has no interval."""
    if not runs or not all(runs):
        raise InternalError(f"pooled() needs lists of runs, not {_lengths(runs)}")
    return _checked(read, [read(*runs)], runs)


def select(runs: Sequence[Run], **wanted: Any) -> list[Run]:
    """The runs whose scenario has these values, in their order: ``rate=100.0, entries=50``.

    A name is a field of the scenario, or else a parameter of the protocol. It is an error if no
    run matches, because an empty figure is easily overlooked.
    """
    matches = [run for run in runs if all(field(run, k) == v for k, v in wanted.items())]
    if not matches:
        raise InternalError(f"no run of {len(runs)} has {wanted}")
    return matches


def field(run: Run, name: str) -> Any:
    """A field of a run's scenario, or else a parameter of its protocol."""
    scenario = run["scenario"]
    return scenario[name] if name in scenario else scenario["parameters"].get(name)


def _lengths(runs: Sequence[Sequence[Run]]) -> str:
    return f"lists of {[len(one) for one in runs]}"


def _checked(
    read: Callable[..., float], values: Sequence[Any], runs: Sequence[Sequence[Run]]
) -> Measured:
    low, high = getattr(read, "range", EVERYTHING)
    for value in values:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise InternalError(f"a measured value is a finite number, not {value!r}")
        if not low <= value <= high:
            raise InternalError(f"{value!r} was measured of what lies between {low} and {high}")
    marks = dict.fromkeys(getattr(read, MARKS, ()))
    marks |= dict.fromkeys(mark for one in runs for run in one for mark in run.get(MARKS, ()))
    return Measured(
        tuple(float(value) for value in values),
        seal=_SEAL,
        range=(low, high),
        fitted=tuple(marks),
        origins=tuple(run[ORIGIN] for one in runs for run in one if ORIGIN in run),
    )


class Fitted(NamedTuple):
    """A fitted field of a scenario or parameter of a protocol, and the item that it was fitted to.

    A choice that is not a field, such as the law of the faults, names its ``experiments`` instead.
    """

    field: str
    value: Any
    chosen_by: str  # "Table 1"
    experiments: tuple[str, ...] = ()
    # The items that it was fitted to, or their statements that begin so; ``chosen_by`` if empty.
    items: tuple[str | tuple[str, str], ...] = ()
    only_if: tuple[tuple[str, Any], ...] = ()  # other fields without which it changes nothing

    def __str__(self) -> str:
        return f"{self.field} {self.value}, by {self.chosen_by}"

    def is_fitted_to(self, item: str, statement: str) -> bool:
        """Return whether it was fitted to this statement."""
        places = (one if isinstance(one, tuple) else (one, "") for one in self._places)
        return any(item == name and statement.startswith(start) for name, start in places)

    @property
    def _places(self) -> tuple[str | tuple[str, str], ...]:
        return self.items or (self.chosen_by,)

    def takes_part(self, experiment: str, run: Run) -> bool:
        """Return whether a run of an experiment depends on it."""
        if self.experiments:
            return experiment in self.experiments
        wanted = ((self.field, self.value), *self.only_if)
        return all(field(run, name) == value for name, value in wanted)


def marked(results: Results, chosen: Sequence[Fitted]) -> dict[str, list[Run]]:
    """The runs, each with its origin and the fitted parameters that it depends on."""
    return {
        name: [
            {
                **run,
                MARKS: [one for one in chosen if one.takes_part(name, run)],
                ORIGIN: Origin(name, run.get("run", ""), run["seed"]),
            }
            for run in runs
        ]
        for name, runs in results.items()
    }


def regardless(measured: Measured) -> Measured:
    """The same value without its marks: it follows from the number of processes, or must hold."""
    return dataclasses.replace(measured, fitted=(), seal=_SEAL)


def fitted_reader(mark: Fitted) -> Callable[[Read], Read]:
    """A reader that uses a fitted number."""

    def decorate(read: Read) -> Read:
        setattr(read, MARKS, (mark,))
        return read

    return decorate
