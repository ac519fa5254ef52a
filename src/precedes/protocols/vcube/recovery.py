"""Crash recovery of ``vcube``: relays, missing messages, and messages that are dead.

de Araujo et al. 2018 leave node failures to future work; this is how they are handled here.

Crash model. Nodes stop for good, at any time, also between two packets of one broadcast. Links
deliver every packet exactly once, in any order, also those of a node that has crashed since. A
failure detector reports every crash to every correct node after some time, and never falsely.

Guarantee among the nodes that do not crash: a message of a correct source reaches all; of
a crashed source's messages all deliver the same ones, at least those that any of them delivered;
exactly once and in causal order. A message that needs another which died with its source is
discarded: dropped, counted, and noted in the trace. It holds up nothing else.

How. Every node keeps each message until its source reports it as *stable*. A
source knows that from the stamps of the others, or from acknowledgements of those that received
``WINDOW`` messages without broadcasting one. When a node learns of the crash of x, it

1. ignores all further packets from x, and leaves x out of its trees;
2. relays the messages of x that it keeps, now and when others arrive, to all, and waits
   until all have acknowledged them;
3. then reports to all that it has *ended* with x, and how many of their messages it has. A node
   that receives this learns of the crash too, and sends its own missing messages directly;
4. sends its own broadcasts directly until all others have ended with every crash it knows of.
   Until then relays might still forward messages to crashed nodes; afterwards none does.

At that moment the node also knows that no live node has, or will ever get, a message of a
crashed source that it lacks: each of them has shown it all that it had after it stopped
receiving from crashed nodes. So gaps in the messages of crashed sources will never close.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import Host, Int32s, Int64s, tag_of, value_of
from precedes.model import EventKind
from precedes.parts import pool
from precedes.parts.pool import NONE

from .state import (
    ACKNOWLEDGED,
    DIRECT,
    ENDED,
    ENTRIES,
    FIRST_ENTRY,
    NODE_BITS,
    NODE_MASK,
    RELAY,
    RELAYED,
    STABLE,
    Recovery,
    State,
)

ALL: Final = 1 << 31  # more messages than a source can have
DISCARD: Final = int(EventKind.DISCARD)
WINDOW: Final = 64  # messages of a source that a silent node receives before it acknowledges them


@compiled.function(inline=False)
def remember(recovery: Recovery, here: int, source: int, slot: int, host: Host) -> None:
    """Keep a message, behind the others of its source."""
    kept, peer = recovery.kept, recovery.peer
    row = pool.take(kept)
    recovery.own.kept[here] += 1
    kept.slot[row] = slot
    kept.link[row] = NONE
    if peer.first_kept[here, source] == NONE:
        peer.first_kept[here, source] = row
    else:
        kept.link[peer.last_kept[here, source]] = row
    peer.last_kept[here, source] = row
    host.retain(slot)


@compiled.function(inline=False)
def remember_arrival(state: State, here: int, source: int, slot: int, host: Host) -> None:
    """Keep a message that has arrived, and update the state of others from its stamp."""
    stamp = state.stamp[slot]
    remember(state.recovery, here, source, slot, host)
    if state.recovery.crashed[here, source] != 0:
        _relay_latest(state, here, source, host)
        return
    _forget(state.recovery, here, source, int(stamp[STABLE]), host)
    for at in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if stamp[at] == state.hosted[here]:
            _confirm(state, here, source, int(stamp[at + 1]), host)
    received = state.clock.received[here, source]
    _acknowledge(state, here, source, received, state.stamped[here, source], host)


@compiled.function(inline=False)
def _forget(recovery: Recovery, here: int, source: int, stable: int, host: Host) -> None:
    """Release a source's messages up to its stable one.

    They are taken from the front of the list: one that overtook others waits for them.
    """
    kept = recovery.kept
    row = int(recovery.peer.first_kept[here, source])
    while row != NONE and host.sequence_of(kept.slot[row]) <= stable:
        following = int(kept.link[row])
        host.release(kept.slot[row])
        pool.give_back(kept, row)
        recovery.own.kept[here] -= 1
        row = following
    recovery.peer.first_kept[here, source] = row


@compiled.function()
def _confirm(state: State, here: int, other: int, count: int, host: Host) -> None:
    """Record that another node has this number of our messages."""
    confirmed, own = state.recovery.peer.confirmed[here], state.recovery.own
    before = confirmed[other]
    if count <= before:
        return
    confirmed[other] = count
    if before == own.stable[here]:
        own.at_stable[here] -= 1
        if own.at_stable[here] == 0:
            _find_stable(state, here, host)


@compiled.function(inline=False)
def _find_stable(state: State, here: int, host: Host) -> None:
    """The number of our messages that all nodes have that are not known to have crashed."""
    recovery = state.recovery
    node = state.hosted[here]
    least = ALL
    holders = 0
    for other in range(state.nodes):
        if other != node and recovery.crashed[here, other] == 0:
            confirmed = recovery.peer.confirmed[here, other]
            if confirmed < least:
                least = int(confirmed)
                holders = 0
            if confirmed == least:
                holders += 1
    recovery.own.stable[here] = least
    recovery.own.at_stable[here] = holders
    _forget(recovery, here, node, least, host)


@compiled.function()
def _acknowledge(
    state: State, here: int, source: int, received: int, stamped: int, host: Host
) -> None:
    """Acknowledge a source's messages, if no stamp of ours has for a long time."""
    acknowledged = state.recovery.peer.last_acknowledged[here]
    if received - max(acknowledged[source], stamped) >= WINDOW:
        acknowledged[source] = received
        host.send(source, ACKNOWLEDGED, received)


