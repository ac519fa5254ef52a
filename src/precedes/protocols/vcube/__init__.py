"""Causal broadcast over the trees of a virtual hypercube, messages aggregated on the way.

Source: de Araujo et al. 2018, Algorithms 1 and 2, with the errors of the published pseudo-code
corrected (docs/protocols/vcube.md lists them).

Algorithm. Every source has its own spanning tree of VCube (``precedes.parts.topology``). A message
carries the entries of its source's vector clock that changed since the source's last broadcast.
A node that receives a message forwards it to its children in the source's tree, but not yet to
a child that could not deliver it: one that lacks a message which must itself come by this node,
and has not. When that arrives, both go to the child in one packet. So there are fewer packets and
no delivery is later. A message is delivered when its causal past has been.

Any number of nodes from 2 on: numbers up to the next power of two are absent from their
clusters. Any number of messages a source.

Assumes that every packet arrives, once (the paper's reliable links).

Guarantee: causal order, exactly once, everything. With ``tolerant``, also among the survivors
of crashes: the model, the guarantee and the method are in ``recovery``. Without it a crash may
keep messages from others forever, as in the paper; order is kept.

Cost: each message N - 1 times on the wire, in at most as many packets; a message's own entry and
4 bytes for each entry that changed. ``tolerant`` adds 4 bytes to a message, and every node keeps
each message until all are known to have it: bounded by ``recovery.WINDOW`` messages and
those in flight from every source, beyond which silent nodes acknowledge. A state takes 24 bytes
for each process and node (57 with ``tolerant``) and 8 N bytes for each message in use.

Here is Algorithm 2 in its order, followed by the functions of Algorithm 1; ``spec`` has it as
sets and lists. Where the paper goes through all of pending, here only the messages whose awaited
entry has arrived are examined (``waiting``). All about crashes is in ``recovery``. The paper's
names:

    vector_max[l]    received[l], a row of ``state.clock.received``
    vector_clock[l]  delivered[l], a row of ``state.clock.delivered``
    m.vc             a row of ``state.stamp``: pairs of a node l and a count
    pending          rows of ``state.waiting``
    k                the child in cluster s of this process
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.compiled import ZERO
from precedes.contract import MESSAGE, NUMBER, Host, Int64s, handler, tag_of, value_of
from precedes.parts import topology
from precedes.parts.pool import NONE

from . import recovery
from .state import (
    DATA,
    DIRECT,
    ENDED,
    ENTRIES,
    FIRST_ENTRY,
    RELAY,
    RELAYED,
    STABLE,
    Parameters,
    State,
    allocate,
    extra,
)

__all__ = ["Parameters", "State", "allocate", "extra"]

ITEMS: Final = (
    MESSAGE,  # in flight down a tree
    MESSAGE,  # from its source, not to be forwarded
    MESSAGE,  # RELAY: of a crashed source, to be acknowledged
    NUMBER,  # ENDED: a crashed node, and how many messages of the receiver the sender has
    NUMBER,  # ACKNOWLEDGED: how many messages of the receiver the sender has
    NUMBER,  # number of relayed messages that have arrived
)
MESSAGE_FIELDS: Final = ("stamp",)
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "tree"
# The end of a view takes the place of the recovery.
IN_VIEWS: Final = {"tolerant": False}

ROOT: Final = 0  # of the shared tree
ENTRY_BYTES: Final = 4  # of a pair of a node and a count on the wire (section 5.2)


# --- CO_BROADCAST: Algorithm 2, lines 5 to 12 ---


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    """Stamp the message and send it to our children in our own tree."""
    i = state.hosted[here]
    sequence = host.sequence_of(slot)
    state.clock.received[here, i] = sequence
    state.clock.delivered[here, i] = sequence
    _write_stamp(state, here, slot, sequence)
    if state.tolerant:
        recovery.remember(state.recovery, here, i, slot, host)
        if state.recovery.own.direct_from[here] != 0:
            _send_to_all(state, here, slot, host)
            return
    if state.shared and i != ROOT:
        host.send(ROOT, DATA, slot)
        return
    _send_to_children(state, here + ZERO, state.dimension, slot + ZERO, host)


@compiled.function(inline=False)
def _write_stamp(state: State, here: int, slot: int, sequence: int) -> None:
    """m.vc: the entries of the clock that changed since the last broadcast (section 5)."""
    stamp, stamped, delivered = state.stamp[slot], state.stamped[here], state.clock.delivered[here]
    at = FIRST_ENTRY
    for l in range(state.nodes):  # noqa: E741 - the paper's name
        if delivered[l] != stamped[l] and l != state.hosted[here]:
            stamped[l] = delivered[l]
            stamp[at] = l
            stamp[at + 1] = delivered[l]
            at += 2
    stamp[ENTRIES] = (at - FIRST_ENTRY) // 2
    stamp[STABLE] = 0
    if state.tolerant:
        stamp[STABLE] = min(state.recovery.own.stable[here], sequence)
    state.dependencies[stamp[ENTRIES]] += 1


@compiled.function()
def _send_to_all(state: State, here: int, slot: int, host: Host) -> None:
    """Send to all directly, while others may still forward messages to crashed nodes."""
    for target in range(state.nodes):
        if target != state.hosted[here] and state.recovery.crashed[here, target] == 0:
            host.send(target, DIRECT, slot)


@compiled.function(inline=False)
def _send_to_children(state: State, here: int, height: int, slot: int, host: Host) -> None:
    """Send a message alone to our children in clusters 1 to ``height``."""
    for s in range(1, height + 1):
        k = _first_child(state, here, s)
        if k != NONE:
            host.send(k, DATA, slot)


# --- RECEIVE: lines 13 to 22 ---


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    # One type of numbers for all callers: what follows is compiled once.
    _take_packet(state, here + ZERO, sender + ZERO, inbox, count + ZERO, host)


@compiled.function(inline=False)
def _take_packet(
    state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> None:
    """Receive the whole packet, then forward messages, then deliver those that are ready."""
    if state.knows_crashed(here, sender):
        _ignore(inbox, count, host)
        return
    arrivals = state.process.arrivals[here]
    chosen = _accept(state, here, sender, inbox, count, host)
    _check_aggregation(state, here, chosen, host)
    _check_delivery(state, here, chosen, arrivals, host)
    if tag_of(inbox, 0) >= ENDED:
        recovery.receive_items(state, here, sender, inbox, count, host)


@compiled.function(inline=False)
def _ignore(inbox: Int64s, count: int, host: Host) -> None:
    """Drop the messages of a packet whose sender is known to have crashed."""
    for i in range(count):
        if tag_of(inbox, i) < ENDED:
            host.drop(value_of(inbox, i))


@compiled.function(inline=False)
def _accept(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    """Lines 14 to 17 for all messages of a packet; return the number of rows to examine then.

    ``received`` advances for all of them before anything is forwarded: forwarding between them
    sends a message twice or never when a source has several (lines 14 to 22).
    """
    chosen = relayed = 0
    for i in range(count):
        tag = tag_of(inbox, i)
        if tag >= ENDED:
            continue
        slot = value_of(inbox, i)
        relayed += tag == RELAY
        source = int(host.source_of(slot))
        if source == state.hosted[here]:
            # Only over a shared tree: our own message in flight to our children.
            _send_to_children(state, here, _height(state, here, sender, tag), slot, host)
            host.drop(slot)
        elif _is_known(state, here, source, int(host.sequence_of(slot)), host):
            host.drop(slot)
        else:
            chosen = _take(state, here, slot, _height(state, here, sender, tag), chosen, host)
    if relayed > 0:
        host.send(sender, RELAYED, relayed)
    return chosen


@compiled.function(inline=False)
def _is_known(state: State, here: int, source: int, sequence: int, host: Host) -> bool:
    """Return whether a message has been received before, or is dead."""
    if sequence <= state.clock.received[here, source]:
        return True
    if state.tolerant and sequence > state.recovery.peer.limit[here, source]:
        return True
    rows = state.waiting.rows
    row = state.clock.forwarding[here, source]
    while row != NONE:
        slot = rows.slot[row]
        if host.source_of(slot) == source and host.sequence_of(slot) == sequence:
            return True
        row = rows.link[row]
    return False


@compiled.function(inline=False)
def _take(state: State, here: int, slot: int, height: int, chosen: int, host: Host) -> int:
    """Add a new message, and count its reception if none before it is missing."""
    waiting, rows, process = state.waiting, state.waiting.rows, state.process
    process.waiting[here] += 1
    row = waiting.enter(slot, process.arrivals[here])
    process.arrivals[here] += 1
    source = int(host.source_of(slot))
    sequence = int(host.sequence_of(slot))
    if state.tolerant:
        recovery.remember_arrival(state, here, source, slot, host)
    if not state.aggregates:
        _send_to_children(state, here, height, slot, host)
        height = 0
    rows.unserved[row] = height
    rows.blocked[row] = state.dimension + 1
    if sequence > state.clock.received[here, source] + 1:
        waiting.await_entry(row, source, sequence - 1)
        waiting.put_on(state.clock.forwarding[here], source, row)
        return chosen
    _count_received(state, here, source, row)
    rows.chosen[chosen] = row
    return _choose_awaiting(state, here, source, chosen + 1, host)


@compiled.function()
def _count_received(state: State, here: int, source: int, row: int) -> None:
    state.waiting.rows.predecessor[row] = state.newest[here, source]
    state.newest[here, source] = row
    state.clock.received[here, source] += 1


@compiled.function(inline=False)
def _choose_awaiting(state: State, here: int, source: int, chosen: int, host: Host) -> int:
    """Choose the rows that waited for this source; one may be its next message, and so on."""
    waiting, rows = state.waiting, state.waiting.rows
    received, heads = state.clock.received[here], state.clock.forwarding[here]
    again = True
    while again:
        again = False
        before = NONE
        row = heads[source]
        while row != NONE:
            following = rows.link[row]
            if rows.value[row] <= received[source]:
                waiting.take_off(heads, source, before, row)
                rows.chosen[chosen] = row
                chosen += 1
                slot = rows.slot[row]
                is_next = host.sequence_of(slot) == received[source] + 1
                if host.source_of(slot) == source and is_next:
                    _count_received(state, here, source, row)
                    again = True
            else:
                before = row
            row = following
    return chosen


# --- CHECKAGG: lines 23 to 28 ---


@compiled.function(inline=False)
def _check_aggregation(state: State, here: int, chosen: int, host: Host) -> None:
    """One packet for each child k, of all chosen messages that k may have now.

    In order of arrival: the message that triggered the packet goes last. Causal order inside a
    packet would leave a third of the aggregation undone further down.
    """
    waiting, rows = state.waiting, state.waiting.rows
    waiting.sort_by_sequence(chosen, host)
    top = 0
    for i in range(chosen):
        row = rows.chosen[i]
        _find_blocked(state, here, row, host)
        if rows.blocked[row] > 0:
            waiting.put_on(state.clock.forwarding[here], rows.entry[row], row)
        top = max(top, rows.unserved[row])
    waiting.sort_by_arrival(chosen)
    for s in range(1, top + 1):
        _send_chosen(state, here, s, chosen, host)
    for i in range(chosen):
        row = rows.chosen[i]
        rows.unserved[row] = min(rows.unserved[row], rows.blocked[row])


@compiled.function(inline=False)
def _find_blocked(state: State, here: int, row: int, host: Host) -> None:
    """The highest of our clusters that cannot deliver m yet, and the missing entry.

    A cluster s lacks messages that we have not received and are to send there: those of sources in
    whose tree we serve s (lines 25 and 26). A message for a cluster serves all below it. All that
    the source's earlier message lacks is lacking here too: a stamp has only what changed since.
    If no cluster lacks anything, the row awaits something undelivered here, or nothing.
    """
    waiting, rows = state.waiting, state.waiting.rows
    received, delivered = state.clock.received[here], state.clock.delivered[here]
    m = rows.slot[row]
    source = int(host.source_of(m))
    rows.blocked[row] = 0
    rows.entry[row] = NONE
    if state.knows_crashed(here, source):
        rows.unserved[row] = 0  # it has been relayed to all
    stamp = state.stamp[m]
    for at in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        l, needed = stamp[at], stamp[at + 1]  # noqa: E741 - the paper's name
        if delivered[l] < needed:
            height = 0
            if state.aggregates and received[l] < needed:
                root = ROOT if state.shared else l
                height = topology.height(state.hosted[here], int(root), state.nodes)
            if height > rows.blocked[row] or rows.entry[row] == NONE:
                rows.blocked[row] = height
                waiting.await_entry(row, l, needed)
    before = host.sequence_of(m) - 1
    if before > delivered[source]:
        earlier = rows.predecessor[row]
        if rows.blocked[earlier] > rows.blocked[row]:
            rows.blocked[row] = rows.blocked[earlier]
            waiting.await_entry(row, rows.entry[earlier], rows.value[earlier])
        elif rows.entry[row] == NONE:
            waiting.await_entry(row, source, before)


@compiled.function()
def _send_chosen(state: State, here: int, s: int, chosen: int, host: Host) -> None:
    """The packet for k, the child in our cluster s."""
    rows = state.waiting.rows
    k = NONE
    for i in range(chosen):
        row = rows.chosen[i]
        if rows.blocked[row] < s <= rows.unserved[row]:
            if k == NONE:
                k = _first_child(state, here, s)
                if k == NONE:
                    return
                host.open_packet(k)
            host.put(DATA, rows.slot[row])


# --- CHECKDELIVERY: lines 29 to 33 ---


@compiled.function(inline=False)
def _check_delivery(state: State, here: int, chosen: int, arrivals: int, host: Host) -> None:
    """Deliver messages that are ready, until there are none.

    Only after everything has been forwarded: a delivered message is released (line 22 is
    inside the loop of line 16, which loses messages downstream).
    """
    waiting, rows, process = state.waiting, state.waiting.rows, state.process
    delivered, heads = state.clock.delivered[here], state.clock.delivering[here]
    for i in range(chosen):
        row = rows.chosen[i]
        if rows.blocked[row] == 0:
            waiting.enqueue(row)
    while not waiting.is_queue_empty():
        row = waiting.dequeue()
        m = rows.slot[row]
        source = int(host.source_of(m))
        if _misses_delivery(state, here, row, source, int(host.sequence_of(m))):
            waiting.put_on(heads, rows.entry[row], row)
            continue
        delivered[source] += 1
        process.waiting[here] -= 1
        process.delayed[here] += rows.serial[row] < arrivals
        waiting.leave(row)
        host.deliver(m)
        before = NONE
        row = heads[source]
        while row != NONE:
            following = rows.link[row]
            if rows.value[row] <= delivered[source]:
                waiting.take_off(heads, source, before, row)
                waiting.enqueue(row)
            else:
                before = row
            row = following
    process.waiting_max[here] = max(process.waiting_max[here], process.waiting[here])


@compiled.function(inline=False)
def _misses_delivery(state: State, here: int, row: int, source: int, sequence: int) -> bool:
    """Return whether something of the message's past is undelivered; the row then awaits it."""
    waiting, rows, delivered = state.waiting, state.waiting.rows, state.clock.delivered[here]
    entry = rows.entry[row]
    if entry == NONE:
        return False
    if delivered[entry] < rows.value[row]:
        return True
    if delivered[source] < sequence - 1:
        waiting.await_entry(row, source, sequence - 1)
        return True
    stamp = state.stamp[rows.slot[row]]
    for at in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        l, needed = stamp[at], stamp[at + 1]  # noqa: E741 - the paper's name
        if delivered[l] < needed:
            waiting.await_entry(row, l, needed)
            return True
    return False


