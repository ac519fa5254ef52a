"""Causal broadcast over the trees of a virtual hypercube, messages aggregated on the way.

Source: de Araujo et al. 2018, Algorithms 1 and 2, with the errors of the printed pseudo-code mended
(docs/protocols/vcube.md lists them).

Algorithm. Every source has its own spanning tree of VCube (``precedes.parts.topology``). A message
carries the entries of its source's vector clock that changed since the source's last broadcast.
A node that receives a message passes it on to its children in the source's tree, but not yet to
a child that could not deliver it: one that lacks a message which must itself come by this node,
and has not. When that arrives, both go to the child in one packet. So packets become fewer and
no delivery later. A message is delivered when its causal past has been.

Any number of nodes from 2 on: numbers up to the next power of two are absent from their
clusters. Any number of messages a source.

Assumes that every packet arrives, once (the paper's reliable links).

Guarantee: causal order, exactly once, everything. With ``tolerant``, also among the survivors
of crashes: the model, the guarantee and the method are in ``recovery``. Without it a crash may
keep messages from others for ever, as in the paper; order is kept.

Cost: each message N - 1 times on the wire, in at most as many packets; a message's own entry and
4 bytes for each entry that changed. ``tolerant`` adds 4 bytes to a message, and every node keeps
each message until everybody is known to have it: bounded by ``recovery.WINDOW`` messages and
those in flight from every source, beyond which silent nodes acknowledge. A state takes 24 bytes
for each process and node (57 with ``tolerant``) and 8 N bytes for each message in use.

Here is Algorithm 2, from the broadcast to the delivery, with the functions of Algorithm 1 behind
it. The paper's names: vector_max[l] is ``clock[entry_of(l) + RECEIVED]``, vector_clock[l] the word
DELIVERED beside it; m.vc is ``stamp``, pairs of a node and a count; the pending messages are rows
of ``waiting.pool``. All about crashes is in ``recovery``.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.compiled import ZERO
from precedes.contract import (
    DONE,
    FULL,
    MESSAGE,
    NUMBER,
    Host,
    Int64s,
    admits,
    broadcast,
    deliver,
    drop,
    message_bytes,
    on_crash,
    open_packet,
    put,
    receive,
    send,
    sequence_of,
    source_of,
    tag_of,
    value_of,
    window,
)
from precedes.parts import topology
from precedes.parts.pool import NONE

from .recovery import can_remember, hear, kept_of, learn_crash, remember, remember_arrival
from .state import (
    ACKNOWLEDGED,
    AGGREGATES,
    ARRIVALS,
    CLOCK_WORDS,
    DATA,
    DELAYED,
    DELIVERED,
    DELIVERING,
    DIMENSION,
    DIRECT,
    DIRECT_FROM,
    ENDED,
    ENTRIES,
    ENTRY_BYTES,
    FIRST_ENTRY,
    FORWARDING,
    KEPT,
    KNOWN,
    LIMIT,
    NODE_BITS,
    NODE_MASK,
    NODES,
    OUTSTANDING,
    OWN_STABLE,
    RECEIVED,
    RELAY,
    RELAYED,
    ROOT,
    SHARED,
    STABLE,
    TOLERANT,
    WAITING,
    WAITING_MAX,
    Parameters,
    State,
    allocate,
    effects_words,
    entry_of,
    extra,
    has_effects,
    knows_crashed,
    peer_of,
)
from .waiting import (
    BLOCKED,
    ENTRY,
    LINK,
    PREDECESSOR,
    SERIAL,
    SLOT,
    UNSERVED,
    VALUE,
    await_entry,
    begin_waiting,
    can_wait,
    dequeue,
    end_waiting,
    enqueue,
    is_queue_empty,
    link,
    sort_by_arrival,
    sort_by_sequence,
    unlink,
)

__all__ = ["Parameters", "State", "allocate", "effects_words", "extra"]

ITEMS: Final = (
    MESSAGE,  # DATA: on its way down a tree
    MESSAGE,  # DIRECT: from its source, not to be passed on
    MESSAGE,  # RELAY: of a crashed source, to be acknowledged
    NUMBER,  # ENDED: a crashed node, and how many messages of the receiver the sender has
    NUMBER,  # ACKNOWLEDGED: how many messages of the receiver the sender has
    NUMBER,  # RELAYED: how many relayed messages have arrived
)
MESSAGE_FIELDS: Final = ("stamp",)
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "tree"


# --- CO_BROADCAST: Algorithm 2, lines 5 to 12 ---


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    """Stamp the message and send it to our children in our own tree."""
    nodes = state.setting[NODES]
    tolerant = state.setting[TOLERANT] != 0
    if not has_effects(host, 5 * nodes + 64) or (tolerant and not can_remember(state, 1)):
        return FULL
    node = state.hosted[here]
    sequence = sequence_of(host, slot)
    own = entry_of(state, here, node)
    state.clock[own + RECEIVED] = sequence
    state.clock[own + DELIVERED] = sequence
    _write_stamp(state, here, slot, sequence)
    if tolerant:
        remember(state.recovery, here, peer_of(state, here, node), slot, host)
        if state.recovery.own[here, DIRECT_FROM] != 0:
            _send_to_all(state, here, slot, host)
            return DONE
    if state.setting[SHARED] != 0 and node != ROOT:
        send(host, ROOT, DATA, slot)
        return DONE
    _send_to_children(state, here + ZERO, state.setting[DIMENSION], slot + ZERO, host)
    return DONE


@compiled.function(inline=False)
def _write_stamp(state: State, here: int, slot: int, sequence: int) -> None:
    """The entries of the clock that changed since the last broadcast (section 5)."""
    stamp = state.stamp[slot]
    stamped = state.stamped[here]
    first = entry_of(state, here, 0)
    at = FIRST_ENTRY
    for source in range(state.setting[NODES]):
        delivered = state.clock[first + CLOCK_WORDS * source + DELIVERED]
        if delivered != stamped[source] and source != state.hosted[here]:
            stamped[source] = delivered
            stamp[at] = source
            stamp[at + 1] = delivered
            at += 2
    stamp[ENTRIES] = (at - FIRST_ENTRY) // 2
    stamp[STABLE] = 0
    if state.setting[TOLERANT] != 0:
        stamp[STABLE] = min(state.recovery.own[here, OWN_STABLE], sequence)
    state.dependencies[stamp[ENTRIES]] += 1


@compiled.function()
def _send_to_all(state: State, here: int, slot: int, host: Host) -> None:
    """While others may still pass messages to the dead: around all trees."""
    for target in range(state.setting[NODES]):
        if target != state.hosted[here] and state.recovery.crashed[here, target] == 0:
            send(host, target, DIRECT, slot)


@compiled.function(inline=False)
def _send_to_children(state: State, here: int, height: int, slot: int, host: Host) -> None:
    """Send a message alone to our children in clusters 1 to ``height``."""
    for s in range(1, height + 1):
        child = _first_child(state, here, s)
        if child != NONE:
            send(host, child, DATA, slot)


# --- RECEIVE: lines 13 to 22 ---


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    # One type of numbers for all callers: what follows is compiled once.
    return _take_packet(state, here + ZERO, sender + ZERO, inbox, count + ZERO, host)


@compiled.function(inline=False)
def _take_packet(
    state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host
) -> int:
    """Take in the whole packet, then forward what may go, then deliver what can be."""
    if not _has_room(state, here, inbox, count, host):
        return FULL
    if knows_crashed(state, here, sender):
        _ignore(inbox, count, host)
        return DONE
    arrivals = state.process[here, ARRIVALS]
    chosen = _accept(state, here, sender, inbox, count, host)
    _check_aggregation(state, here, chosen, host)
    _check_delivery(state, here, chosen, arrivals, host)
    if tag_of(inbox, 0) >= ENDED:
        hear(state, here, sender, inbox, count, host)
    return DONE


@compiled.function(inline=False)
def _has_room(state: State, here: int, inbox: Int64s, count: int, host: Host) -> bool:
    """Whether a packet can be handled whatever it leads to."""
    d = state.setting[DIMENSION]
    waiting = state.process[here, WAITING] + count
    words = waiting * (2 * d + 9) + count * (5 * d + 12) + 3 * d
    if state.setting[TOLERANT] != 0:
        mine = state.recovery.own[here]
        kept = mine[KEPT] + count
        words += 2 * kept
        if tag_of(inbox, 0) >= ENDED or mine[KNOWN] != 0:
            relayed = count
            for i in range(count):
                if tag_of(inbox, i) == ENDED:
                    relayed += kept_of(state, here, value_of(inbox, i) & NODE_MASK)
            crashes = mine[KNOWN] + count
            words += state.setting[NODES] * (8 + 2 * relayed + 3 * count + 2 * crashes)
            words += 2 * kept * count
        if not can_remember(state, count):
            return False
    return has_effects(host, words) and can_wait(state.waiting, count)


@compiled.function(inline=False)
def _ignore(inbox: Int64s, count: int, host: Host) -> None:
    """Drop the messages of a packet whose sender is known to have crashed."""
    for i in range(count):
        if tag_of(inbox, i) < ENDED:
            drop(host, value_of(inbox, i))


@compiled.function(inline=False)
def _accept(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    """Lines 14 to 17 for all messages of a packet; how many rows are chosen to be looked at then.

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
        source = int(source_of(host, slot))
        if source == state.hosted[here]:
            # Only over a shared tree: our own message on its way to our children.
            _send_to_children(state, here, _height(state, here, sender, tag), slot, host)
            drop(host, slot)
        elif _is_known(state, here, source, int(sequence_of(host, slot)), host):
            drop(host, slot)
        else:
            chosen = _take(state, here, slot, _height(state, here, sender, tag), chosen, host)
    if relayed > 0:
        send(host, sender, RELAYED, relayed)
    return chosen


