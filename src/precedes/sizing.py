"""How often a probabilistic clock errs: a formula for the share of deliveries out of order."""

from __future__ import annotations

import math


def error_rate(
    *,
    rate: float,
    entries: int,
    per_process: int,
    nodes: int,
    delay_mean_ms: float = 100.0,
    delay_deviation_ms: float = 20.0,
) -> float:
    """The expected share of deliveries out of causal order.

    ``rate`` is broadcasts per second of the whole group, a Poisson process; delays are normal.
    A reception finds something of the message's past missing in two ways: the message was caused
    by one that is still on its way, or its sender had broadcast shortly before. It goes wrong if
    concurrent messages cover the entries of what is missing. The formula of paper 003 counts
    more of them as concurrent than are, and leaves out processes with the same entries.
    """
    mean_s, deviation_s = delay_mean_ms / 1000, delay_deviation_ms / 1000
    chain = deviation_s * math.sqrt(3)  # of one delay less the sum of two
    chained = rate * chain * _normal_loss(mean_s / chain)
    # 1 / sqrt(pi): the mean of the positive part of the difference of two standard normals.
    repeated = rate / nodes * deviation_s / math.sqrt(math.pi)
    # Of the messages broadcast within a delay, 0.73 are concurrent to a chain of two.
    return chained * _coverage(0.73 * rate * mean_s, entries, per_process) + repeated * _coverage(
        rate * mean_s, entries, per_process
    )


def _normal_loss(z: float) -> float:
    """The mean of the part of a standard normal above z."""
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return density - z * math.erfc(z / math.sqrt(2)) / 2


def _coverage(concurrent: float, entries: int, per_process: int) -> float:
    """The chance that so many concurrent messages hit all entries of one process."""
    one = 1 - math.exp(-per_process * concurrent / entries)
    alike = concurrent / math.comb(entries, per_process)
    return min(1.0, one**per_process + alike)
