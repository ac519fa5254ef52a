"""Where the algorithm of ``vcube`` meets crashes: room, arrivals, reports, what is discarded.

The method is described in ``vcube_recovery``.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.model import EventKind
from precedes.protocols import vcube_recovery as recover
from precedes.protocols import vcube_waiting as wait
from precedes.protocols.contract import (
    DONE,
    FULL,
    Host,
    Int32s,
    Int64s,
    drop,
    note,
    sequence_of,
    source_of,
    tag_of,
    value_of,
)
from precedes.protocols.vcube_recovery import ENDED, Recovery
from precedes.protocols.vcube_state import (
    DIMENSION,
    ENTRIES,
    FIRST_ENTRY,
    NODES,
    STABLE,
    TOLERANT,
    WAITING,
    Arrays,
    has_effects,
)
from precedes.protocols.vcube_waiting import CLOCK_WORDS, NONE, RECEIVED, Waiting

DISCARD: Final = int(EventKind.DISCARD)


@compiled.function(inline=False)
def has_room(state: Arrays, here: int, inbox: Int64s, count: int, host: Host) -> bool:
    """Whether a packet can be handled whatever it leads to."""
    d = state.setting[DIMENSION]
    waiting = state.process[here, WAITING] + count
    words = waiting * (2 * d + 9) + count * (5 * d + 12) + 3 * d
    recovery = state.recovery
    if state.setting[TOLERANT] != 0:
        kept = recovery.own[here, recover.KEPT] + count
        words += 2 * kept
        if tag_of(inbox, 0) >= ENDED or recovery.own[here, recover.KNOWN] != 0:
            relayed = count
            for i in range(count):
                if tag_of(inbox, i) == ENDED:
                    crashed = value_of(inbox, i) & recover.NODE_MASK
                    relayed += recover.length(recovery, here, crashed)
            crashes = recovery.own[here, recover.KNOWN] + count
            words += state.setting[NODES] * (8 + 2 * relayed + 3 * count + 2 * crashes)
            words += 2 * kept * count
        if not recover.has_room(recovery, count):
            return False
    return has_effects(host, words) and wait.has_room(state.waiting, count)


@compiled.function(inline=False)
def prepare(state: Arrays, here: int, slot: int, source: int, host: Host) -> None:
    """Keep a message, and learn from its stamp what others have and keep."""
    recovery = state.recovery
    node = state.hosted[here]
    stamp = state.stamp[slot]
    recover.remember(recovery, here, source, slot, host)
    if recovery.crashed[here, source] != 0:
        recover.relay_latest(recovery, here, node, source, host)
        return
    recover.forget(recovery, here, source, int(stamp[STABLE]), host)
    for i in range(stamp[ENTRIES]):
        if stamp[FIRST_ENTRY + 2 * i] == node:
            has = int(stamp[FIRST_ENTRY + 2 * i + 1])
            recover.confirm(recovery, here, node, source, has, host)
    received = state.clock[CLOCK_WORDS * (here * state.setting[NODES] + source) + RECEIVED]
    recover.acknowledge(recovery, here, source, received, state.stamped[here, source], host)


@compiled.function(inline=False)
def hear(state: Arrays, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    """The items of a packet about crashes."""
    node = state.hosted[here]
    own = int(state.clock[CLOCK_WORDS * (here * state.setting[NODES] + node) + RECEIVED])
    for i in range(count):
        tag, value = tag_of(inbox, i), value_of(inbox, i)
        if tag >= ENDED:
            recover.hear(state.recovery, here, node, sender, tag, value, own, host)
    _go_on(state, here, host)


@compiled.function()
def learn_crash(state: Arrays, here: int, crashed: int, host: Host) -> int:
    """The failure detector speaks."""
    if state.setting[TOLERANT] == 0 or state.recovery.crashed[here, crashed] != 0:
        return DONE
    recovery = state.recovery
    mine = recovery.own[here]
    relayed = recover.length(recovery, here, crashed)
    words = state.setting[NODES] * (8 + 2 * relayed + 2 * mine[recover.KNOWN])
    words += 2 * mine[recover.KEPT] + 5 * state.process[here, WAITING]
    if not has_effects(host, words):
        return FULL
    node = state.hosted[here]
    own = int(state.clock[CLOCK_WORDS * (here * state.setting[NODES] + node) + RECEIVED])
    recover.learn(recovery, here, node, crashed, own, host)
    _go_on(state, here, host)
    return DONE


@compiled.function(inline=False)
def _go_on(state: Arrays, here: int, host: Host) -> None:
    """End with crashes, broadcast over trees again and discard what is dead, when it is time."""
    recovery = state.recovery
    node = state.hosted[here]
    recover.announce(recovery, here, node, state.clock, host)
    if recovery.own[here, recover.KNOWN] != 0 and recover.is_calm(recovery, here, node):
        recovery.own[here, recover.DIRECT_FROM] = 0
        state.process[here, WAITING] -= _discard_dead(
            recovery, here, state.waiting, state.clock, state.stamp, host
        )


@compiled.function(inline=False)
def _discard_dead(
    recovery: Recovery, here: int, waiting: Waiting, clock: Int32s, stamp: Int32s, host: Host
) -> int:
    """Discard what waits for a message that no live node has; how many those were."""
    nodes = recovery.crashed.shape[1]
    for i in range(recovery.own[here, recover.KNOWN]):
        place = here * nodes + recovery.order[here, i]
        received = clock[wait.CLOCK_WORDS * place + wait.RECEIVED]
        limit = recover.WORDS * place + recover.LIMIT
        recovery.word[limit] = min(recovery.word[limit], received)
    count = 0
    found = True
    while found:
        found = False
        for source in range(nodes):
            for head in (wait.FORWARDING, wait.DELIVERING):
                at = wait.CLOCK_WORDS * (here * nodes + source) + head
                more = _discard_from(recovery, here, waiting, clock, at, stamp, host)
                count += more
                found = found or more > 0
    recovery.own[here, recover.DISCARDED] += count
    return count


@compiled.function()
def _discard_from(
    recovery: Recovery,
    here: int,
    waiting: Waiting,
    clock: Int32s,
    head: int,
    stamp: Int32s,
    host: Host,
) -> int:
    """Discard the dead messages of one list."""
    nodes = recovery.crashed.shape[1]
    count = 0
    before = NONE
    row = clock[head]
    while row != NONE:
        following = waiting.row[row + wait.LINK]
        slot = waiting.row[row + wait.SLOT]
        if _is_dead(recovery, here, stamp[slot], source_of(host, slot), sequence_of(host, slot)):
            limit = recover.WORDS * (here * nodes + source_of(host, slot)) + recover.LIMIT
            recovery.word[limit] = min(recovery.word[limit], sequence_of(host, slot) - 1)
            wait.unlink(waiting, clock, head, before, row)
            wait.free(waiting, row)
            note(host, DISCARD, slot)
            drop(host, slot)
            count += 1
        else:
            before = row
        row = following
    return count


@compiled.function()
def _is_dead(recovery: Recovery, here: int, stamp: Int32s, source: int, sequence: int) -> bool:
    """Whether a message, or something it needs, died with its source."""
    at = here * recovery.crashed.shape[1]
    if recovery.crashed[here, source] == 0:
        return False
    if sequence > recovery.word[recover.WORDS * (at + source) + recover.LIMIT]:
        return True
    for i in range(stamp[0]):
        entry = stamp[2 + 2 * i]
        if stamp[3 + 2 * i] > recovery.word[recover.WORDS * (at + entry) + recover.LIMIT]:
            return True
    return False