@compiled.function(inline=False)
def _is_known(state: State, here: int, source: int, sequence: int, host: Host) -> bool:
    """Whether a message has been received before, or is dead."""
    at = entry_of(state, here, source)
    if sequence <= state.clock[at + RECEIVED]:
        return True
    if state.setting[TOLERANT] != 0:
        limit = peer_of(state, here, source) + LIMIT
        if sequence > state.recovery.peer[limit]:
            return True
    row = state.clock[at + FORWARDING]
    while row != NONE:
        slot = state.waiting.pool.row[row + SLOT]
        if source_of(host, slot) == source and sequence_of(host, slot) == sequence:
            return True
        row = state.waiting.pool.row[row + LINK]
    return False


@compiled.function(inline=False)
def _take(state: State, here: int, slot: int, height: int, chosen: int, host: Host) -> int:
    """A new message: let it wait, and count its reception if none before it is missing."""
    rows, process = state.waiting.pool.row, state.process[here]
    process[WAITING] += 1
    row = begin_waiting(state.waiting, slot, process[ARRIVALS])
    process[ARRIVALS] += 1
    source = int(source_of(host, slot))
    sequence = int(sequence_of(host, slot))
    at = entry_of(state, here, source)
    if state.setting[TOLERANT] != 0:
        remember_arrival(state, here, source, slot, host)
    if state.setting[AGGREGATES] == 0:
        _send_to_children(state, here, height, slot, host)
        height = 0
    rows[row + UNSERVED] = height
    rows[row + BLOCKED] = state.setting[DIMENSION] + 1
    if sequence > state.clock[at + RECEIVED] + 1:
        await_entry(rows, row, source, sequence - 1)
        link(state.waiting, state.clock, at + FORWARDING, row)
        return chosen
    _count_received(state, here, source, row)
    state.waiting.chosen[chosen] = row
    return _choose_awaiting(state, here, source, chosen + 1, host)