# --- FIRSTCHILD and CHILDREN: Algorithm 1 ---


@compiled.function()
def _first_child(state: State, here: int, s: int) -> int:
    """FIRSTCHILD: the node that receives the messages for our cluster s, or NONE."""
    i = state.hosted[here]
    if state.tolerant and state.recovery.own.known[here] != 0:
        return topology.first_correct(i, s, state.recovery.crashed[here], state.nodes)
    return topology.first_present(i, s, state.nodes)


@compiled.function()
def _height(state: State, here: int, sender: int, tag: int) -> int:
    """CHILDREN: a message from this sender is for our clusters 1 to this one."""
    i = state.hosted[here]
    if tag != DATA:
        return 0
    if state.shared:
        return topology.height(i, ROOT, state.nodes)
    return topology.cluster(i, sender) - 1


@handler(State)
def on_crash(state: State, here: int, crashed: int, host: Host) -> None:
    recovery.learn_crash(state, here, crashed, host)


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    # In live groups a view takes the place of the recovery.
    return bool(tag == DATA and _is_stamp(state, here, value, host))


@compiled.function(inline=False)
def _is_stamp(state: State, here: int, slot: int, host: Host) -> bool:
    """Return whether a stamp names members, once each, with possible counts."""
    stamp, delivered = state.stamp[slot], state.clock.delivered[here]
    sequence = host.sequence_of(slot)
    if stamp[ENTRIES] < 0 or stamp[ENTRIES] >= state.nodes or not 0 <= stamp[STABLE] <= sequence:
        return False
    before = -1
    for at in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        node, count = stamp[at], stamp[at + 1]
        if not before < node < state.nodes:
            return False
        ahead = 0 if node == state.hosted[here] else host.window()
        if not 0 <= count <= delivered[node] + ahead:
            return False
        before = node
    return True


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    # The source's own entry names the message.
    return ENTRY_BYTES * (1 + state.stamp[slot, ENTRIES] + state.tolerant)
