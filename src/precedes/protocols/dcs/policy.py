"""Number of components for a load, and choice of those that a process increments.

The paper leaves open when a clock grows or shrinks. Here a process estimates the load from its own
deliveries, and the formula of ``parts.sizing`` gives the load that a number of components is
enough for, given the share of deliveries that may be out of order. A process checks the
estimate once an interval, at the first event after its end; without events it does nothing.

- The estimate is an exponentially weighted mean: an interval counts for one eighth.
- Above the limit of its width w a process widens, below 0.92 of the limit of w - 1 it narrows.
- Within a width, every component is equally likely to be among those that the process increments
  (S_incr). When the width changes, no more of them move than necessary: leaving a component means
  choosing another one, which needs no consent, since S_incr travels with every message.
- Processes rebalance. Once in a while each checks how often the components are hit;
  if one of its own has 1.3 times its share, it moves to another one with probability one half.

Integers throughout: compiled and interpreted code agree to the last bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import Host

from .components import activate, remove
from .state import ClockSet, Load, interval_of

SHIFT: Final = 3  # of INTERVALS
FULL_WEIGHT: Final = 1 << 20
FORGOTTEN: Final = 128  # intervals without an event after which nothing is left of an estimate
NARROW_PERCENT: Final = 92
CROWDED_PERCENT: Final = 130


@compiled.function()
def update_estimate(dcs: ClockSet, here: int, host: Host) -> None:
    """Update the estimate, the width and the balance, if an interval is over."""
    if host.now_ns() >= dcs.load.interval_end_ns[here]:
        _update_estimate(dcs, here, host)


@compiled.function(inline=False)
def _update_estimate(dcs: ClockSet, here: int, host: Host) -> None:
    load = dcs.load
    now = host.now_ns()
    step = dcs.interval_ns
    passed = (now - load.interval_end_ns[here]) // step + 1
    load.interval_end_ns[here] += passed * step
    interval = interval_of(now)
    dcs.series.active_sum[interval] += dcs.components.active[here] * passed
    dcs.series.active_count[interval] += passed
    _narrow_or_widen(dcs, here, _estimate(load, here, passed, step))
    if dcs.balance_ns > 0 and now >= load.balance_end_ns[here]:
        _balance(dcs, here, host)
        into = (now - dcs.balance_phase_ns) % dcs.balance_ns
        load.balance_end_ns[here] = now - into + dcs.balance_ns


@compiled.function()
def _estimate(load: Load, here: int, passed: int, step: int) -> int:
    """The load after this many intervals, in 1/1000 per second; all but the first had no event."""
    sample = load.deliveries[here] * 1_000_000_000_000 // step
    load.deliveries[here] = 0
    load.rate[here] += (sample - load.rate[here]) >> SHIFT
    load.weight[here] += (FULL_WEIGHT - load.weight[here]) >> SHIFT
    if passed > FORGOTTEN:
        load.rate[here] = 0
        load.weight[here] = FULL_WEIGHT
    else:
        for _ in range(passed - 1):
            load.rate[here] -= load.rate[here] >> SHIFT
            load.weight[here] += (FULL_WEIGHT - load.weight[here]) >> SHIFT
    return load.rate[here] * FULL_WEIGHT // load.weight[here]


@compiled.function()
def _narrow_or_widen(dcs: ClockSet, here: int, rate: int) -> None:
    width = dcs.load.width[here]
    while width < dcs.most and rate > dcs.limits[width]:
        width += 1
    while width > dcs.least and 100 * rate < NARROW_PERCENT * dcs.limits[width - 1]:
        width -= 1
    dcs.load.width[here] = width


@compiled.function(inline=False)
def _balance(dcs: ClockSet, here: int, host: Host) -> None:
    """Leave components that are hit more often than others, then reset the counts."""
    over = dcs.load.over[here]
    total = np.int64(0)
    for c in range(over):
        total += dcs.part.hits[here, c]
    if over > 1 and host.now_ns() >= dcs.round.blocked_until_ns[here]:
        for s in range(dcs.spread):
            c = dcs.S_incr[here, s]
            hits = over * dcs.part.hits[here, c]
            crowded = 100 * hits > CROWDED_PERCENT * total
            # Three standard deviations: few hits differ by chance.
            crowded = crowded and (hits - total) * (hits - total) > 9 * total * over
            if crowded and host.random_bits() & np.uint64(1 << 40) != 0:
                other = draw(host, over - 1)
                dcs.S_incr[here, s] = other + (other >= c)
    for c in range(dcs.most):
        dcs.part.hits[here, c] = 0


@compiled.function()
def draw(host: Host, count: int) -> int:
    """A random number below ``count``."""
    # The upper bits: the lower ones of this generator are less random.
    return int(np.int64(host.random_bits() >> np.uint64(33)) % count)


@compiled.function(inline=False)
def choose(dcs: ClockSet, here: int, end: int, host: Host) -> None:
    """Choose S_incr among the first ``end`` components, all equally likely."""
    over = dcs.load.over[here]
    for s in range(dcs.spread):
        if end > over:
            c = draw(host, end)
            if c >= over:
                dcs.S_incr[here, s] = c
        elif dcs.S_incr[here, s] >= end:
            dcs.S_incr[here, s] = draw(host, end)
    dcs.load.over[here] = end


@compiled.function(inline=False)
def before_broadcast(dcs: ClockSet, here: int, host: Host) -> None:
    """Expand or drain as the load requires; while a round blocks, stay below its components."""
    components, round = dcs.components, dcs.round
    end = dcs.load.width[here]
    if host.now_ns() < round.blocked_until_ns[here]:
        end = min(end, round.ceiling[here], components.active[here])
    elif end > round.doubt[here] and components.size[here] > round.doubt[here]:
        # Others may have removed these, or may be about to. Once no decision can arrive any more,
        # the next generation is used, never the one in doubt.
        if host.now_ns() < round.doubt_until_ns[here]:
            end = round.doubt[here]
        else:
            remove(dcs, here, round.doubt[here])
    if end > components.active[here]:
        activate(dcs, here, end, host)
    if dcs.redraw != 0 and host.now_ns() >= round.blocked_until_ns[here]:
        # As published, only a round has S_incr leave active components.
        end = max(end, min(dcs.load.over[here], components.active[here]))
    if end != dcs.load.over[here]:
        choose(dcs, here, end, host)
