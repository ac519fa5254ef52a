"""Components of a Dynamic Clock Set: Add, Activate, Deactivate, Remove, and generations.

Source: paper 002, section III, with these rules in place of printed ones that block or err:

- a component is reactivated when a message that hits it comes, also if the counters of the
  message are covered: what the message adds is not known to everybody;
- only components that both have are compared;
- a message that carries a newer generation of a component says that the older one was removed by
  all: it is removed here too. An older one says nothing here and is not compared.
"""

from __future__ import annotations

from precedes import clocks, compiled
from precedes.protocols import set_hash
from precedes.protocols import suspects as waiting
from precedes.protocols.contract import Host, now_ns
from precedes.protocols.dcs_state import (
    ACTIVE,
    CARRIED,
    CARRIES,
    CHANGED_NS,
    DOUBT,
    ENTRIES,
    GENERATION,
    GENERATIONS,
    HASH,
    HITS,
    INCREMENTS,
    MOST,
    SIZE,
    SPREAD,
    State,
)
from precedes.protocols.suspects import NONE


@compiled.function()
def common(state: State, here: int, slot: int) -> int:
    """How many components of the message, from the first on, are those of this process."""
    carries = state.stamp[slot, CARRIES]
    for c in range(carries):
        if state.part[here, c, GENERATION] != state.stamp[slot, GENERATIONS + c]:
            return c
    return carries


@compiled.function()
def lacks(state: State, here: int, slot: int) -> int:
    """An entry of a common component that has not reached what the message needs, or NONE."""
    end = common(state, here, slot) * state.setting[ENTRIES]
    clock = state.clock[here][:end]
    need = state.need[slot][:end]
    return NONE if clocks.covers(clock, need) else clocks.first_missing(clock, need)


@compiled.function()
def adapt(state: State, here: int, slot: int, host: Host) -> None:
    """Have the components of a message that has come (paper 002, checkExpand)."""
    carries = state.stamp[slot, CARRIES]
    if carries > state.word[here, ACTIVE] or common(state, here, slot) < carries:
        _adapt(state, here, slot, host)


@compiled.function(inline=False)
def _adapt(state: State, here: int, slot: int, host: Host) -> None:
    for c in range(state.stamp[slot, CARRIES]):
        newer = state.stamp[slot, GENERATIONS + c]
        if newer > state.part[here, c, GENERATION]:
            remove_from(state, here, c)
            state.part[here, c, GENERATION] = newer
    shared = common(state, here, slot)
    if shared > state.word[here, SIZE]:
        activate(state, here, shared, host)
        return
    for c in range(shared - 1, state.word[here, ACTIVE] - 1, -1):
        if _is_news(state, here, slot, c):
            activate(state, here, c + 1, host)
            return


@compiled.function()
def _is_news(state: State, here: int, slot: int, c: int) -> bool:
    """Whether the message hits an inactive component, or carries more of it than is here."""
    for s in range(state.setting[SPREAD]):
        if state.stamp[slot, INCREMENTS + s] == c:
            return True
    first = c * state.setting[ENTRIES]
    end = first + state.setting[ENTRIES]
    return not clocks.covers(state.clock[here][first:end], state.need[slot][first:end])


@compiled.function(inline=False)
def activate(state: State, here: int, end: int, host: Host) -> None:
    """Activate() and Add(): the first ``end`` components are there and active.

    What is added is 0: so it was at the start, and so ``remove_from`` leaves it.
    """
    word = state.word[here]
    if end > word[ACTIVE]:
        word[ACTIVE] = end
        word[CHANGED_NS] = now_ns(host)
        # Nobody agreed to remove what was in use: what is under way about it comes to nothing.
        word[DOUBT] = max(word[DOUBT], end)
    word[SIZE] = max(word[SIZE], end)


@compiled.function(inline=False)
def deactivate_last(state: State, here: int, host: Host) -> None:
    """Deactivate(): the last active component stays behind, with what everybody has of it."""
    word = state.word[here]
    word[ACTIVE] -= 1
    word[CHANGED_NS] = now_ns(host)
    if state.base.shape[1] > 0:
        first = word[ACTIVE] * state.setting[ENTRIES]
        for x in range(first, first + state.setting[ENTRIES]):
            state.base[here, x] = state.clock[here, x]


@compiled.function(inline=False)
def remove_from(state: State, here: int, first: int) -> None:
    """Remove(): this component and those after it, as if they had never been."""
    word = state.word[here]
    size = word[SIZE]
    if first >= size:
        return
    for c in range(first, size):
        state.part[here, c, HASH] = state.part[here, c, HITS] = 0
        state.part[here, c, GENERATION] += 1
        # A message that carried them carried those before them too.
        carried = set_hash.plus(state.part[here, first, CARRIED], state.part[here, c + 1, CARRIED])
        state.part[here, first, CARRIED] = carried
        state.part[here, c + 1, CARRIED] = 0
    for x in range(first * state.setting[ENTRIES], size * state.setting[ENTRIES]):
        state.clock[here, x] = 0
        if state.base.shape[1] > 0:
            state.base[here, x] = 0
    word[SIZE] = first
    word[ACTIVE] = min(word[ACTIVE], first)
    word[DOUBT] = state.setting[MOST]
    # What waits may wait for an entry that is gone: have it looked at again.
    row = state.held.ends[here, waiting.BEGIN]
    while row != NONE:
        state.held.row[row, waiting.ENTRY] = state.held.row[row, waiting.VALUE] = 0
        row = state.held.row[row, waiting.LINK]
