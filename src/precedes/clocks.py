"""Pure functions over clocks: arrays of counters, compared entry by entry."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

Counts = NDArray[np.int32]

# A clock's row is padded with zeros to a multiple of this many entries, which the compiler
# compares without a scalar remainder: a clock of 50 entries in 5.5 ns instead of 8.6.
PADDING: Final = 32


def padded(entries: int) -> int:
    """The length of a row that holds this many entries."""
    return -(-entries // PADDING) * PADDING


@compiled.function()
def covers(clock: Counts, need: Counts) -> bool:
    """Whether every entry of the clock has reached what is needed.

    >>> covers(np.array([2, 1], np.int32), np.array([2, 0], np.int32))
    True
    >>> covers(np.array([2, 1], np.int32), np.array([2, 2], np.int32))
    False
    """
    # One branch-free pass in 32-bit lanes; an early exit would be slower for hundreds of entries.
    shortfall = np.int32(0)
    for x in range(need.size):
        shortfall = min(shortfall, np.int32(clock[x] - need[x]))
    return bool(shortfall >= 0)


@compiled.function()
def first_missing(clock: Counts, need: Counts) -> int:
    """The first entry that has not reached what is needed, or -1."""
    for x in range(need.size):
        if clock[x] < need[x]:
            return x
    return -1


@compiled.function()
def copy(source: Counts, target: Counts) -> None:
    """Copy a clock; assignment of slices would allocate views in compiled code."""
    for x in range(source.size):
        target[x] = source[x]
