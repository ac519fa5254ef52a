"""Causal broadcast over the trees of a virtual hypercube, messages aggregated on the way.

Source: paper 000 (de Araujo et al., ICPP 2018), Algorithms 1 and 2, with the errors of the
printed pseudo-code mended (docs/protocols/vcube.md lists them).

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
24 bytes for each process and node (52 with ``tolerant``) and 8 N bytes for each message in use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled, topology
from precedes.model import UserError
from precedes.protocols import vcube_recovery as recover
from precedes.protocols import vcube_waiting as wait
from precedes.protocols.contract import (
    DONE,
    FULL,
    LENGTH,
    MESSAGE,
    NUMBER,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
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
)
from precedes.protocols.vcube_recovery import DATA, DIRECT, ENDED, RELAY, RELAYED, Recovery
from precedes.protocols.vcube_waiting import (
    BLOCKED,
    CLOCK_WORDS,
    DELIVERED,
    DELIVERING,
    FORWARDING,
    NONE,
    RECEIVED,
    UNSERVED,
    Waiting,
)

ITEMS: Final = (MESSAGE, MESSAGE, MESSAGE, NUMBER, NUMBER, NUMBER)
MESSAGE_FIELDS: Final = ("stamp",)
GUARANTEE: Final = "causal"
ASSUMES: Final = frozenset({"reliable", "unique"})

TREES: Final = ("source", "shared")
ROOT: Final = 0  # of the shared tree

# Words of a message's stamp, then pairs of a node and a count.
ENTRIES: Final = 0
STABLE: Final = 1
FIRST_ENTRY: Final = 2

# Words of a process.
WAITING: Final = 0  # messages that wait at it
WAITING_MAX: Final = 1
ARRIVALS: Final = 2
DELAYED: Final = 3  # messages not delivered on arrival
PROCESS_WORDS: Final = 4

# Places in ``setting``.
NODES: Final = 0
DIMENSION: Final = 1
AGGREGATES: Final = 2
SHARED: Final = 3
TOLERANT: Final = 4
ENTRY_BYTES: Final = 4


@dataclass(frozen=True)
class Parameters:
    """Whether to aggregate, over which trees, and whether crashes are tolerated."""

    aggregation: bool = field(
        default=True, metadata={"help": "hold what a child cannot deliver yet, and send it later"}
    )
    trees: str = field(
        default="source",
        metadata={"help": "source: a tree for each; shared: all over the tree of node 0"},
    )
    tolerant: bool = field(
        default=True, metadata={"help": "keep messages, so that survivors recover from crashes"}
    )

    def __post_init__(self) -> None:
        if self.trees not in TREES:
            raise UserError(f"trees must be one of {', '.join(TREES)}, not {self.trees!r}")
        if self.trees == "shared" and self.tolerant:
            raise UserError(
                "a shared tree does not survive the crash of its root: set tolerant=false with "
                "trees=shared"
            )


class State(NamedTuple):
    """Rows of ``stamp`` belong to messages, all others to hosted processes."""

    clock: Int32s  # process, source: the words of ``vcube_waiting``
    stamped: Int32s  # process, source: the count in its last broadcast
    newest: Int32s  # process, source: row of the last message received without a gap
    stamp: Int32s
    waiting: Waiting
    recovery: Recovery
    process: Int64s
    dependencies: Int64s  # so many entries in a stamp -> broadcasts
    hosted: Int32s
    setting: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    processes, nodes = len(group.hosted), group.nodes
    setting = np.zeros(5, np.int64)
    setting[NODES], setting[DIMENSION] = nodes, topology.dimension(nodes)
    setting[AGGREGATES] = parameters.aggregation
    setting[SHARED] = parameters.trees == "shared"
    setting[TOLERANT] = parameters.tolerant
    # Far more messages are kept than wait.
    rows = -(-capacity.held // 4) if parameters.tolerant else capacity.held
    return State(
        clock=wait.allocate_clock(processes, nodes),
        stamped=np.zeros((processes, nodes), np.int32),
        newest=np.zeros((processes, nodes), np.int32),
        stamp=np.zeros((capacity.slots, FIRST_ENTRY + 2 * nodes), np.int32),
        waiting=wait.allocate(rows),
        recovery=recover.allocate(
            on=parameters.tolerant, processes=processes, nodes=nodes, rows=capacity.held
        ),
        process=np.zeros((processes, PROCESS_WORDS), np.int64),
        dependencies=np.zeros(nodes, np.int64),
        hosted=np.array(group.hosted, np.int32),
        setting=setting,
    )


def effects_words(capacity: Capacity, nodes: int) -> int:
    """Handlers ask for more by returning FULL, as long as it takes."""
    return 1024 + 64 * nodes + 2 * capacity.held


def extra(state: State) -> dict[str, float]:
    """Counts over all processes; ``waiting`` is without those that some process saw crash."""
    correct = np.ones(len(state.hosted), bool)
    discarded = kept = 0
    if state.setting[TOLERANT]:
        correct = ~state.recovery.crashed.any(axis=0)[state.hosted]
        discarded = int(state.recovery.own[correct, recover.DISCARDED].sum())
        kept = int(state.recovery.own[correct, recover.KEPT].sum())
    return {
        "waiting_at_end": int(state.process[correct, WAITING].sum()),
        "waiting_max": int(state.process[:, WAITING_MAX].max()),
        "delayed": int(state.process[:, DELAYED].sum()),
        "dependencies_max": int(np.flatnonzero(state.dependencies).max(initial=0)),
        "kept_at_end": kept,
        "discarded": discarded,
    }


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    nodes = state.setting[NODES]
    tolerant = state.setting[TOLERANT] != 0
    if not _has_effects(host, 5 * nodes + 64) or (
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
        recover.retain(state.recovery, here, node, slot, host)
        if state.recovery.own[here, recover.DIRECT_FROM] != 0:
            _send_to_all(state, here, slot, host)
            return DONE
    if state.setting[SHARED] != 0 and node != ROOT:
        send(host, ROOT, DATA, slot)
        return DONE
    for s in range(1, state.setting[DIMENSION] + 1):
        child = _child(state, here, s)
        if child != NONE:
            send(host, child, DATA, slot)
    return DONE


@compiled.function()
def _has_effects(host: Host, words: int) -> bool:
    return host.cursor[LENGTH] + words <= host.effects.size


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


@compiled.function()
def _child(state: State, here: int, s: int) -> int:
    """FIRSTCHILD: who is sent what is for our cluster s, or NONE."""
    node = state.hosted[here]
    nodes = state.setting[NODES]
    if state.setting[TOLERANT] != 0 and state.recovery.own[here, recover.KNOWN] != 0:
        return topology.first_correct(node, s, state.recovery.crashed[here], nodes)
    return topology.first_present(node, s, nodes)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if not _has_room(state, here, inbox, count, host):
        return FULL
    if state.setting[TOLERANT] != 0 and state.recovery.crashed[here, sender] != 0:
        _ignore(inbox, count, host)
        return DONE
    arrivals = state.process[here, ARRIVALS]
    chosen = _accept(state, here, sender, inbox, count, host)
    _forward(state, here, chosen, host)
    _deliver(state, here, chosen, arrivals, host)
    if tag_of(inbox, 0) >= ENDED:
        _hear(state, here, sender, inbox, count, host)
    return DONE


@compiled.function(inline=False)
def _has_room(state: State, here: int, inbox: Int64s, count: int, host: Host) -> bool:
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
    return _has_effects(host, words) and wait.has_room(state.waiting, count)


@compiled.function(inline=False)
def _ignore(inbox: Int64s, count: int, host: Host) -> None:
    for i in range(count):
        if tag_of(inbox, i) < ENDED:
            drop(host, value_of(inbox, i))


@compiled.function()
def _accept(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
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
        source = source_of(host, slot)
        if source == state.hosted[here]:
            # Only over a shared tree: our own message on its way to our children.
            _pass_on(state, here, _height(state, here, sender, tag), slot, host)
            drop(host, slot)
        elif _is_known(state, here, source, sequence_of(host, slot), host):
            drop(host, slot)
        else:
            chosen = _take(state, here, slot, _height(state, here, sender, tag), chosen, host)
    if relayed > 0:
        send(host, sender, RELAYED, relayed)
    return chosen


@compiled.function()
def _height(state: State, here: int, sender: int, tag: int) -> int:
    """How many of our clusters a message from this sender is for."""
    node = state.hosted[here]
    if tag != DATA:
        return 0
    if state.setting[SHARED] != 0:
        return topology.height(node, ROOT, state.setting[NODES])
    return topology.cluster(node, sender) - 1


@compiled.function(inline=False)
def _is_known(state: State, here: int, source: int, sequence: int, host: Host) -> bool:
    """Whether a message has been received before, or is dead."""
    place = here * state.setting[NODES] + source
    if sequence <= state.clock[CLOCK_WORDS * place + RECEIVED]:
        return True
    if state.setting[TOLERANT] != 0:
        if sequence > state.recovery.word[recover.WORDS * place + recover.LIMIT]:
            return True
    row = state.clock[CLOCK_WORDS * place + FORWARDING]
    while row != NONE:
        slot = state.waiting.row[row + wait.SLOT]
        if source_of(host, slot) == source and sequence_of(host, slot) == sequence:
            return True
        row = state.waiting.row[row + wait.LINK]
    return False


@compiled.function(inline=False)
def _take(state: State, here: int, slot: int, height: int, chosen: int, host: Host) -> int:
    """A new message: let it wait, and count its reception if none before it is missing."""
    process = state.process[here]
    process[WAITING] += 1
    row = wait.take(state.waiting, slot, process[ARRIVALS])
    process[ARRIVALS] += 1
    source = source_of(host, slot)
    sequence = sequence_of(host, slot)
    at = CLOCK_WORDS * (here * state.setting[NODES] + source)
    if state.setting[TOLERANT] != 0:
        _prepare_recovery(state, here, slot, source, host)
    if state.setting[AGGREGATES] == 0:
        _pass_on(state, here, height, slot, host)
        height = 0
    state.waiting.row[row + UNSERVED] = height
    state.waiting.row[row + BLOCKED] = state.setting[DIMENSION] + 1
    if sequence > state.clock[at + RECEIVED] + 1:
        wait.await_entry(state.waiting, row, source, sequence - 1)
        wait.link(state.waiting, state.clock, at + FORWARDING, row)
        return chosen
    _count_received(state, here, source, row)
    state.waiting.chosen[chosen] = row
    return _choose_awaiting(state, here, source, chosen + 1, host)


@compiled.function(inline=False)
def _prepare_recovery(state: State, here: int, slot: int, source: int, host: Host) -> None:
    """Keep a message, and learn from its stamp what others have and keep."""
    recovery = state.recovery
    node = state.hosted[here]
    stamp = state.stamp[slot]
    recover.retain(recovery, here, source, slot, host)
    if recovery.crashed[here, source] != 0:
        recover.relay_latest(recovery, here, node, source, host)
        return
    recover.release(recovery, here, source, stamp[STABLE], host)
    for i in range(stamp[ENTRIES]):
        if stamp[FIRST_ENTRY + 2 * i] == node:
            has = stamp[FIRST_ENTRY + 2 * i + 1]
            recover.confirm(recovery, here, node, source, has, host)
    received = state.clock[CLOCK_WORDS * (here * state.setting[NODES] + source) + RECEIVED]
    recover.acknowledge(recovery, here, source, received, state.stamped[here, source], host)


@compiled.function(inline=False)
def _pass_on(state: State, here: int, height: int, slot: int, host: Host) -> None:
    """Send a message to all our children in its tree at once, alone."""
    for s in range(1, height + 1):
        child = _child(state, here, s)
        if child != NONE:
            send(host, child, DATA, slot)


@compiled.function()
def _count_received(state: State, here: int, source: int, row: int) -> None:
    state.waiting.row[row + wait.PREDECESSOR] = state.newest[here, source]
    state.newest[here, source] = row
    state.clock[CLOCK_WORDS * (here * state.setting[NODES] + source) + RECEIVED] += 1


@compiled.function(inline=False)
def _choose_awaiting(state: State, here: int, source: int, chosen: int, host: Host) -> int:
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
                child = _child(state, here, s)
                if child == NONE:
                    return
                open_packet(host, child)
            put(host, DATA, rows[row + wait.SLOT])


@compiled.function(inline=False)
def _find_blocked(state: State, here: int, row: int, host: Host) -> None:
    """The highest of our clusters that cannot deliver a message yet, and what it lacks.

    A cluster s lacks what we have not received and are to send there: messages of sources in
    whose tree we serve s (lines 25 and 26). What serves a cluster serves all below it. All that
    the source's earlier message lacks is lacking here too: a stamp has only what changed since.
    """
    rows, clock = state.waiting.row, state.clock
    nodes = state.setting[NODES]
    slot = rows[row + wait.SLOT]
    source = source_of(host, slot)
    rows[row + BLOCKED] = 0
    if state.setting[AGGREGATES] == 0:
        return
    if state.setting[TOLERANT] != 0 and state.recovery.crashed[here, source] != 0:
        rows[row + UNSERVED] = 0  # it has been relayed to everybody
    stamp = state.stamp[slot]
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if clock[CLOCK_WORDS * (here * nodes + stamp[i]) + RECEIVED] < stamp[i + 1]:
            root = ROOT if state.setting[SHARED] != 0 else stamp[i]
            height = topology.height(state.hosted[here], root, nodes)
            if height > rows[row + BLOCKED]:
                rows[row + BLOCKED] = height
                wait.await_entry(state.waiting, row, stamp[i], stamp[i + 1])
    at = CLOCK_WORDS * (here * nodes + source)
    if sequence_of(host, slot) - 1 > clock[at + DELIVERED]:
        earlier = rows[row + wait.PREDECESSOR]
        if rows[earlier + BLOCKED] > rows[row + BLOCKED]:
            rows[row + BLOCKED] = rows[earlier + BLOCKED]
            wait.await_entry(
                state.waiting, row, rows[earlier + wait.ENTRY], rows[earlier + wait.VALUE]
            )


@compiled.function(inline=False)
def _deliver(state: State, here: int, chosen: int, arrivals: int, host: Host) -> None:
    """CHECKDELIVERY: deliver what can be, until nothing more can.

    Only after everything has been forwarded: a message delivered is forgotten (line 22 stands
    inside the loop of line 16, which loses messages downstream).
    """
    rows, clock, process = state.waiting.row, state.clock, state.process[here]
    first = last = NONE
    for i in range(chosen):
        row = state.waiting.chosen[i]
        if rows[row + BLOCKED] == 0:
            first, last = _append(rows, first, last, row)
    while first != NONE:
        row = first
        first = rows[row + wait.LINK]
        slot = rows[row + wait.SLOT]
        source = source_of(host, slot)
        if _misses_delivery(state, here, row, source, sequence_of(host, slot)):
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
                first, last = _append(rows, first, last, row)
            else:
                before = row
            row = following
    process[WAITING_MAX] = max(process[WAITING_MAX], process[WAITING])


@compiled.function()
def _append(rows: Int32s, first: int, last: int, row: int) -> tuple[int, int]:
    """Put a row that is on no list behind a queue; its new ends."""
    rows[row + wait.LINK] = NONE
    if first == NONE:
        return row, row
    rows[last + wait.LINK] = row
    return first, row


@compiled.function(inline=False)
def _misses_delivery(state: State, here: int, row: int, source: int, sequence: int) -> bool:
    """Whether something of the message's past is undelivered; the row then awaits it."""
    clock = state.clock
    at = CLOCK_WORDS * here * state.setting[NODES]
    if clock[at + CLOCK_WORDS * source + DELIVERED] < sequence - 1:
        wait.await_entry(state.waiting, row, source, sequence - 1)
        return True
    stamp = state.stamp[state.waiting.row[row + wait.SLOT]]
    for i in range(FIRST_ENTRY, FIRST_ENTRY + 2 * stamp[ENTRIES], 2):
        if clock[at + CLOCK_WORDS * stamp[i] + DELIVERED] < stamp[i + 1]:
            wait.await_entry(state.waiting, row, stamp[i], stamp[i + 1])
            return True
    return False


