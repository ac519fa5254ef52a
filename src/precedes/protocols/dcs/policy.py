"""How many components a load asks for, and which of them a process increments.

The paper leaves open when a clock grows or shrinks. Here a process estimates the load from its own
deliveries, and the formula of ``parts.sizing`` says what load a number of components is
enough for, given the share of deliveries that may be out of order. A process looks at the
estimate once an interval, at the first event after its end; nothing is done while nothing comes.

- The estimate is an exponentially weighted mean: an interval counts for one eighth.
- Above the limit of its width w a process widens, below 0.92 of the limit of w - 1 it narrows.
- Of a width, every component is equally likely to be among those that the process increments
  (S_incr). When the width changes, no more of them move than has to: to leave a component is to
  choose another one, which needs nobody's consent, since S_incr travels with every message.
- Processes change their habits. Once in a while each looks at how often the components are hit;
  if one of its own has 1.3 times its share, it moves to another one with probability one half.

Integers throughout: compiled and interpreted code agree to the last bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import Host, Int64s, now_ns, random_bits

from .components import activate, remove
from .state import (
    ACTIVE,
    ACTIVE_COUNT,
    ACTIVE_SUM,
    BALANCE_END_NS,
    BALANCE_NS,
    BLOCKED_UNTIL_NS,
    CEILING,
    COMPONENTS,
    COUNT,
    DOUBT,
    DOUBT_UNTIL_NS,
    HITS,
    INCREMENT,
    INTERVAL_END_NS,
    INTERVAL_NS,
    MOST,
    OVER,
    RATE,
    SIZE,
    SPREAD,
    WEIGHT,
    WIDTH,
    ClockSet,
    series_row,
)

SHIFT: Final = 3  # of INTERVALS
FULL_WEIGHT: Final = 1 << 20
FORGOTTEN: Final = 128  # intervals without an event after which nothing is left of an estimate
NARROW_PERCENT: Final = 92
CROWDED_PERCENT: Final = 130


@compiled.function()
def update_estimate(dcs: ClockSet, here: int, host: Host) -> None:
    """Bring the estimate, the width and the balance up to date, if an interval is over."""
    if now_ns(host) >= dcs.word[here, INTERVAL_END_NS]:
        _update_estimate(dcs, here, host)


@compiled.function(inline=False)
def _update_estimate(dcs: ClockSet, here: int, host: Host) -> None:
    word = dcs.word[here]
    now = now_ns(host)
    step = dcs.settings[INTERVAL_NS]
    passed = (now - word[INTERVAL_END_NS]) // step + 1
    word[INTERVAL_END_NS] += passed * step
    row = series_row(now)
    dcs.series[row + ACTIVE_SUM] += word[ACTIVE] * passed
    dcs.series[row + ACTIVE_COUNT] += passed
    _narrow_or_widen(dcs, here, _estimate(word, passed, step))
    if dcs.settings[BALANCE_NS] > 0 and now >= word[BALANCE_END_NS]:
        _balance(dcs, here, host)
        word[BALANCE_END_NS] = now - now % dcs.settings[BALANCE_NS] + dcs.settings[BALANCE_NS]


@compiled.function()
def _estimate(word: Int64s, passed: int, step: int) -> int:
    """The load after so many intervals, in 1/1000 per second; all but the first had no event."""
    sample = word[COUNT] * 1_000_000_000_000 // step
    word[COUNT] = 0
    word[RATE] += (sample - word[RATE]) >> SHIFT
    word[WEIGHT] += (FULL_WEIGHT - word[WEIGHT]) >> SHIFT
    if passed > FORGOTTEN:
        word[RATE] = 0
        word[WEIGHT] = FULL_WEIGHT
    else:
        for _ in range(passed - 1):
            word[RATE] -= word[RATE] >> SHIFT
            word[WEIGHT] += (FULL_WEIGHT - word[WEIGHT]) >> SHIFT
    return word[RATE] * FULL_WEIGHT // word[WEIGHT]


@compiled.function()
def _narrow_or_widen(dcs: ClockSet, here: int, rate: int) -> None:
    width = dcs.word[here, WIDTH]
    while width < dcs.settings[MOST] and rate > dcs.limits[width]:
        width += 1
    while width > dcs.settings[COMPONENTS] and (
        100 * rate < NARROW_PERCENT * dcs.limits[width - 1]
    ):
        width -= 1
    dcs.word[here, WIDTH] = width


@compiled.function(inline=False)
def _balance(dcs: ClockSet, here: int, host: Host) -> None:
    """Leave components that are hit more often than others, then count anew."""
    word = dcs.word[here]
    over = word[OVER]
    total = np.int64(0)
    for c in range(over):
        total += dcs.part[here, c, HITS]
    if over > 1 and now_ns(host) >= word[BLOCKED_UNTIL_NS]:
        for s in range(dcs.settings[SPREAD]):
            c = word[INCREMENT + s]
            hits = over * dcs.part[here, c, HITS]
            crowded = 100 * hits > CROWDED_PERCENT * total
            # Three standard deviations: few hits differ by chance.
            crowded = crowded and (hits - total) * (hits - total) > 9 * total * over
            if crowded and random_bits(host) & np.uint64(1 << 40) != 0:
                other = draw(host, over - 1)
                word[INCREMENT + s] = other + (other >= c)
    for c in range(dcs.settings[MOST]):
        dcs.part[here, c, HITS] = 0


@compiled.function()
def draw(host: Host, count: int) -> int:
    """A random number below ``count``."""
    # The upper bits: the lower ones of this generator are less random.
    return int(np.int64(random_bits(host) >> np.uint64(33)) % count)


@compiled.function(inline=False)
def choose(dcs: ClockSet, here: int, end: int, host: Host) -> None:
    """Have S_incr among the first ``end`` components, all equally likely."""
    word = dcs.word[here]
    over = word[OVER]
    for s in range(dcs.settings[SPREAD]):
        if end > over:
            c = draw(host, end)
            if c >= over:
                word[INCREMENT + s] = c
        elif word[INCREMENT + s] >= end:
            word[INCREMENT + s] = draw(host, end)
    word[OVER] = end


@compiled.function(inline=False)
def before_broadcast(dcs: ClockSet, here: int, host: Host) -> None:
    """Expand or drain as the load asks for; while a round blocks, stay below its components."""
    word = dcs.word[here]
    end = word[WIDTH]
    if now_ns(host) < word[BLOCKED_UNTIL_NS]:
        end = min(end, word[CEILING], word[ACTIVE])
    elif end > word[DOUBT] and word[SIZE] > word[DOUBT]:
        # Others may have removed these, or may be about to. Once no decision can come any more,
        # the next generation is used, never the one in doubt.
        if now_ns(host) < word[DOUBT_UNTIL_NS]:
            end = word[DOUBT]
        else:
            remove(dcs, here, word[DOUBT])
    if end > word[ACTIVE]:
        activate(dcs, here, end, host)
    if end != word[OVER]:
        choose(dcs, here, end, host)