@compiled.function()
def learn_crash(state: State, here: int, crashed: int, host: Host) -> None:
    """Handle a report of the failure detector."""
    if state.tolerant and state.recovery.crashed[here, crashed] == 0:
        _learn(state, here, crashed, host)
        _resume_after_crashes(state, here, host)


@compiled.function(inline=False)
def _learn(state: State, here: int, crashed: int, host: Host) -> None:
    """Steps 1 and 2: a node has crashed."""
    recovery, own = state.recovery, state.recovery.own
    recovery.crashed[here, crashed] = 1
    recovery.order[here, own.known[here]] = crashed
    own.known[here] += 1
    own.unacknowledged[here] -= recovery.peer.outstanding[here, crashed]
    recovery.peer.outstanding[here, crashed] = 0
    if own.direct_from[here] == 0:
        own.direct_from[here] = state.clock.received[here, state.hosted[here]] + 1
    _find_stable(state, here, host)
    if recovery.peer.first_kept[here, crashed] != NONE:
        _relay(state, here, int(recovery.peer.first_kept[here, crashed]), host)


@compiled.function(inline=False)
def _relay(state: State, here: int, first: int, host: Host) -> None:
    """Send the messages of a list, from this one on, to all that may be alive."""
    recovery = state.recovery
    for target in range(state.nodes):
        if target != state.hosted[here] and recovery.crashed[here, target] == 0:
            host.open_packet(target)
            count = 0
            row = first
            while row != NONE:
                host.put(RELAY, recovery.kept.slot[row])
                count += 1
                row = recovery.kept.link[row]
            recovery.peer.outstanding[here, target] += count
            recovery.own.unacknowledged[here] += count


@compiled.function(inline=False)
def _relay_latest(state: State, here: int, source: int, host: Host) -> None:
    """Step 2 for a message of a crashed source that has just arrived."""
    _relay(state, here, int(state.recovery.peer.last_kept[here, source]), host)