@compiled.function()
def _count_received(state: State, here: int, source: int, row: int) -> None:
    state.waiting.pool.row[row + PREDECESSOR] = state.newest[here, source]
    state.newest[here, source] = row
    state.clock[entry_of(state, here, source) + RECEIVED] += 1


@compiled.function(inline=False)
def _choose_awaiting(state: State, here: int, source: int, chosen: int, host: Host) -> int:
    """Choose what waited for this source; it may be the source's next message, and so on."""
    waiting, clock = state.waiting, state.clock
    rows = waiting.pool.row
    at = entry_of(state, here, source)
    again = True
    while again:
        again = False
        before = NONE
        row = clock[at + FORWARDING]
        while row != NONE:
            following = rows[row + LINK]
            if rows[row + VALUE] <= clock[at + RECEIVED]:
                unlink(waiting, clock, at + FORWARDING, before, row)
                waiting.chosen[chosen] = row
                chosen += 1
                slot = rows[row + SLOT]
                is_next = sequence_of(host, slot) == clock[at + RECEIVED] + 1
                if source_of(host, slot) == source and is_next:
                    _count_received(state, here, source, row)
                    again = True
            else:
                before = row
            row = following
    return chosen


# --- CHECKAGG: lines 23 to 28 ---


@compiled.function(inline=False)
def _check_aggregation(state: State, here: int, chosen: int, host: Host) -> None:
    """One packet for each child, of all chosen messages that it may have now.

    In order of arrival: what triggered the packet goes last. Causal order inside a packet would
    leave a third of the aggregation undone further down.
    """
    waiting, rows = state.waiting, state.waiting.pool.row
    sort_by_sequence(waiting, chosen, host)
    top = 0
    for i in range(chosen):
        row = waiting.chosen[i]
        _find_blocked(state, here, row, host)
        if rows[row + BLOCKED] > 0:
            at = entry_of(state, here, rows[row + ENTRY])
            link(waiting, state.clock, at + FORWARDING, row)
        top = max(top, rows[row + UNSERVED])
    sort_by_arrival(waiting, chosen)
    for s in range(1, top + 1):
        _send_chosen(state, here, s, chosen, host)
    for i in range(chosen):
        row = waiting.chosen[i]
        rows[row + UNSERVED] = min(rows[row + UNSERVED], rows[row + BLOCKED])