@compiled.function(inline=False)
def _hear(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    """The items of a packet about crashes."""
    node = state.hosted[here]
    own = state.clock[CLOCK_WORDS * (here * state.setting[NODES] + node) + RECEIVED]
    for i in range(count):
        tag, value = tag_of(inbox, i), value_of(inbox, i)
        if tag >= ENDED:
            recover.hear(state.recovery, here, node, sender, tag, value, own, host)
    _go_on(state, here, host)


@compiled.register(on_crash, State)
def _on_crash(state: State, here: int, crashed: int, host: Host) -> int:
    if state.setting[TOLERANT] == 0 or state.recovery.crashed[here, crashed] != 0:
        return DONE
    recovery = state.recovery
    mine = recovery.own[here]
    relayed = recover.length(recovery, here, crashed)
    words = state.setting[NODES] * (8 + 2 * relayed + 2 * mine[recover.KNOWN])
    words += 2 * mine[recover.KEPT] + 5 * state.process[here, WAITING]
    if not _has_effects(host, words):
        return FULL
    node = state.hosted[here]
    own = state.clock[CLOCK_WORDS * (here * state.setting[NODES] + node) + RECEIVED]
    recover.learn(recovery, here, node, crashed, own, host)
    _go_on(state, here, host)
    return DONE


@compiled.function(inline=False)
def _go_on(state: State, here: int, host: Host) -> None:
    """End with crashes, broadcast over trees again and discard what is dead, when it is time."""
    recovery = state.recovery
    node = state.hosted[here]
    recover.announce(recovery, here, node, state.clock, host)
    if recovery.own[here, recover.KNOWN] != 0 and recover.is_calm(recovery, here, node):
        recovery.own[here, recover.DIRECT_FROM] = 0
        state.process[here, WAITING] -= recover.discard_dead(
            recovery, here, state.waiting, state.clock, state.stamp, host
        )


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    # The source's own entry names the message; a pair of node and count takes 4 bytes (5.2).
    return ENTRY_BYTES * (1 + state.stamp[slot, ENTRIES] + state.setting[TOLERANT])
