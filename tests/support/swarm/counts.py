"""What was run, by protocol and kind of fault: summed up over tests and processes, and printed."""

from collections import Counter
from dataclasses import dataclass

# Columns before those of faults. A schedule counts under each kind of fault that it has, so that
# only "none" and the kinds together make up all of them; "several" are those with two or more.
ALL, FAILED, EVERY_WAY = "schedules", "failed", "in every way"
DELIVERIES, VIOLATIONS = "deliveries", "out of order"
NONE, SEVERAL = "none", "several"
FAULTS = (
    *("crash", "pause", "cut", "loss", "duplication"),
    *("moves", "disconnects", "collisions", "joins and leaves"),
)
NETWORKS = ("links", "radio", "live")


@dataclass(frozen=True)
class Schedule:
    """One schedule that was run; of one that failed nothing else is known."""

    faults: frozenset[str]
    deliveries: int
    violations: int = 0
    every_way: bool = False  # interpreted, with little room and with packets besides
    has_failed: bool = False

    def __post_init__(self):
        assert self.faults <= set(FAULTS), self.faults


class Counts:
    """Numbers by network, protocol and column."""

    def __init__(self):
        self._numbers = Counter()

    def add(self, network, protocol, schedule):
        """Count one schedule."""
        assert network in NETWORKS, network
        columns = {ALL: 1, FAILED: schedule.has_failed}
        if not schedule.has_failed:
            columns |= {EVERY_WAY: schedule.every_way, DELIVERIES: schedule.deliveries}
            columns[VIOLATIONS] = schedule.violations
            columns |= dict.fromkeys(schedule.faults or {NONE}, 1)
            columns[SEVERAL] = len(schedule.faults) > 1
        for column, number in columns.items():
            self._numbers[network, protocol, column] += int(number)

    def __getitem__(self, key):
        return self._numbers[key]

    def total(self, column=ALL):
        """A column's sum over all protocols."""
        return sum(number for (*_, name), number in self._numbers.items() if name == column)

    def packed(self):
        """The same as lists, which reports of tests can carry from process to process."""
        return [[*key, number] for key, number in sorted(self._numbers.items())]

    def merge(self, packed):
        """Add what another process has counted."""
        for *key, number in packed:
            self._numbers[tuple(key)] += number

    def lines(self):
        """A table for each kind of network, with the columns that have something to say."""
        for network in NETWORKS:
            rows = sorted({protocol for kind, protocol, _ in self._numbers if kind == network})
            if rows:
                yield from self._table(network, rows)
        yield f"{self.total():,} schedules in all"

    def _table(self, network, rows):
        of_faults = (NONE, *FAULTS, SEVERAL)
        said = {column for kind, _, column in self._numbers if kind == network}
        found = {c for c in said if any(self._numbers[network, row, c] for row in rows)}
        columns = [ALL, FAILED, EVERY_WAY, DELIVERIES, VIOLATIONS]
        columns += (column for column in of_faults if column in found)
        sums = [sum(self._numbers[network, row, column] for row in rows) for column in columns]
        texts = [[network, *columns]]
        for row in rows:
            texts.append([row, *(f"{self._numbers[network, row, c]:,}" for c in columns)])
        texts.append(["all", *(f"{number:,}" for number in sums)])
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for first, *others in texts:
            cells = (text.rjust(width) for text, width in zip(others, widths[1:], strict=True))
            yield "  ".join((first.ljust(widths[0]), *cells))
        yield ""