@compiled.function(inline=False)
def receive_items(
    state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> None:
    """The items of a packet about crashes."""
    for i in range(count):
        tag, value = tag_of(inbox, i), value_of(inbox, i)
        if tag >= ENDED:
            _receive_item(state, here, sender, tag, value, host)
    _resume_after_crashes(state, here, host)


@compiled.function(inline=False)
def _receive_item(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> None:
    """An item that is not a message."""
    recovery, peer = state.recovery, state.recovery.peer
    if tag == RELAYED:
        peer.outstanding[here, sender] -= value
        recovery.own.unacknowledged[here] -= value
        return
    if tag == ENDED:
        if peer.ends[here, sender] == state.nodes:
            return  # each crash is ended with once: a repeated item makes no peer send more
        crashed = value & NODE_MASK
        value >>= NODE_BITS
        if recovery.crashed[here, crashed] == 0:
            _learn(state, here, crashed, host)
        peer.ends[here, sender] += 1
        _send_missing(state, here, sender, value, host)
    _confirm(state, here, sender, value, host)


@compiled.function()
def _send_missing(state: State, here: int, target: int, has: int, host: Host) -> None:
    """Step 3: of our messages that went over trees, those that the target may lack."""
    recovery = state.recovery
    row = recovery.peer.first_kept[here, state.hosted[here]]
    opened = False
    while row != NONE:
        slot = recovery.kept.slot[row]
        if has < host.sequence_of(slot) < recovery.own.direct_from[here]:
            if not opened:
                host.open_packet(target)
                opened = True
            host.put(DIRECT, slot)
        row = recovery.kept.link[row]


@compiled.function(inline=False)
def _resume_after_crashes(state: State, here: int, host: Host) -> None:
    """End with crashes, broadcast over trees again and discard dead messages, when it is time."""
    _announce(state, here, host)
    if state.recovery.own.known[here] != 0 and _is_calm(state, here):
        state.recovery.own.direct_from[here] = 0
        _discard_dead(state, here, host)


@compiled.function(inline=False)
def _announce(state: State, here: int, host: Host) -> None:
    """Step 3: once all relayed messages have arrived, announce the end and release them."""
    recovery, own = state.recovery, state.recovery.own
    if own.unacknowledged[here] != 0:
        return
    announced, known = own.announced[here], own.known[here]
    for target in range(state.nodes):
        is_other = target != state.hosted[here] and recovery.crashed[here, target] == 0
        if not is_other or announced == known:
            continue
        received = state.clock.received[here, target]
        host.open_packet(target)
        for i in range(announced, known):
            host.put(ENDED, recovery.order[here, i] | (np.int64(received) << NODE_BITS))
    own.announced[here] = known
    for i in range(known):
        _forget(recovery, here, int(recovery.order[here, i]), ALL, host)


@compiled.function(inline=False)
def _is_calm(state: State, here: int) -> bool:
    """Step 4: return whether all others have ended with every crash that is known here."""
    recovery = state.recovery
    for other in range(state.nodes):
        waits = other != state.hosted[here] and recovery.crashed[here, other] == 0
        if waits and recovery.peer.ends[here, other] != recovery.own.known[here]:
            return False
    return True


@compiled.function(inline=False)
def _discard_dead(state: State, here: int, host: Host) -> None:
    """Discard messages that wait for one that no live node has."""
    limit = state.recovery.peer.limit[here]
    for i in range(state.recovery.own.known[here]):
        crashed = state.recovery.order[here, i]
        limit[crashed] = min(limit[crashed], state.clock.received[here, crashed])
    discarded = True
    while discarded:
        discarded = False
        for entry in range(state.nodes):
            for heads in (state.clock.forwarding[here], state.clock.delivering[here]):
                if _discard_from(state, here, heads, entry, host):
                    discarded = True


@compiled.function()
def _discard_from(state: State, here: int, heads: Int32s, entry: int, host: Host) -> bool:
    """Discard the dead messages of the list of an entry; return whether there were any."""
    waiting, rows, limit = state.waiting, state.waiting.rows, state.recovery.peer.limit[here]
    discarded = False
    before = NONE
    row = heads[entry]
    while row != NONE:
        following = rows.link[row]
        slot = rows.slot[row]
        source, sequence = host.source_of(slot), host.sequence_of(slot)
        if _is_dead(state, here, state.stamp[slot], source, sequence):
            limit[source] = min(limit[source], sequence - 1)
            waiting.take_off(heads, entry, before, row)
            waiting.leave(row)
            host.note(DISCARD, slot)
            host.drop(slot)
            state.recovery.own.discarded[here] += 1
            state.process.waiting[here] -= 1
            discarded = True
        else:
            before = row
        row = following
    return discarded


@compiled.function()
def _is_dead(state: State, here: int, stamp: Int32s, source: int, sequence: int) -> bool:
    """Return whether a message, or something it needs, died with its source."""
    limit = state.recovery.peer.limit[here]
    if state.recovery.crashed[here, source] == 0:
        return False
    if sequence > limit[source]:
        return True
    for at in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if stamp[at + 1] > limit[stamp[at]]:
            return True
    return False
