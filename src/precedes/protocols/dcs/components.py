"""Components of a Dynamic Clock Set: Add, Activate, Deactivate, Remove, and generations.

Source: Wilhelm et al. 2023, section III, with these rules in place of published ones that block or
err:

- a component is reactivated when a message that hits it arrives, also if the counters of the
  message are covered: not all processes know the increments of the message;
- only components that both have are compared;
- a message with a newer generation of a component proves that all have removed the older
  one: it is removed here too. An older one proves nothing and is not compared. Generations are
  counted modulo 2^31, and the half of them that follows one is newer.
"""

from __future__ import annotations

from precedes import compiled
from precedes.contract import Host, Int32s
from precedes.parts import clocks
from precedes.parts.hash_check import set_hash
from precedes.parts.pool import NONE

from .state import CARRIES, GENERATION_MASK, GENERATIONS, INCREMENTS, ClockSet


@compiled.function()
def is_newer(one: int, other: int) -> bool:
    """Return whether a generation of a component comes after another one."""
    return 0 < (one - other) & GENERATION_MASK <= GENERATION_MASK // 2


@compiled.function()
def common(dcs: ClockSet, stamp: Int32s, here: int, slot: int) -> int:
    """The number of components of the message, from the first on, that this process shares."""
    carries = stamp[slot, CARRIES]
    for c in range(carries):
        if dcs.part.generation[here, c] != stamp[slot, GENERATIONS + c]:
            return c
    return carries


@compiled.function()
def lacks(dcs: ClockSet, need: Int32s, stamp: Int32s, here: int, slot: int) -> int:
    """An entry of a common component that has not reached what the message needs, or NONE."""
    end = common(dcs, stamp, here, slot) * dcs.entries
    clock = dcs.clock[here][:end]
    needed = need[slot][:end]
    return NONE if clocks.covers(clock, needed) else clocks.first_missing(clock, needed)


@compiled.function()
def check_expand(
    dcs: ClockSet, need: Int32s, stamp: Int32s, here: int, slot: int, host: Host
) -> None:
    """checkExpand: activate or add the components of a message that has arrived."""
    carries = stamp[slot, CARRIES]
    if carries > dcs.components.active[here] or common(dcs, stamp, here, slot) < carries:
        _check_expand(dcs, need, stamp, here, slot, host)


@compiled.function(inline=False)
def _check_expand(
    dcs: ClockSet, need: Int32s, stamp: Int32s, here: int, slot: int, host: Host
) -> None:
    for c in range(stamp[slot, CARRIES]):
        newer = stamp[slot, GENERATIONS + c]
        if is_newer(newer, dcs.part.generation[here, c]):
            remove(dcs, here, c)
            dcs.part.generation[here, c] = newer
    shared = common(dcs, stamp, here, slot)
    if shared > dcs.components.size[here]:
        activate(dcs, here, shared, host)
        return
    for c in range(shared - 1, dcs.components.active[here] - 1, -1):
        if _is_news(dcs, need, stamp, here, slot, c):
            activate(dcs, here, c + 1, host)
            return


@compiled.function()
def _is_news(dcs: ClockSet, need: Int32s, stamp: Int32s, here: int, slot: int, c: int) -> bool:
    """Return whether the message hits an inactive component, or carries more of it than is here."""
    for s in range(dcs.spread):
        if stamp[slot, INCREMENTS + s] == c:
            return True
    first = c * dcs.entries
    end = first + dcs.entries
    return not clocks.covers(dcs.clock[here][first:end], need[slot][first:end])


@compiled.function(inline=False)
def activate(dcs: ClockSet, here: int, end: int, host: Host) -> None:
    """Activate() and Add(): make the first ``end`` components active.

    Added components are 0: as at the start, and as ``remove`` leaves them.
    """
    components, round = dcs.components, dcs.round
    if end > components.active[here]:
        components.active[here] = end
        components.changed_ns[here] = host.now_ns()
        # No process consents to removing a component in use: such a round fails.
        round.doubt[here] = max(round.doubt[here], end)
    components.size[here] = max(components.size[here], end)


@compiled.function(inline=False)
def deactivate(dcs: ClockSet, here: int, host: Host) -> None:
    """Deactivate(): deactivate the last active component, and store its counters as the base."""
    components = dcs.components
    components.active[here] -= 1
    components.changed_ns[here] = host.now_ns()
    if dcs.base.shape[1] > 0:
        first = components.active[here] * dcs.entries
        for x in range(first, first + dcs.entries):
            dcs.base[here, x] = dcs.clock[here, x]


@compiled.function(inline=False)
def remove(dcs: ClockSet, here: int, first: int) -> None:
    """Remove(): delete this component and those after it."""
    components, part = dcs.components, dcs.part
    size = components.size[here]
    if first >= size:
        return
    for c in range(first, size):
        part.hash[here, c] = part.hits[here, c] = 0
        part.generation[here, c] = (part.generation[here, c] + 1) & GENERATION_MASK
        # A message that carried them carried those before them too.
        carried = set_hash.plus(part.carried[here, first], part.carried[here, c + 1])
        part.carried[here, first] = carried
        part.carried[here, c + 1] = 0
    for x in range(first * dcs.entries, size * dcs.entries):
        dcs.clock[here, x] = 0
        if dcs.base.shape[1] > 0:
            dcs.base[here, x] = 0
    components.size[here] = first
    components.active[here] = min(components.active[here], first)
    dcs.round.doubt[here] = dcs.most
    components.stale[here] = 1
