"""What a node of ``vcube`` does about crashes: who has what, who must be sent what, what is dead.

de Araujo et al. 2018 leave node failures to future work; this is how they are handled here.

Crash model. Nodes stop for good, at any time, also between two packets of one broadcast. Links
deliver every packet exactly once, in any order, also those of a node that has crashed since. A
failure detector tells every correct node of every crash after some time, and never falsely.

Guarantee among the nodes that do not crash: a message of a correct source reaches everybody; of
a crashed source's messages all deliver the same ones, at least those that any of them delivered;
exactly once and in causal order. A message that needs another which died with its source is
discarded: dropped, counted, and noted in the trace. It holds up nothing else.

How. Every node keeps each message until its source says that everybody has it (*stable*). A
source knows that from the stamps of the others, or from acknowledgements of those who received
``WINDOW`` messages without broadcasting one. When a node learns of the crash of x, it

1. ignores all further packets from x, and leaves x out of its trees;
2. relays the messages of x that it keeps, now and when others arrive, to everybody, and waits
   until everybody has acknowledged them;
3. then tells everybody that it has *ended* with x, and how many of their messages it has. Who
   hears that learns of the crash too, and sends what is missing of its own messages directly;
4. sends its own broadcasts directly until all others have ended with every crash it knows of.
   Until then relays might still pass messages to the dead; afterwards nobody does.

At that moment the node also knows that no live node has, or will ever get, a message of a
crashed source that it lacks: each of them has shown it all that it had after it stopped to
listen to the dead. So gaps in what it has of crashed sources will never close.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import (
    DONE,
    FULL,
    Host,
    Int32s,
    Int64s,
    drop,
    note,
    open_packet,
    put,
    release,
    retain,
    send,
    sequence_of,
    source_of,
    tag_of,
    value_of,
)
from precedes.model import EventKind
from precedes.parts.pool import NONE, free_row, has_rows, take_row

from .state import (
    ACKNOWLEDGED,
    ANNOUNCED,
    AT_STABLE,
    CONFIRMED,
    DELIVERING,
    DIRECT,
    DIRECT_FROM,
    DISCARDED,
    ENDED,
    ENDS,
    ENTRIES,
    FIRST_ENTRY,
    FIRST_KEPT,
    FORWARDING,
    KEPT,
    KEPT_LINK,
    KEPT_SLOT,
    KNOWN,
    LAST_ACKNOWLEDGED,
    LAST_KEPT,
    LIMIT,
    NODE_BITS,
    NODE_MASK,
    NODES,
    OUTSTANDING,
    OWN_STABLE,
    RECEIVED,
    RELAY,
    RELAYED,
    STABLE,
    TOLERANT,
    UNACKNOWLEDGED,
    WAITING,
    Recovery,
    State,
    entry_of,
    has_effects,
    peer_of,
)
from .waiting import LINK, SLOT, end_waiting, unlink

ALL: Final = 1 << 31  # more messages than a source can have
DISCARD: Final = int(EventKind.DISCARD)
WINDOW: Final = 64  # messages of a source that a silent node takes before it acknowledges them


@compiled.function()
def can_remember(state: State, count: int) -> bool:
    """Whether that many more messages can be kept."""
    return has_rows(state.recovery.kept, count)


@compiled.function(inline=False)
def remember(recovery: Recovery, here: int, at: int, slot: int, host: Host) -> None:
    """Keep a message, behind the others of its source, whose words begin ``at`` this place."""
    kept, peer = recovery.kept.row, recovery.peer
    row = take_row(recovery.kept)
    recovery.own[here, KEPT] += 1
    kept[row + KEPT_SLOT] = slot
    kept[row + KEPT_LINK] = NONE
    if peer[at + FIRST_KEPT] == NONE:
        peer[at + FIRST_KEPT] = row
    else:
        kept[peer[at + LAST_KEPT] + KEPT_LINK] = row
    peer[at + LAST_KEPT] = row
    retain(host, slot)


@compiled.function(inline=False)
def remember_arrival(state: State, here: int, source: int, slot: int, host: Host) -> None:
    """Keep a message that has arrived, and learn from its stamp what others have and keep."""
    node = state.hosted[here]
    stamp = state.stamp[slot]
    at = peer_of(state, here, source)
    remember(state.recovery, here, at, slot, host)
    if state.recovery.crashed[here, source] != 0:
        _relay_latest(state, here, source, host)
        return
    _forget(state.recovery, here, at, int(stamp[STABLE]), host)
    for i in range(stamp[ENTRIES]):
        if stamp[FIRST_ENTRY + 2 * i] == node:
            _confirm(state, here, source, int(stamp[FIRST_ENTRY + 2 * i + 1]), host)
    received = state.clock[entry_of(state, here, source) + RECEIVED]
    _acknowledge(state, here, source, received, state.stamped[here, source], host)


@compiled.function(inline=False)
def _forget(recovery: Recovery, here: int, at: int, stable: int, host: Host) -> None:
    """Let go of a source's messages up to its stable one; its words begin ``at`` this place.

    They are taken from the front of the list: one that overtook others waits for them.
    """
    kept = recovery.kept.row
    row = int(recovery.peer[at + FIRST_KEPT])
    while row != NONE and sequence_of(host, kept[row + KEPT_SLOT]) <= stable:
        following = int(kept[row + KEPT_LINK])
        release(host, kept[row + KEPT_SLOT])
        free_row(recovery.kept, row)
        recovery.own[here, KEPT] -= 1
        row = following
    recovery.peer[at + FIRST_KEPT] = row


@compiled.function()
def _confirm(state: State, here: int, other: int, count: int, host: Host) -> None:
    """Another node is known to have so many of our messages."""
    recovery = state.recovery
    at = peer_of(state, here, other)
    before = recovery.peer[at + CONFIRMED]
    if count <= before:
        return
    recovery.peer[at + CONFIRMED] = count
    if before == recovery.own[here, OWN_STABLE]:
        recovery.own[here, AT_STABLE] -= 1
        if recovery.own[here, AT_STABLE] == 0:
            _find_stable(state, here, host)


@compiled.function(inline=False)
def _find_stable(state: State, here: int, host: Host) -> None:
    """How many of our messages everybody has who is not known to have crashed."""
    recovery = state.recovery
    node = state.hosted[here]
    least = ALL
    holders = 0
    for other in range(state.setting[NODES]):
        if other != node and recovery.crashed[here, other] == 0:
            confirmed = recovery.peer[peer_of(state, here, other) + CONFIRMED]
            if confirmed < least:
                least = int(confirmed)
                holders = 0
            if confirmed == least:
                holders += 1
    recovery.own[here, OWN_STABLE] = least
    recovery.own[here, AT_STABLE] = holders
    _forget(recovery, here, peer_of(state, here, node), least, host)


@compiled.function()
def _acknowledge(
    state: State, here: int, source: int, received: int, stamped: int, host: Host
) -> None:
    """Tell a source what we have of it, if no stamp of ours has for a long time."""
    at = peer_of(state, here, source) + LAST_ACKNOWLEDGED
    if received - max(state.recovery.peer[at], stamped) >= WINDOW:
        state.recovery.peer[at] = received
        send(host, source, ACKNOWLEDGED, received)


@compiled.function(inline=False)
def kept_of(state: State, here: int, source: int) -> int:
    """How many messages of a source a process keeps."""
    count = 0
    row = state.recovery.peer[peer_of(state, here, source) + FIRST_KEPT]
    while row != NONE:
        count += 1
        row = state.recovery.kept.row[row + KEPT_LINK]
    return count


@compiled.function()
def learn_crash(state: State, here: int, crashed: int, host: Host) -> int:
    """The failure detector speaks."""
    if state.setting[TOLERANT] == 0 or state.recovery.crashed[here, crashed] != 0:
        return DONE
    mine = state.recovery.own[here]
    words = state.setting[NODES] * (8 + 2 * kept_of(state, here, crashed) + 2 * mine[KNOWN])
    words += 2 * mine[KEPT] + 5 * state.process[here, WAITING]
    if not has_effects(host, words):
        return FULL
    _learn(state, here, crashed, host)
    _resume_after_crashes(state, here, host)
    return DONE


@compiled.function(inline=False)
def _learn(state: State, here: int, crashed: int, host: Host) -> None:
    """Steps 1 and 2: a node has crashed."""
    recovery = state.recovery
    mine = recovery.own[here]
    at = peer_of(state, here, crashed)
    recovery.crashed[here, crashed] = 1
    recovery.order[here, mine[KNOWN]] = crashed
    mine[KNOWN] += 1
    mine[UNACKNOWLEDGED] -= recovery.peer[at + OUTSTANDING]
    recovery.peer[at + OUTSTANDING] = 0
    if mine[DIRECT_FROM] == 0:
        mine[DIRECT_FROM] = state.clock[entry_of(state, here, state.hosted[here]) + RECEIVED] + 1
    _find_stable(state, here, host)
    if recovery.peer[at + FIRST_KEPT] != NONE:
        _relay(state, here, int(recovery.peer[at + FIRST_KEPT]), host)


@compiled.function(inline=False)
def _relay(state: State, here: int, first: int, host: Host) -> None:
    """Send the messages of a list, from this one on, to everybody who may be alive."""
    recovery = state.recovery
    for target in range(state.setting[NODES]):
        if target != state.hosted[here] and recovery.crashed[here, target] == 0:
            open_packet(host, target)
            count = 0
            row = first
            while row != NONE:
                put(host, RELAY, recovery.kept.row[row + KEPT_SLOT])
                count += 1
                row = recovery.kept.row[row + KEPT_LINK]
            recovery.peer[peer_of(state, here, target) + OUTSTANDING] += count
            recovery.own[here, UNACKNOWLEDGED] += count


@compiled.function(inline=False)
def _relay_latest(state: State, here: int, source: int, host: Host) -> None:
    """Step 2 for a message of a crashed source that has just arrived."""
    latest = state.recovery.peer[peer_of(state, here, source) + LAST_KEPT]
    _relay(state, here, int(latest), host)


@compiled.function(inline=False)
def hear(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    """The items of a packet about crashes."""
    for i in range(count):
        tag, value = tag_of(inbox, i), value_of(inbox, i)
        if tag >= ENDED:
            _hear_item(state, here, sender, tag, value, host)
    _resume_after_crashes(state, here, host)


@compiled.function(inline=False)
def _hear_item(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> None:
    """An item that is no message."""
    recovery = state.recovery
    at = peer_of(state, here, sender)
    if tag == RELAYED:
        recovery.peer[at + OUTSTANDING] -= value
        recovery.own[here, UNACKNOWLEDGED] -= value
        return
    if tag == ENDED:
        if recovery.peer[at + ENDS] == state.setting[NODES]:
            return  # each crash is ended with once: no peer has more sent to it by saying so again
        crashed = value & NODE_MASK
        value >>= NODE_BITS
        if recovery.crashed[here, crashed] == 0:
            _learn(state, here, crashed, host)
        recovery.peer[at + ENDS] += 1
        _send_missing(state, here, sender, value, host)
    _confirm(state, here, sender, value, host)


@compiled.function()
def _send_missing(state: State, here: int, target: int, has: int, host: Host) -> None:
    """Step 3: of our messages that went over trees, those that the target may lack."""
    recovery = state.recovery
    row = recovery.peer[peer_of(state, here, state.hosted[here]) + FIRST_KEPT]
    opened = False
    while row != NONE:
        slot = recovery.kept.row[row + KEPT_SLOT]
        if has < sequence_of(host, slot) < recovery.own[here, DIRECT_FROM]:
            if not opened:
                open_packet(host, target)
                opened = True
            put(host, DIRECT, slot)
        row = recovery.kept.row[row + KEPT_LINK]


@compiled.function(inline=False)
def _resume_after_crashes(state: State, here: int, host: Host) -> None:
    """End with crashes, broadcast over trees again and discard what is dead, when it is time."""
    _announce(state, here, host)
    if state.recovery.own[here, KNOWN] != 0 and _is_calm(state, here):
        state.recovery.own[here, DIRECT_FROM] = 0
        _discard_dead(state, here, host)


@compiled.function(inline=False)
def _announce(state: State, here: int, host: Host) -> None:
    """Step 3: once all relayed messages have arrived, say so and let go of them."""
    recovery = state.recovery
    mine = recovery.own[here]
    if mine[UNACKNOWLEDGED] != 0:
        return
    node = state.hosted[here]
    for target in range(state.setting[NODES]):
        if target == node or recovery.crashed[here, target] != 0 or mine[ANNOUNCED] == mine[KNOWN]:
            continue
        received = state.clock[entry_of(state, here, target) + RECEIVED]
        open_packet(host, target)
        for i in range(mine[ANNOUNCED], mine[KNOWN]):
            put(host, ENDED, recovery.order[here, i] | (np.int64(received) << NODE_BITS))
    mine[ANNOUNCED] = mine[KNOWN]
    for i in range(mine[KNOWN]):
        at = peer_of(state, here, int(recovery.order[here, i]))
        _forget(recovery, here, at, ALL, host)


@compiled.function(inline=False)
def _is_calm(state: State, here: int) -> bool:
    """Step 4: whether all others have ended with every crash that is known here."""
    recovery = state.recovery
    for other in range(state.setting[NODES]):
        ends = recovery.peer[peer_of(state, here, other) + ENDS]
        waits = other != state.hosted[here] and recovery.crashed[here, other] == 0
        if waits and ends != recovery.own[here, KNOWN]:
            return False
    return True


@compiled.function(inline=False)
def _discard_dead(state: State, here: int, host: Host) -> None:
    """Discard what waits for a message that no live node has."""
    recovery = state.recovery
    for i in range(recovery.own[here, KNOWN]):
        crashed = recovery.order[here, i]
        received = state.clock[entry_of(state, here, crashed) + RECEIVED]
        limit = peer_of(state, here, crashed) + LIMIT
        recovery.peer[limit] = min(recovery.peer[limit], received)
    found = True
    while found:
        found = False
        for source in range(state.setting[NODES]):
            for head in (FORWARDING, DELIVERING):
                at = entry_of(state, here, source) + head
                if _discard_from(state, here, at, host):
                    found = True


@compiled.function()
def _discard_from(state: State, here: int, head: int, host: Host) -> bool:
    """Discard the dead messages of one list; whether there were any."""
    recovery, rows = state.recovery, state.waiting.pool.row
    found = False
    before = NONE
    row = state.clock[head]
    while row != NONE:
        following = rows[row + LINK]
        slot = rows[row + SLOT]
        source, sequence = source_of(host, slot), sequence_of(host, slot)
        if _is_dead(state, here, state.stamp[slot], source, sequence):
            limit = peer_of(state, here, source) + LIMIT
            recovery.peer[limit] = min(recovery.peer[limit], sequence - 1)
            unlink(state.waiting, state.clock, head, before, row)
            end_waiting(state.waiting, row)
            note(host, DISCARD, slot)
            drop(host, slot)
            recovery.own[here, DISCARDED] += 1
            state.process[here, WAITING] -= 1
            found = True
        else:
            before = row
        row = following
    return found


@compiled.function()
def _is_dead(state: State, here: int, stamp: Int32s, source: int, sequence: int) -> bool:
    """Whether a message, or something it needs, died with its source."""
    peer = state.recovery.peer
    if state.recovery.crashed[here, source] == 0:
        return False
    if sequence > peer[peer_of(state, here, source) + LIMIT]:
        return True
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if stamp[i + 1] > peer[peer_of(state, here, stamp[i]) + LIMIT]:
            return True
    return False
