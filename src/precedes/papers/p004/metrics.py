"""What is read from the runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from precedes.papers.measured import Measured, Results, Run, measure, select

Read = Callable[[Run], float]


def extra(name: str, factor: float = 1.0) -> Read:
    """Reads a counter of the radio."""
    return lambda run: float(run["extra"][name]) * factor


delay_s: Final = extra("delay_ms", 0.001)


def static(results: Results, protocol: str, read: Read) -> Measured:
    """What is read of the runs at the low load."""
    return measure(read, select(results["static"], protocol=protocol))


def peak(run: Run, number: int) -> float:
    """The most that the station stored during a fault and five seconds after."""
    begin_s, end_s = _span(run, number)
    return max(_stored(run, second) for second in range(begin_s, end_s + 6))


def recovery_s(run: Run, number: int) -> float:
    """Until the station stores no more than a quarter above what it did before the fault."""
    begin_s, end_s = _span(run, number)
    before = sum(_stored(run, second) for second in range(begin_s - 5, begin_s)) / 5
    last_s = min(int(run["scenario"]["duration_s"]), begin_s + 30)
    for second in range(end_s, last_s):
        if _stored(run, second) <= 1.25 * before + 1:
            return float(second - end_s)
    return float(last_s - end_s)


def _stored(run: Run, second: int) -> float:
    return float(run["extra"][f"stored_at_fault_{second}"])


def _span(run: Run, number: int) -> tuple[int, int]:
    parameters = run["scenario"]["parameters"]
    begin_s = parameters["fault_start_s"] + number * parameters["fault_every_s"]
    length_s = parameters["fault_length_s"] + number * parameters["fault_longer_s"]
    return round(begin_s), round(begin_s + length_s)
