"""Counts of runs by protocol: summed up over tests and processes, and printed."""

from collections import Counter
from typing import NamedTuple

COLUMNS = ("schedules", "failed", "deliveries", "out of order")
ALL, FAILED, DELIVERIES, VIOLATIONS = COLUMNS


class Schedule(NamedTuple):
    """One schedule that was run; of one that failed nothing else is known."""

    deliveries: int = 0
    violations: int = 0
    has_failed: bool = False


class Counts:
    """Numbers by protocol and column."""

    def __init__(self):
        self._numbers = Counter()

    def add(self, protocol, schedule):
        """Count one schedule."""
        row = (1, int(schedule.has_failed), schedule.deliveries, schedule.violations)
        self.merge([protocol, *cell] for cell in zip(COLUMNS, row, strict=True))

    def total(self, column=ALL):
        """A column's sum over all protocols."""
        return sum(number for (_, name), number in self._numbers.items() if name == column)

    def packed(self):
        """The same as lists, which reports of tests can carry from process to process."""
        return [[*key, number] for key, number in sorted(self._numbers.items())]

    def merge(self, packed):
        """Add what another process has counted."""
        for protocol, column, number in packed:
            self._numbers[protocol, column] += number

    def lines(self):
        """A line for each protocol, and one for all."""
        rows = [("", *COLUMNS)]
        for protocol in sorted({name for name, _ in self._numbers}):
            rows.append((protocol, *(f"{self._numbers[protocol, name]:,}" for name in COLUMNS)))
        rows.append(("all", *(f"{self.total(name):,}" for name in COLUMNS)))
        width = max(len(row[0]) for row in rows)
        for first, *others in rows:
            yield "  ".join((first.ljust(width), *(text.rjust(14) for text in others)))
