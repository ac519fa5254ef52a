"""Causal broadcast over the trees of a virtual hypercube, messages aggregated on the way.

Source: de Araujo et al. 2018, Algorithms 1 and 2, with the errors of the printed pseudo-code mended
(docs/protocols/vcube.md lists them).

Algorithm. Every source has its own spanning tree of VCube (``precedes.topology``). A message
carries the entries of its source's vector clock that changed since the source's last broadcast.
A node that receives a message passes it on to its children in the source's tree, but not yet to
a child that could not deliver it: one that lacks a message which must itself come by this node,
and has not. When that arrives, both go to the child in one packet. So packets become fewer and
no delivery later. A message is delivered when its causal past has been.

Any number of nodes from 2 on: numbers up to the next power of two are absent from their
clusters. Any number of messages a source.

Assumes that every packet arrives, once (the paper's reliable links).

Guarantee: causal order, exactly once, everything. With ``tolerant``, also among the survivors
of crashes: the model, the guarantee and the method are in ``vcube_recovery``. Without it a crash
may keep messages from others for ever, as in the paper; order is kept.

Cost: each message N - 1 times on the wire, in at most as many packets; a message's own entry and
4 bytes for each entry that changed. ``tolerant`` adds 4 bytes to a message, and every node keeps
each message until everybody is known to have it: bounded by ``vcube_recovery.WINDOW`` messages
and those in flight from every source, beyond which silent nodes acknowledge. A state takes
24 bytes for each process and node (57 with ``tolerant``) and 8 N bytes for each message in use.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled, topology
from precedes.compiled import ZERO
from precedes.protocols import vcube_crashes as crashes
from precedes.protocols import vcube_recovery as recover
from precedes.protocols import vcube_state
from precedes.protocols import vcube_waiting as wait
from precedes.protocols.contract import (
    DONE,
    FULL,
    MESSAGE,
    NUMBER,
    Capacity,
    Group,
    Host,
    Int64s,
    broadcast,
    deliver,
    message_bytes,
    on_crash,
    open_packet,
    put,
    receive,
    send,
    sequence_of,
    source_of,
    tag_of,
)
from precedes.protocols.vcube_arrivals import accept, child_in, ignore
from precedes.protocols.vcube_recovery import DATA, DIRECT, ENDED
from precedes.protocols.vcube_state import (
    AGGREGATES,
    ARRIVALS,
    DELAYED,
    DIMENSION,
    ENTRIES,
    ENTRY_BYTES,
    FIRST_ENTRY,
    NODES,
    ROOT,
    SHARED,
    STABLE,
    TOLERANT,
    WAITING,
    WAITING_MAX,
    Parameters,
    effects_words,
    extra,
    has_effects,
)
from precedes.protocols.vcube_waiting import (
    BLOCKED,
    CLOCK_WORDS,
    DELIVERED,
    DELIVERING,
    FORWARDING,
    NONE,
    RECEIVED,
    UNSERVED,
)

__all__ = ["Parameters", "State", "allocate", "effects_words", "extra"]

ITEMS: Final = (MESSAGE, MESSAGE, MESSAGE, NUMBER, NUMBER, NUMBER)
MESSAGE_FIELDS: Final = ("stamp",)
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "tree"


class State(vcube_state.Arrays):
    """The arrays of ``vcube_state``; a class of its own, by which handlers are found."""

    __slots__ = ()


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    return State(*vcube_state.make_arrays(parameters, group, capacity))


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    nodes = state.setting[NODES]
    tolerant = state.setting[TOLERANT] != 0
    if not has_effects(host, 5 * nodes + 64) or (
        tolerant and not recover.has_room(state.recovery, 1)
    ):
        return FULL
    node = state.hosted[here]
    sequence = sequence_of(host, slot)
    own = CLOCK_WORDS * (here * nodes + node)
    state.clock[own + RECEIVED] = sequence
    state.clock[own + DELIVERED] = sequence
    _write_stamp(state, here, slot, sequence)
    if tolerant:
        recover.remember(state.recovery, here, node, slot, host)
        if state.recovery.own[here, recover.DIRECT_FROM] != 0:
            _send_to_all(state, here, slot, host)
            return DONE
    if state.setting[SHARED] != 0 and node != ROOT:
        send(host, ROOT, DATA, slot)
        return DONE
    for s in range(1, state.setting[DIMENSION] + 1):
        child = child_in(state, here, s)
        if child != NONE:
            send(host, child, DATA, slot)
    return DONE


@compiled.function(inline=False)
def _write_stamp(state: State, here: int, slot: int, sequence: int) -> None:
    """The entries of the clock that changed since the last broadcast (section 5)."""
    nodes = state.setting[NODES]
    stamp = state.stamp[slot]
    stamped = state.stamped[here]
    at = FIRST_ENTRY
    for source in range(nodes):
        delivered = state.clock[CLOCK_WORDS * (here * nodes + source) + DELIVERED]
        if delivered != stamped[source] and source != state.hosted[here]:
            stamped[source] = delivered
            stamp[at] = source
            stamp[at + 1] = delivered
            at += 2
    stamp[ENTRIES] = (at - FIRST_ENTRY) // 2
    stamp[STABLE] = 0
    if state.setting[TOLERANT] != 0:
        stamp[STABLE] = min(state.recovery.own[here, recover.STABLE], sequence)
    state.dependencies[stamp[ENTRIES]] += 1


@compiled.function()
def _send_to_all(state: State, here: int, slot: int, host: Host) -> None:
    for target in range(state.setting[NODES]):
        if target != state.hosted[here] and state.recovery.crashed[here, target] == 0:
            send(host, target, DIRECT, slot)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    # One type of numbers for all callers: what follows is compiled once.
    return _take_packet(state, here + ZERO, sender + ZERO, inbox, count + ZERO, host)


@compiled.function(inline=False)
def _take_packet(
    state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> int:
    """Algorithm 2, lines 13 to 22."""
    if not crashes.has_room(state, here, inbox, count, host):
        return FULL
    if state.setting[TOLERANT] != 0 and state.recovery.crashed[here, sender] != 0:
        ignore(inbox, count, host)
        return DONE
    arrivals = state.process[here, ARRIVALS]
    chosen = accept(state, here, sender, inbox, count, host)
    _forward(state, here, chosen, host)
    _deliver(state, here, chosen, arrivals, host)
    if tag_of(inbox, 0) >= ENDED:
        crashes.hear(state, here, sender, inbox, count, host)
    return DONE


@compiled.function(inline=False)
def _forward(state: State, here: int, chosen: int, host: Host) -> None:
    """CHECKAGG: one packet for each child, of all chosen messages that it may have now.

    In order of arrival: what triggered the packet goes last. Causal order inside a packet would
    leave a third of the aggregation undone further down.
    """
    waiting = state.waiting
    wait.sort_by_sequence(waiting, chosen, host)
    top = 0
    for i in range(chosen):
        row = waiting.chosen[i]
        _find_blocked(state, here, row, host)
        if waiting.row[row + BLOCKED] > 0:
            at = CLOCK_WORDS * (here * state.setting[NODES] + waiting.row[row + wait.ENTRY])
            wait.link(waiting, state.clock, at + FORWARDING, row)
        top = max(top, waiting.row[row + UNSERVED])
    wait.sort_by_arrival(waiting, chosen)
    for s in range(1, top + 1):
        _send_chosen(state, here, s, chosen, host)
    for i in range(chosen):
        row = waiting.chosen[i]
        waiting.row[row + UNSERVED] = min(waiting.row[row + UNSERVED], waiting.row[row + BLOCKED])


@compiled.function()
def _send_chosen(state: State, here: int, s: int, chosen: int, host: Host) -> None:
    """The packet for our cluster s."""
    rows = state.waiting.row
    child = NONE
    for i in range(chosen):
        row = state.waiting.chosen[i]
        if rows[row + BLOCKED] < s <= rows[row + UNSERVED]:
            if child == NONE:
                child = child_in(state, here, s)
                if child == NONE:
                    return
                open_packet(host, child)
            put(host, DATA, rows[row + wait.SLOT])


@compiled.function(inline=False)
def _find_blocked(state: State, here: int, row: int, host: Host) -> None:
    """The highest of our clusters that cannot deliver a message yet, and what is missing.

    A cluster s lacks what we have not received and are to send there: messages of sources in
    whose tree we serve s (lines 25 and 26). What serves a cluster serves all below it. All that
    the source's earlier message lacks is lacking here too: a stamp has only what changed since.
    If no cluster lacks anything, the row awaits something undelivered here, or nothing.
    """
    rows, clock = state.waiting.row, state.clock
    nodes = state.setting[NODES]
    slot = rows[row + wait.SLOT]
    source = int(source_of(host, slot))
    rows[row + BLOCKED] = 0
    rows[row + wait.ENTRY] = NONE
    if state.setting[TOLERANT] != 0 and state.recovery.crashed[here, source] != 0:
        rows[row + UNSERVED] = 0  # it has been relayed to everybody
    stamp = state.stamp[slot]
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        at = CLOCK_WORDS * (here * nodes + stamp[i])
        if clock[at + DELIVERED] < stamp[i + 1]:
            height = 0
            if state.setting[AGGREGATES] != 0 and clock[at + RECEIVED] < stamp[i + 1]:
                root = ROOT if state.setting[SHARED] != 0 else stamp[i]
                height = topology.height(state.hosted[here], int(root), nodes)
            if height > rows[row + BLOCKED] or rows[row + wait.ENTRY] == NONE:
                rows[row + BLOCKED] = height
                wait.await_entry(rows, row, stamp[i], stamp[i + 1])
    at = CLOCK_WORDS * (here * nodes + source)
    if sequence_of(host, slot) - 1 > clock[at + DELIVERED]:
        earlier = rows[row + wait.PREDECESSOR]
        if rows[earlier + BLOCKED] > rows[row + BLOCKED]:
            rows[row + BLOCKED] = rows[earlier + BLOCKED]
            wait.await_entry(rows, row, rows[earlier + wait.ENTRY], rows[earlier + wait.VALUE])
        elif rows[row + wait.ENTRY] == NONE:
            wait.await_entry(rows, row, source, sequence_of(host, slot) - 1)


@compiled.function(inline=False)
def _deliver(state: State, here: int, chosen: int, arrivals: int, host: Host) -> None:
    """CHECKDELIVERY: deliver what can be, until nothing more can.

    Only after everything has been forwarded: a message delivered is forgotten (line 22 stands
    inside the loop of line 16, which loses messages downstream).
    """
    rows, clock, process = state.waiting.row, state.clock, state.process[here]
    for i in range(chosen):
        row = state.waiting.chosen[i]
        if rows[row + BLOCKED] == 0:
            wait.enqueue(state.waiting, row)
    while state.waiting.mark[wait.FIRST] != NONE:
        row = wait.dequeue(state.waiting)
        slot = rows[row + wait.SLOT]
        source = int(source_of(host, slot))
        if _misses_delivery(state, here, row, source, int(sequence_of(host, slot))):
            entry = CLOCK_WORDS * (here * state.setting[NODES] + rows[row + wait.ENTRY])
            wait.link(state.waiting, clock, entry + DELIVERING, row)
            continue
        at = CLOCK_WORDS * (here * state.setting[NODES] + source)
        clock[at + DELIVERED] += 1
        process[WAITING] -= 1
        process[DELAYED] += rows[row + wait.SERIAL] < arrivals
        wait.free(state.waiting, row)
        deliver(host, slot)
        before = NONE
        row = clock[at + DELIVERING]
        while row != NONE:
            following = rows[row + wait.LINK]
            if rows[row + wait.VALUE] <= clock[at + DELIVERED]:
                wait.unlink(state.waiting, clock, at + DELIVERING, before, row)
                wait.enqueue(state.waiting, row)
            else:
                before = row
            row = following
    process[WAITING_MAX] = max(process[WAITING_MAX], process[WAITING])


@compiled.function(inline=False)
def _misses_delivery(state: State, here: int, row: int, source: int, sequence: int) -> bool:
    """Whether something of the message's past is undelivered; the row then awaits it."""
    rows, clock = state.waiting.row, state.clock
    at = CLOCK_WORDS * here * state.setting[NODES]
    entry = rows[row + wait.ENTRY]
    if entry == NONE:
        return False
    if clock[at + CLOCK_WORDS * entry + DELIVERED] < rows[row + wait.VALUE]:
        return True
    if clock[at + CLOCK_WORDS * source + DELIVERED] < sequence - 1:
        wait.await_entry(rows, row, source, sequence - 1)
        return True
    stamp = state.stamp[rows[row + wait.SLOT]]
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if clock[at + CLOCK_WORDS * stamp[i] + DELIVERED] < stamp[i + 1]:
            wait.await_entry(rows, row, stamp[i], stamp[i + 1])
            return True
    return False


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    return crashes.learn_crash(state, here, crashed, host)


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    # The source's own entry names the message; a pair of node and count takes 4 bytes (5.2).
    return ENTRY_BYTES * (1 + state.stamp[slot, ENTRIES] + state.setting[TOLERANT])
