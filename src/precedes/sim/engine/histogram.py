"""A histogram of latencies: bins of floating-point numbers, exact to a share of themselves."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.model import NANOSECONDS_PER_MS

SHIFT: Final = 45  # keeps 7 bits of a double's fraction: steps of 0.8 % or finer
BASE: Final = 1023 << 7
BINS: Final = 64 << 7


@compiled.function()
def latency_bin(latency_ns: int) -> int:
    """The histogram bin of a latency: exponent and leading bits of its floating-point form."""
    bits = np.float64(latency_ns + 1).view(np.int64)
    return int(bits >> SHIFT) - BASE


def bin_start_ns(bin_number: int) -> float:
    """The smallest latency of a bin."""
    bits = np.int64((bin_number + BASE) << SHIFT)
    return float(bits.view(np.float64)) - 1.0


def percentile_ms(histogram: NDArray[np.int64], share: float) -> float | None:
    """The latency that this share of deliveries does not exceed, interpolated within its bin."""
    total = int(histogram.sum())
    if total == 0:
        return None
    below = np.cumsum(histogram)
    rank = share * total
    place = int(np.searchsorted(below, rank))
    before = int(below[place - 1]) if place else 0
    inside = (rank - before) / int(histogram[place])
    start_ns, end_ns = bin_start_ns(place), bin_start_ns(place + 1)
    return (start_ns + inside * (end_ns - start_ns)) / NANOSECONDS_PER_MS
