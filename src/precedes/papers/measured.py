"""What was measured: values read from the results of runs, and nowhere else."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, Final

from precedes.errors import InternalError
from precedes.intervals import student_t

Run = Mapping[str, Any]  # one ``Result.as_dict()``
Results = Mapping[str, Sequence[Run]]  # by experiment, in the order of its scenarios

_SEAL: Final = object()


@dataclass(frozen=True)
class Measured:
    """Values of one quantity, one for each replication. Only ``measure`` and ``pooled`` make one.

    So a published value cannot stand where a measured one belongs: it is a plain number.
    """

    values: tuple[float, ...]
    seal: InitVar[object]

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
        count = len(self.values)
        if count < 2:
            return None
        half = student_t(count - 1) * statistics.stdev(self.values) / math.sqrt(count)
        return self.mean - half, self.mean + half


def measure(read: Callable[..., float], *runs: Sequence[Run]) -> Measured:
    """One value for each replication: ``read`` of a run.

    Of several lists ``read`` gets the runs that stand at the same place, such as one seed with
    and without an option.
    """
    if not runs or not runs[0] or len({len(one) for one in runs}) > 1:
        raise InternalError(f"measure() needs lists of equally many runs, not {_lengths(runs)}")
    return _checked([read(*row) for row in zip(*runs, strict=True)])


def pooled(read: Callable[..., float], *runs: Sequence[Run]) -> Measured:
    """One value for all replications together, such as a ratio of sums; it has no interval."""
    if not runs or not all(runs):
        raise InternalError(f"pooled() needs lists of runs, not {_lengths(runs)}")
    return _checked([read(*runs)])


def select(runs: Sequence[Run], **wanted: Any) -> list[Run]:
    """The runs whose scenario has these values, in their order: ``rate=100.0, entries=50``.

    A name is a field of the scenario, or else a parameter of the protocol. It is an error if no
    run fits: a figure without runs would be one nobody notices.
    """
    found = [run for run in runs if all(_field(run, k) == v for k, v in wanted.items())]
    if not found:
        raise InternalError(f"no run of {len(runs)} has {wanted}")
    return found


def _field(run: Run, name: str) -> Any:
    scenario = run["scenario"]
    return scenario[name] if name in scenario else scenario["parameters"].get(name)


def _lengths(runs: Sequence[Sequence[Run]]) -> str:
    return f"lists of {[len(one) for one in runs]}"


def _checked(values: Sequence[Any]) -> Measured:
    for value in values:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            raise InternalError(f"a measured value is a finite number, not {value!r}")
    return Measured(tuple(float(value) for value in values), seal=_SEAL)