@compiled.function(inline=False)
def _find_blocked(state: State, here: int, row: int, host: Host) -> None:
    """The highest of our clusters that cannot deliver a message yet, and what is missing.

    A cluster s lacks what we have not received and are to send there: messages of sources in
    whose tree we serve s (lines 25 and 26). What serves a cluster serves all below it. All that
    the source's earlier message lacks is lacking here too: a stamp has only what changed since.
    If no cluster lacks anything, the row awaits something undelivered here, or nothing.
    """
    rows, clock = state.waiting.pool.row, state.clock
    nodes = state.setting[NODES]
    first = entry_of(state, here, 0)
    slot = rows[row + SLOT]
    source = int(source_of(host, slot))
    rows[row + BLOCKED] = 0
    rows[row + ENTRY] = NONE
    if knows_crashed(state, here, source):
        rows[row + UNSERVED] = 0  # it has been relayed to everybody
    stamp = state.stamp[slot]
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        at = first + CLOCK_WORDS * stamp[i]
        if clock[at + DELIVERED] < stamp[i + 1]:
            height = 0
            if state.setting[AGGREGATES] != 0 and clock[at + RECEIVED] < stamp[i + 1]:
                root = ROOT if state.setting[SHARED] != 0 else stamp[i]
                height = topology.height(state.hosted[here], int(root), nodes)
            if height > rows[row + BLOCKED] or rows[row + ENTRY] == NONE:
                rows[row + BLOCKED] = height
                await_entry(rows, row, stamp[i], stamp[i + 1])
    before = sequence_of(host, slot) - 1
    if before > clock[first + CLOCK_WORDS * source + DELIVERED]:
        earlier = rows[row + PREDECESSOR]
        if rows[earlier + BLOCKED] > rows[row + BLOCKED]:
            rows[row + BLOCKED] = rows[earlier + BLOCKED]
            await_entry(rows, row, rows[earlier + ENTRY], rows[earlier + VALUE])
        elif rows[row + ENTRY] == NONE:
            await_entry(rows, row, source, before)


@compiled.function()
def _send_chosen(state: State, here: int, s: int, chosen: int, host: Host) -> None:
    """The packet for our cluster s."""
    rows = state.waiting.pool.row
    child = NONE
    for i in range(chosen):
        row = state.waiting.chosen[i]
        if rows[row + BLOCKED] < s <= rows[row + UNSERVED]:
            if child == NONE:
                child = _first_child(state, here, s)
                if child == NONE:
                    return
                open_packet(host, child)
            put(host, DATA, rows[row + SLOT])


# --- CHECKDELIVERY: lines 29 to 33 ---


