"""Confidence intervals: of means by Student's t, for any degrees of freedom, and of shares."""

from __future__ import annotations

import functools
import math
from typing import Final

# Beyond this number of degrees the finite sums give way to a series in 1 / degrees, whose first
# neglected term is below 1e-9 there.
SUMMED_MAX: Final = 100
NORMAL: Final = 1.959963984540054  # the quantile of the normal distribution


@functools.cache
def student_t(degrees: int) -> float:
    """The t that 95 % of Student's distribution lies within, on both sides.

    Right to nine digits for every number of degrees from 1 on.
    """
    if degrees > SUMMED_MAX:
        return _expanded(degrees)
    low, high = 0.0, 13.0
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _within(middle, degrees) < 0.95:
            low = middle
        else:
            high = middle
    return high


def _expanded(degrees: int) -> float:
    """The quantile by its distance from the normal one (Abramowitz and Stegun, 26.7.5)."""
    z = NORMAL
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


def _within(t: float, degrees: int) -> float:
    """P(-t < T < t), by the finite sums for whole degrees of freedom."""
    angle = math.atan2(t, math.sqrt(degrees))
    cosine2 = math.cos(angle) ** 2
    odd = degrees % 2 == 1
    term = total = math.cos(angle) if odd else 1.0
    if degrees == 1:
        return 2 * angle / math.pi
    for k in range(2 if odd else 1, degrees - 1, 2):
        term *= cosine2 * k / (k + 1)
        total += term
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if odd else series


def wilson(count: float, total: float) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927): it stays within 0 and 1, also with none seen."""
    if total <= 0:
        return 0.0, 1.0
    share, z2 = count / total, NORMAL * NORMAL
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = NORMAL / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    low = 0.0 if count == 0 else max(middle - half, 0.0)
    return low, 1.0 if count == total else min(middle + half, 1.0)
