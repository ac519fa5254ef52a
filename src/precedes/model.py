"""Definitions that the whole package shares: event kinds, limits, units."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress = Callable[[float], None]  # called with the completed share


def part_of(progress: Progress | None, low: float, high: float) -> Progress | None:
    """Return the progress of a part of the work, which takes it from ``low`` to ``high``."""
    return None if progress is None else lambda share: progress(low + (high - low) * share)


NANOSECONDS_PER_MS: Final = 1_000_000
NANOSECONDS_PER_S: Final = 1_000_000_000

# A run keeps a few arrays of nodes x nodes int32; at 65,536 nodes one of them takes 17 GB, far
# past the machines this is for. The event queue packs a node into 24 bits.
NODES_MAX: Final = 65_536

# Simulated time is int64 nanoseconds; a year leaves room for every delay added to it.
TIME_NS_MAX: Final = 365 * 24 * 3600 * NANOSECONDS_PER_S

# Nothing that a scenario gives in milliseconds is longer: 12 days, far from the end of time.
DELAY_MS_MAX: Final = 1e9


class Events(NamedTuple):
    """Events of a run, a column each, in order of time: what the writer of a trace takes."""

    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    packet: NDArray[np.int64]  # -1: none

    @classmethod
    def of(cls, rows: NDArray[np.int64]) -> Events:
        """A copy of events that are a row each, with the columns in this order."""
        types = ("int64", "int32", "int8", "int32", "int32", "int64")
        return cls._make(rows[:, at].astype(kind) for at, kind in enumerate(types))


class EventKind(enum.IntEnum):
    """Kind of event at a node. The order is the trace format's: only ever append."""

    BROADCAST = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    CRASH = 4
    DISCARD = 5
    COMPLETE = 6
    TAG = 7
    JOIN = 8
    LEAVE = 9


def printable(text: str) -> str:
    """Text from others in one line for a terminal: control characters are escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