@compiled.function(inline=False)
def _check_delivery(state: State, here: int, chosen: int, arrivals: int, host: Host) -> None:
    """Deliver what can be, until nothing more can.

    Only after everything has been forwarded: a message delivered is forgotten (line 22 stands
    inside the loop of line 16, which loses messages downstream).
    """
    rows, clock, process = state.waiting.pool.row, state.clock, state.process[here]
    for i in range(chosen):
        row = state.waiting.chosen[i]
        if rows[row + BLOCKED] == 0:
            enqueue(state.waiting, row)
    while not is_queue_empty(state.waiting):
        row = dequeue(state.waiting)
        slot = rows[row + SLOT]
        source = int(source_of(host, slot))
        if _misses_delivery(state, here, row, source, int(sequence_of(host, slot))):
            at = entry_of(state, here, rows[row + ENTRY])
            link(state.waiting, clock, at + DELIVERING, row)
            continue
        at = entry_of(state, here, source)
        clock[at + DELIVERED] += 1
        process[WAITING] -= 1
        process[DELAYED] += rows[row + SERIAL] < arrivals
        end_waiting(state.waiting, row)
        deliver(host, slot)
        before = NONE
        row = clock[at + DELIVERING]
        while row != NONE:
            following = rows[row + LINK]
            if rows[row + VALUE] <= clock[at + DELIVERED]:
                unlink(state.waiting, clock, at + DELIVERING, before, row)
                enqueue(state.waiting, row)
            else:
                before = row
            row = following
    process[WAITING_MAX] = max(process[WAITING_MAX], process[WAITING])


@compiled.function(inline=False)
def _misses_delivery(state: State, here: int, row: int, source: int, sequence: int) -> bool:
    """Whether something of the message's past is undelivered; the row then awaits it."""
    rows, clock = state.waiting.pool.row, state.clock
    first = entry_of(state, here, 0)
    entry = rows[row + ENTRY]
    if entry == NONE:
        return False
    if clock[first + CLOCK_WORDS * entry + DELIVERED] < rows[row + VALUE]:
        return True
    if clock[first + CLOCK_WORDS * source + DELIVERED] < sequence - 1:
        await_entry(rows, row, source, sequence - 1)
        return True
    stamp = state.stamp[rows[row + SLOT]]
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if clock[first + CLOCK_WORDS * stamp[i] + DELIVERED] < stamp[i + 1]:
            await_entry(rows, row, stamp[i], stamp[i + 1])
            return True
    return False


# --- FIRSTCHILD and CHILDREN: Algorithm 1 ---


@compiled.function()
def _first_child(state: State, here: int, s: int) -> int:
    """FIRSTCHILD: who is sent what is for our cluster s, or NONE."""
    node = state.hosted[here]
    nodes = state.setting[NODES]
    if state.setting[TOLERANT] != 0 and state.recovery.own[here, KNOWN] != 0:
        return topology.first_correct(node, s, state.recovery.crashed[here], nodes)
    return topology.first_present(node, s, nodes)


@compiled.function()
def _height(state: State, here: int, sender: int, tag: int) -> int:
    """CHILDREN: a message from this sender is for our clusters 1 to this one."""
    node = state.hosted[here]
    if tag != DATA:
        return 0
    if state.setting[SHARED] != 0:
        return topology.height(node, ROOT, state.setting[NODES])
    return topology.cluster(node, sender) - 1


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    return learn_crash(state, here, crashed, host)


@compiled.register(admits, State)
def _admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    me = state.hosted[here]
    own = state.clock[entry_of(state, here, me) + RECEIVED]
    if tag < ENDED:
        if tag != DATA and state.setting[TOLERANT] == 0:
            return False
        if tag == DIRECT and source_of(host, value) != sender:
            return False
        return _is_stamp(state, here, value, host)
    if state.setting[TOLERANT] == 0 or value < 0:
        return False
    if tag == ENDED:
        crashed = value & NODE_MASK
        exists = crashed < state.setting[NODES] and crashed != me
        return bool(exists and value >> NODE_BITS <= own)
    if tag == ACKNOWLEDGED:
        return value <= own
    return value <= state.recovery.peer[peer_of(state, here, sender) + OUTSTANDING]


@compiled.function(inline=False)
def _is_stamp(state: State, here: int, slot: int, host: Host) -> bool:
    """Whether a stamp names members, once each, and counts that can be."""
    stamp = state.stamp[slot]
    nodes = state.setting[NODES]
    sequence = sequence_of(host, slot)
    if stamp[ENTRIES] < 0 or stamp[ENTRIES] >= nodes or not 0 <= stamp[STABLE] <= sequence:
        return False
    before = -1
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if not before < stamp[i] < nodes:
            return False
        before = stamp[i]
        ahead = 0 if before == state.hosted[here] else window(host)
        delivered = state.clock[entry_of(state, here, before) + DELIVERED]
        if not 0 <= stamp[i + 1] <= delivered + ahead:
            return False
    return True


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    # The source's own entry names the message; a pair of node and count takes 4 bytes (5.2).
    return ENTRY_BYTES * (1 + state.stamp[slot, ENTRIES] + state.setting[TOLERANT])
