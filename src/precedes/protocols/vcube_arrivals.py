"""The first half of receiving in ``vcube``: take in a packet, count what has been received."""

from __future__ import annotations

from precedes import compiled, topology
from precedes.protocols import vcube_crashes as crashes
from precedes.protocols import vcube_recovery as recover
from precedes.protocols import vcube_waiting as wait
from precedes.protocols.contract import (
    Host,
    Int64s,
    drop,
    send,
    sequence_of,
    source_of,
    tag_of,
    value_of,
)
from precedes.protocols.vcube_recovery import DATA, ENDED, RELAY, RELAYED
from precedes.protocols.vcube_state import (
    AGGREGATES,
    ARRIVALS,
    DIMENSION,
    NODES,
    ROOT,
    SHARED,
    TOLERANT,
    WAITING,
    Arrays,
)
from precedes.protocols.vcube_waiting import (
    BLOCKED,
    CLOCK_WORDS,
    FORWARDING,
    NONE,
    RECEIVED,
    UNSERVED,
)


@compiled.function(inline=False)
def accept(state: Arrays, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    """Take in the messages of a packet; how many rows are chosen to be looked at then.

    ``received`` advances for all of them before anything is forwarded: forwarding between them
    sends a message twice or never when a source has several (Algorithm 2, lines 14 to 22).
    """
    chosen = relayed = 0
    for i in range(count):
        tag = tag_of(inbox, i)
        if tag >= ENDED:
            continue
        slot = value_of(inbox, i)
        relayed += tag == RELAY
        source = int(source_of(host, slot))
        if source == state.hosted[here]:
            # Only over a shared tree: our own message on its way to our children.
            pass_on(state, here, _height(state, here, sender, tag), slot, host)
            drop(host, slot)
        elif _is_known(state, here, source, int(sequence_of(host, slot)), host):
            drop(host, slot)
        else:
            chosen = _take(state, here, slot, _height(state, here, sender, tag), chosen, host)
    if relayed > 0:
        send(host, sender, RELAYED, relayed)
    return chosen


@compiled.function(inline=False)
def ignore(inbox: Int64s, count: int, host: Host) -> None:
    """Drop the messages of a packet whose sender is known to have crashed."""
    for i in range(count):
        if tag_of(inbox, i) < ENDED:
            drop(host, value_of(inbox, i))


@compiled.function()
def _height(state: Arrays, here: int, sender: int, tag: int) -> int:
    """How many of our clusters a message from this sender is for."""
    node = state.hosted[here]
    if tag != DATA:
        return 0
    if state.setting[SHARED] != 0:
        return topology.height(node, ROOT, state.setting[NODES])
    return topology.cluster(node, sender) - 1


@compiled.function()
def child_in(state: Arrays, here: int, s: int) -> int:
    """FIRSTCHILD: who is sent what is for our cluster s, or NONE."""
    node = state.hosted[here]
    nodes = state.setting[NODES]
    if state.setting[TOLERANT] != 0 and state.recovery.own[here, recover.KNOWN] != 0:
        return topology.first_correct(node, s, state.recovery.crashed[here], nodes)
    return topology.first_present(node, s, nodes)


@compiled.function(inline=False)
def pass_on(state: Arrays, here: int, height: int, slot: int, host: Host) -> None:
    """Send a message to all our children in its tree at once, alone."""
    for s in range(1, height + 1):
        child = child_in(state, here, s)
        if child != NONE:
            send(host, child, DATA, slot)


@compiled.function(inline=False)
def _is_known(state: Arrays, here: int, source: int, sequence: int, host: Host) -> bool:
    """Whether a message has been received before, or is dead."""
    place = here * state.setting[NODES] + source
    if sequence <= state.clock[CLOCK_WORDS * place + RECEIVED]:
        return True
    limit = recover.WORDS * place + recover.LIMIT
    if state.setting[TOLERANT] != 0 and sequence > state.recovery.word[limit]:
        return True
    row = state.clock[CLOCK_WORDS * place + FORWARDING]
    while row != NONE:
        slot = state.waiting.row[row + wait.SLOT]
        if source_of(host, slot) == source and sequence_of(host, slot) == sequence:
            return True
        row = state.waiting.row[row + wait.LINK]
    return False


@compiled.function(inline=False)
def _take(state: Arrays, here: int, slot: int, height: int, chosen: int, host: Host) -> int:
    """A new message: let it wait, and count its reception if none before it is missing."""
    process = state.process[here]
    process[WAITING] += 1
    row = wait.take(state.waiting, slot, process[ARRIVALS])
    process[ARRIVALS] += 1
    source = int(source_of(host, slot))
    sequence = int(sequence_of(host, slot))
    at = CLOCK_WORDS * (here * state.setting[NODES] + source)
    if state.setting[TOLERANT] != 0:
        crashes.prepare(state, here, slot, source, host)
    if state.setting[AGGREGATES] == 0:
        pass_on(state, here, height, slot, host)
        height = 0
    state.waiting.row[row + UNSERVED] = height
    state.waiting.row[row + BLOCKED] = state.setting[DIMENSION] + 1
    if sequence > state.clock[at + RECEIVED] + 1:
        wait.await_entry(state.waiting.row, row, source, sequence - 1)
        wait.link(state.waiting, state.clock, at + FORWARDING, row)
        return chosen
    _count_received(state, here, source, row)
    state.waiting.chosen[chosen] = row
    return _choose_awaiting(state, here, source, chosen + 1, host)


@compiled.function()
def _count_received(state: Arrays, here: int, source: int, row: int) -> None:
    state.waiting.row[row + wait.PREDECESSOR] = state.newest[here, source]
    state.newest[here, source] = row
    state.clock[CLOCK_WORDS * (here * state.setting[NODES] + source) + RECEIVED] += 1


@compiled.function(inline=False)
def _choose_awaiting(state: Arrays, here: int, source: int, chosen: int, host: Host) -> int:
    """Choose what waited for this source; it may be the source's next message, and so on."""
    waiting = state.waiting
    at = CLOCK_WORDS * (here * state.setting[NODES] + source)
    again = True
    while again:
        again = False
        before = NONE
        row = state.clock[at + FORWARDING]
        while row != NONE:
            following = waiting.row[row + wait.LINK]
            if waiting.row[row + wait.VALUE] <= state.clock[at + RECEIVED]:
                wait.unlink(waiting, state.clock, at + FORWARDING, before, row)
                waiting.chosen[chosen] = row
                chosen += 1
                slot = waiting.row[row + wait.SLOT]
                is_next = sequence_of(host, slot) == state.clock[at + RECEIVED] + 1
                if source_of(host, slot) == source and is_next:
                    _count_received(state, here, source, row)
                    again = True
            else:
                before = row
            row = following
    return chosen
