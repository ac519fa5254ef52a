"""The compiled parts of the audit of a growing log, and its state: causes are processed first.

A node's rows are processed in order. A delivery is processed after its broadcast, so a node waits
at the first delivery of a message without a broadcast so far, with all its further rows. The past
of a message is then known when it is broadcast: one number for each source, the length of the
prefix of its messages in the past, the message's ``clock``. A delivery is in order iff the node has
all messages up to these numbers. The messages that a node has of a source are stored as gaps, so a
message that never arrives costs one gap, however many follow.

A node has its own message from the broadcast on. If it delivers the message later, every delivery
in between with that message in its past becomes a violation. The ring of a node has its deliveries
that depend on such a message.

Memory is 16 bytes for each pair of nodes, 12 for each place of the rings, and for each message that
some node may still deliver 4 bytes a node. It grows up to ``bytes_max``.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.model import EventKind

BROADCAST: Final = int(EventKind.BROADCAST)
DELIVER: Final = int(EventKind.DELIVER)
CRASH: Final = int(EventKind.CRASH)
JOIN: Final = int(EventKind.JOIN)
LEAVE: Final = int(EventKind.LEAVE)

# A message is one number: its source, and its sequence from 1.
SHIFT: Final = 32
MASK: Final = (1 << SHIFT) - 1
NOBODYS: Final = -1  # in place of a message: a label without a broadcast so far, or none

# Why ``take`` returns.
DONE: Final = 0
NO_ENTRY: Final = 1  # no room for another message
NO_GAP: Final = 2
NO_FINDING: Final = 3
FORGOTTEN: Final = 4  # a row needs what was dropped

# What happens to a delivery of what was not taken.
WAIT: Final = 0
SKIP_PHANTOMS: Final = 1  # all broadcasts are read
SKIP_ALL: Final = 2  # and what still waits has a circle in its past

TURN_ROWS: Final = 256

# Registers.
READY: Final = 0  # nodes in ``ready``
MODE: Final = 1
NEW: Final = 2  # rows of ``new``
FREE_ENTRY: Final = 3
FREE_GAP: Final = 4
VIOLATING: Final = 5  # messages
DROPPED: Final = 6  # messages whose entries are dropped
PATIENT: Final = 7  # 1: every message that some node may still deliver is kept
FIRST: Final = 8  # of ``ready``
REGISTERS: Final = 9

# Columns of ``counts``, a row a node.
ROWS: Final = 0  # broadcasts and deliveries taken: the position of the next
DELIVERIES: Final = 1
DUPLICATES: Final = 2
PHANTOM: Final = 3
VIOLATIONS: Final = 4
OWN: Final = 5
PROCESSED: Final = 6  # rows of every kind
FIFO: Final = 7  # violations in which an earlier message of the same source comes later
COUNTS: Final = 8


class Batch(NamedTuple):
    """Rows to take: node p's are ``offsets[p]`` to ``offsets[p + 1]``."""

    offsets: NDArray[np.int64]
    kind: NDArray[np.int8]
    message: NDArray[np.int64]  # or -2 - label
    label_message: NDArray[np.int64]  # label: its message, or NOBODYS
    read: NDArray[np.int64]  # node: its broadcasts that were read, taken or not


class State(NamedTuple):
    """All that is kept between two batches."""

    registers: NDArray[np.int64]
    counts: NDArray[np.int64]  # node, column
    taken: NDArray[np.int64]  # node: its broadcasts that were taken
    known: NDArray[np.int32]  # node, source: up to where its messages are in the node's past
    have: NDArray[np.int32]  # node, source: up to where the node has all of them
    top: NDArray[np.int32]  # node, source: the last that it has
    gap: NDArray[np.int32]  # node, source: the newest gap below, or -1
    gap_pair: NDArray[np.int64]  # gap: node and source, or -1 if it is free
    gap_first: NDArray[np.int32]
    gap_last: NDArray[np.int32]
    gap_next: NDArray[np.int32]  # the next older one of the pair, or the next free one
    table_message: NDArray[np.int64]  # a hash table: message, or NOBODYS
    table_entry: NDArray[np.int32]
    clock: NDArray[np.int32]  # entry, source
    entry_message: NDArray[np.int64]  # or NOBODYS if it is free
    entry_violating: NDArray[np.uint8]
    entry_next: NDArray[np.int32]  # the next free one
    ring_known: NDArray[np.int32]  # node, place: up to where its own messages are in the past
    ring_row: NDArray[np.int64]  # below 0: it is a violation already
    ring_entry: NDArray[np.int32]
    ring_begin: NDArray[np.int64]  # node
    ring_count: NDArray[np.int64]  # node
    ring_dropped: NDArray[np.int32]  # node: the highest ``ring_known`` that had no room
    joined: NDArray[np.uint8]  # node: it has what it did not deliver
    own_joined: NDArray[np.int64]  # node: up to where it joined with its own messages
    crashed: NDArray[np.uint8]  # node
    departed: NDArray[np.uint8]  # node
    gone: NDArray[np.uint8]  # node: no more is expected of it


class Queue(NamedTuple):
    """Nodes with a row that can be processed, and waiting nodes; built for each batch."""

    cursor: NDArray[np.int64]  # node: its next row
    ready: NDArray[np.int32]  # a ring of nodes
    waits_for: NDArray[np.int64]  # node: a message, NOBODYS if only its label is known
    is_waiting: NDArray[np.uint8]  # node
    waiter: NDArray[np.int32]  # source: the last node that waits for a message of it, or -1
    following: NDArray[np.int32]  # node: the one before it
    new: NDArray[np.int64]  # violation: node, position, message, what the node lacked


def take(batch: Batch, state: State, queue: Queue) -> int:
    """Take rows until every node is at its end or waits; or return what there is no room for.

    Nodes take turns: what one broadcasts, the others deliver soon, and its entry can be dropped.
    """
    registers = state.registers
    while registers[READY] > 0:
        node = int(queue.ready[registers[FIRST]])
        registers[FIRST] = (registers[FIRST] + 1) % queue.ready.size
        registers[READY] -= 1
        code = _take_of(node, batch, state, queue)
        if queue.cursor[node] < batch.offsets[node + 1] and queue.is_waiting[node] == 0:
            _make_ready(node, state, queue)
        if code != DONE:
            return code
    return DONE


@compiled.function()
def _make_ready(node: int, state: State, queue: Queue) -> None:
    registers = state.registers
    queue.ready[(registers[FIRST] + registers[READY]) % queue.ready.size] = node
    registers[READY] += 1


@compiled.function(inline=False)
def _take_of(node: int, batch: Batch, state: State, queue: Queue) -> int:
    """Take some rows of a node, up to one that has to wait."""
    counts = state.counts[node]
    end = min(queue.cursor[node] + TURN_ROWS, batch.offsets[node + 1])
    while queue.cursor[node] < end:
        row = queue.cursor[node]
        kind = batch.kind[row]
        message = batch.message[row]
        if message < NOBODYS:
            message = batch.label_message[-2 - message]
        code = DONE
        if kind == BROADCAST:
            counts[ROWS] += 1
            if state.registers[MODE] != SKIP_ALL:
                code = _broadcast(node, message, state, queue)
        elif kind == DELIVER:
            counts[ROWS] += 1
            if _is_one_of(message, state.taken):
                code = _deliver(node, message, state, queue)
            elif _has_to_wait(message, batch, state.registers[MODE]):
                counts[ROWS] -= 1
                _wait(node, message, state, queue)
                return DONE
            elif _is_one_of(message, batch.read):
                code = _leave_unjudged(node, message, state)
            else:
                counts[PHANTOM] += 1
                counts[DELIVERIES] += 1
        elif kind == JOIN:
            state.departed[node] = 0
            state.gone[node] = 0
            if batch.message[row] != NOBODYS:
                if _is_one_of(message, batch.read):
                    code = _join(node, message, state)
                elif state.registers[MODE] == WAIT:
                    _wait(node, message, state, queue)
                    return DONE
                else:
                    counts[PHANTOM] += 1
        elif kind == LEAVE:
            state.departed[node] = 1
            state.gone[node] = 1
        elif kind == CRASH:
            state.crashed[node] = 1
            state.gone[node] = 1
        if code != DONE:
            if kind in (BROADCAST, DELIVER):
                counts[ROWS] -= 1
            return code
        counts[PROCESSED] += 1
        queue.cursor[node] = row + 1
    return DONE


@compiled.function()
def _is_one_of(message: int, counts: NDArray[np.int64]) -> bool:
    """Return whether a message is within this prefix of its source."""
    source, sequence = message >> SHIFT, message & MASK
    return bool(
        message >= 0 and source < counts.size and sequence > 0 and sequence <= counts[source]
    )


@compiled.function()
def _has_to_wait(message: int, batch: Batch, mode: int) -> bool:
    """Return whether a delivery waits for a message that has not been processed."""
    return bool(mode == WAIT or (mode == SKIP_PHANTOMS and _is_one_of(message, batch.read)))


@compiled.function(inline=False)
def _wait(node: int, message: int, state: State, queue: Queue) -> None:
    queue.is_waiting[node] = 1
    queue.waits_for[node] = message
    source = message >> SHIFT
    if message >= 0 and source < state.taken.size:
        queue.following[node] = queue.waiter[source]
        queue.waiter[source] = node


@compiled.function(inline=False)
def _broadcast(node: int, message: int, state: State, queue: Queue) -> int:
    registers = state.registers
    entry = registers[FREE_ENTRY]
    if entry < 0:
        return NO_ENTRY
    registers[FREE_ENTRY] = state.entry_next[entry]
    clock = state.clock[entry]
    known = state.known[node]
    for source in range(known.size):
        clock[source] = known[source]
    sequence = message & MASK
    known[node] = sequence
    state.taken[node] = sequence
    state.entry_message[entry] = message
    state.entry_violating[entry] = 0
    place = _place(state.table_message, message)
    state.table_message[place] = message
    state.table_entry[place] = entry
    _wake(node, sequence, state, queue)
    return DONE


@compiled.function()
def _wake(source: int, sequence: int, state: State, queue: Queue) -> None:
    """Let nodes go on that wait for a message of a source up to this one."""
    before = -1
    node = int(queue.waiter[source])
    while node >= 0:
        following = int(queue.following[node])
        if queue.waits_for[node] & MASK <= sequence:
            queue.is_waiting[node] = 0
            _make_ready(node, state, queue)
            if before < 0:
                queue.waiter[source] = following
            else:
                queue.following[before] = following
        else:
            before = node
        node = following


@compiled.function()
def _place(table: NDArray[np.int64], message: int) -> int:
    """Index of a message in the table, or of its free place."""
    last = table.size - 1
    # Sequences are dense and sources few: mixing both spreads them over the table.
    place = ((message & MASK) * 31 + (message >> SHIFT) * 40503) & last
    while table[place] != message and table[place] != NOBODYS:
        place = (place + 1) & last
    return place


@compiled.function(inline=False)
def _deliver(node: int, message: int, state: State, queue: Queue) -> int:
    """Judge a delivery of a message whose past is known."""
    registers, counts = state.registers, state.counts[node]
    source, sequence = message >> SHIFT, message & MASK
    is_new = not _has(node, source, sequence, state)
    # What a node joined with is in no past, until it delivers that again.
    if not is_new and sequence <= state.known[node, source]:
        counts[DUPLICATES] += 1
        counts[DELIVERIES] += source != node
        return DONE
    place = _place(state.table_message, message)
    if state.table_message[place] != message:
        return FORGOTTEN
    if not is_new:
        _learn(state.known[node], state.clock[state.table_entry[place]], source, sequence)
        counts[DUPLICATES] += 1
        counts[DELIVERIES] += 1
        return DONE
    if registers[FREE_GAP] < 0:
        return NO_GAP
    if registers[NEW] + state.ring_count[node] + 1 > queue.new.shape[0]:
        return NO_FINDING
    if source == node and state.ring_dropped[node] >= sequence:
        return FORGOTTEN
    entry = int(state.table_entry[place])
    clock, have, known = state.clock[entry], state.have[node], state.known[node]
    lacking = 0
    for other in range(have.size):
        lacking += clock[other] > have[other]
    hangs = clock[node] > have[node]
    lacking -= hangs
    if lacking > 0:
        counts[FIFO] += source != node and clock[source] > have[source]
        _find(node, counts[ROWS] - 1, entry, _first_lacking(node, clock, have), state, queue)
    if lacking > 0 or state.joined[node] != 0:
        _learn(known, clock, source, sequence)
    known[source] = max(known[source], np.int32(sequence))
    _add(node, source, sequence, state)
    if source == node:
        counts[OWN] += 1
        _look_back(node, sequence, state, queue)
    else:
        counts[DELIVERIES] += 1
    if hangs and lacking == 0:
        _keep_in_ring(node, counts[ROWS] - 1, entry, state)
    elif hangs and source == node:
        _keep_in_ring(node, -counts[ROWS], entry, state)
    return DONE


@compiled.function(inline=False)
def _learn(known: NDArray[np.int32], clock: NDArray[np.int32], source: int, sequence: int) -> None:
    """The past of a message, and itself, are in a node's past from now on."""
    for other in range(known.size):
        known[other] = max(known[other], clock[other])
    known[source] = max(known[source], np.int32(sequence))


@compiled.function(inline=False)
def _first_lacking(node: int, clock: NDArray[np.int32], have: NDArray[np.int32]) -> int:
    """The first message of the first source that a node lacks."""
    for other in range(have.size):
        if clock[other] > have[other] and other != node:
            return (other << SHIFT) | (int(have[other]) + 1)
    return NOBODYS


@compiled.function(inline=False)
def _find(node: int, row: int, entry: int, lacked: int, state: State, queue: Queue) -> None:
    """Note a violation."""
    registers = state.registers
    violation = queue.new[registers[NEW]]
    violation[0] = node
    violation[1] = row
    violation[2] = state.entry_message[entry]
    violation[3] = lacked
    registers[NEW] += 1
    state.counts[node, VIOLATIONS] += 1
    if state.entry_violating[entry] == 0:
        state.entry_violating[entry] = 1
        registers[VIOLATING] += 1


@compiled.function(inline=False)
def _keep_in_ring(node: int, row: int, entry: int, state: State) -> None:
    """Remember a delivery that an own delivery may turn into a violation."""
    size = state.ring_known.shape[1]
    if state.ring_count[node] == size:
        first = state.ring_begin[node]
        dropped = state.ring_known[node, first]
        state.ring_dropped[node] = max(state.ring_dropped[node], dropped)
        state.ring_begin[node] = (first + 1) & (size - 1)
        state.ring_count[node] -= 1
    place = (state.ring_begin[node] + state.ring_count[node]) & (size - 1)
    state.ring_known[node, place] = state.clock[entry, node]
    state.ring_row[node, place] = row
    state.ring_entry[node, place] = entry
    state.ring_count[node] += 1


@compiled.function(inline=False)
def _look_back(node: int, sequence: int, state: State, queue: Queue) -> None:
    """After the first delivery of an own message: what hung on it is a violation."""
    size = state.ring_known.shape[1]
    begin = state.ring_begin[node]
    for i in range(state.ring_count[node]):
        place = (begin + i) & (size - 1)
        if state.ring_known[node, place] >= sequence:
            state.ring_known[node, place] = 0
            entry = int(state.ring_entry[node, place])
            row = state.ring_row[node, place]
            if row >= 0:
                _find(node, row, entry, (node << SHIFT) | sequence, state, queue)
            state.counts[node, FIFO] += state.entry_message[entry] >> SHIFT == node
    have = state.have[node, node]
    while state.ring_count[node] > 0 and state.ring_known[node, begin] <= have:
        begin = (begin + 1) & (size - 1)
        state.ring_begin[node] = begin
        state.ring_count[node] -= 1


@compiled.function(inline=False)
def _leave_unjudged(node: int, message: int, state: State) -> int:
    """Count a delivery of a message with a circle in its past."""
    counts = state.counts[node]
    source, sequence = message >> SHIFT, message & MASK
    if _has(node, source, sequence, state):
        counts[DUPLICATES] += 1
    else:
        if state.registers[FREE_GAP] < 0:
            return NO_GAP
        _add(node, source, sequence, state)
        counts[OWN] += source == node
    counts[DELIVERIES] += source != node
    return DONE


@compiled.function()
def _has(node: int, source: int, sequence: int, state: State) -> bool:
    """Return whether a node has a message of a source."""
    if sequence <= state.have[node, source]:
        return True
    if sequence > state.top[node, source]:
        return False
    gap = int(state.gap[node, source])
    while gap >= 0 and sequence < state.gap_first[gap]:
        gap = int(state.gap_next[gap])
    return bool(gap < 0 or sequence > state.gap_last[gap])


@compiled.function(inline=False)
def _add(node: int, source: int, sequence: int, state: State) -> None:
    """From now on a node has this message; the caller has made sure of a free gap."""
    top = int(state.top[node, source])
    if sequence > top:
        if sequence > top + 1:
            _open_gap(node, source, top + 1, sequence - 1, -1, state)
        state.top[node, source] = sequence
    else:
        before = -1
        gap = int(state.gap[node, source])
        while sequence < state.gap_first[gap]:
            before, gap = gap, int(state.gap_next[gap])
        if state.gap_first[gap] == state.gap_last[gap]:
            _close_gap(node, source, before, gap, state)
        elif sequence == state.gap_first[gap]:
            state.gap_first[gap] = sequence + 1
        elif sequence == state.gap_last[gap]:
            state.gap_last[gap] = sequence - 1
        else:
            _open_gap(node, source, sequence + 1, state.gap_last[gap], before, state)
            state.gap_last[gap] = sequence - 1
    _set_have(node, source, state)


@compiled.function()
def _set_have(node: int, source: int, state: State) -> None:
    gap = int(state.gap[node, source])
    if gap < 0:
        state.have[node, source] = state.top[node, source]
        return
    while state.gap_next[gap] >= 0:
        gap = int(state.gap_next[gap])
    state.have[node, source] = state.gap_first[gap] - 1


@compiled.function(inline=False)
def _open_gap(node: int, source: int, first: int, last: int, before: int, state: State) -> None:
    """A gap in front of the one behind ``before``, or in front of all."""
    gap = state.registers[FREE_GAP]
    state.registers[FREE_GAP] = state.gap_next[gap]
    state.gap_pair[gap] = node * state.taken.size + source
    state.gap_first[gap] = first
    state.gap_last[gap] = last
    if before < 0:
        state.gap_next[gap] = state.gap[node, source]
        state.gap[node, source] = gap
    else:
        state.gap_next[gap] = state.gap_next[before]
        state.gap_next[before] = gap


@compiled.function(inline=False)
def _close_gap(node: int, source: int, before: int, gap: int, state: State) -> None:
    if before < 0:
        state.gap[node, source] = state.gap_next[gap]
    else:
        state.gap_next[before] = state.gap_next[gap]
    state.gap_pair[gap] = -1
    state.gap_next[gap] = state.registers[FREE_GAP]
    state.registers[FREE_GAP] = gap


@compiled.function(inline=False)
def _join(node: int, message: int, state: State) -> int:
    """From now on a node has a message and the earlier ones of its source.

    What it broadcast itself it has anyway, but need not deliver any more.
    """
    source, sequence = message >> SHIFT, message & MASK
    if source == node:
        state.own_joined[node] = max(state.own_joined[node], sequence)
        return DONE
    state.joined[node] = 1
    before = -1
    gap = int(state.gap[node, source])
    while gap >= 0:
        following = int(state.gap_next[gap])
        if state.gap_last[gap] <= sequence:
            _close_gap(node, source, before, gap, state)
        else:
            state.gap_first[gap] = max(int(state.gap_first[gap]), sequence + 1)
            before = gap
        gap = following
    state.top[node, source] = max(int(state.top[node, source]), sequence)
    _set_have(node, source, state)
    return DONE


def sweep(state: State, lowest: NDArray[np.int64], held: NDArray[np.int64], drop: int) -> int:
    """Rebuild the table and the list of free entries; return the number of free entries.

    With ``drop``, entries of messages that no node will deliver any more are dropped. ``held``
    counts for each node the entries that are kept because of it; ``lowest`` is working space, one
    number for each node.
    """
    nodes = state.taken.size
    patient = state.registers[PATIENT] != 0
    for source in range(nodes):
        lowest[source] = int(state.taken[source])
        for node in range(nodes):
            if _is_awaited(node, source, patient, state):
                lowest[source] = min(lowest[source], int(state.have[node, source]))
            if patient and state.joined[node] != 0:
                lowest[source] = min(lowest[source], int(state.known[node, source]))
    in_ring = 2  # a third value next to 0 and 1 of ``entry_violating``
    for node in range(nodes):
        for i in range(state.ring_count[node]):
            place = (state.ring_begin[node] + i) & (state.ring_known.shape[1] - 1)
            state.entry_violating[state.ring_entry[node, place]] |= in_ring
    for place in range(state.table_message.size):
        state.table_message[place] = NOBODYS
    held[:] = 0
    free = 0
    state.registers[FREE_ENTRY] = -1
    for entry in range(state.entry_message.size - 1, -1, -1):
        message = state.entry_message[entry]
        kept = message != NOBODYS
        if drop == 0:
            pass
        elif kept and message & MASK <= lowest[message >> SHIFT]:
            kept = state.entry_violating[entry] & in_ring != 0
        elif kept:
            is_awaited = _count_holders(message, patient, state, held)
            kept = is_awaited or state.entry_violating[entry] & in_ring != 0
        state.entry_violating[entry] &= 1
        if kept:
            place = _place(state.table_message, message)
            state.table_message[place] = message
            state.table_entry[place] = entry
        else:
            state.registers[DROPPED] += message != NOBODYS
            state.entry_message[entry] = NOBODYS
            state.entry_next[entry] = state.registers[FREE_ENTRY]
            state.registers[FREE_ENTRY] = entry
            free += 1
    return free


@compiled.function()
def _is_awaited(node: int, source: int, patient: bool, state: State) -> bool:
    """Return whether a node may still deliver messages of a source that it lacks."""
    if node == source:
        return bool(patient or state.counts[node, OWN] > 0)
    return bool(patient or state.gone[node] == 0)


@compiled.function(inline=False)
def _count_holders(message: int, patient: bool, state: State, held: NDArray[np.int64]) -> bool:
    """Count for each node that it may still deliver a message; whether any may."""
    source, sequence = message >> SHIFT, message & MASK
    is_awaited = False
    for node in range(state.taken.size):
        lacks = _is_awaited(node, source, patient, state) and not _has(
            node, source, sequence, state
        )
        if patient and state.joined[node] != 0 and sequence > state.known[node, source]:
            lacks = True
        held[node] += lacks
        is_awaited = is_awaited or lacks
    return is_awaited


TAKE: Final = compiled.Entry(take, label="the audit of growing logs", job="audit")
SWEEP: Final = compiled.Entry(sweep, label="the audit of growing logs", job="audit")


class Room(NamedTuple):
    """Start sizes of the tables, powers of two; tables grow when they are full."""

    entries: int  # messages
    ring: int  # places of a node's ring
    gaps: int


SMALL: Final = Room(entries=1 << 6, ring=1 << 6, gaps=1 << 6)  # one of thousands of logs


def room_of_log(nodes: int) -> Room:
    """Room for a log that has a process to itself."""
    entries = min(max((1 << 20) // max(nodes, 1), 1 << 10), 1 << 16)
    ring = min(max((1 << 19) // max(nodes, 1), 1 << 10), 1 << 16)
    return Room(_power(entries), _power(ring), 1 << 10)


_BY_NODE: Final = ("taken", "ring_begin", "ring_count", "ring_dropped", "joined", "own_joined")
_FLAGS: Final = ("crashed", "departed", "gone")
_BY_PAIR: Final = ("known", "have", "top", "gap")


def make(nodes: int, room: Room, *, patient: bool = False) -> State:
    """The state before the first row."""
    entries, places, gaps = room
    registers = np.zeros(REGISTERS, np.int64)
    registers[PATIENT] = patient
    state = State(
        registers=registers,
        counts=np.zeros((nodes, COUNTS), np.int64),
        taken=np.zeros(nodes, np.int64),
        known=np.zeros((nodes, nodes), np.int32),
        have=np.zeros((nodes, nodes), np.int32),
        top=np.zeros((nodes, nodes), np.int32),
        gap=np.full((nodes, nodes), -1, np.int32),
        gap_pair=np.full(gaps, -1, np.int64),
        gap_first=np.zeros(gaps, np.int32),
        gap_last=np.zeros(gaps, np.int32),
        gap_next=_chain(0, gaps),
        table_message=np.full(2 * entries, NOBODYS, np.int64),
        table_entry=np.zeros(2 * entries, np.int32),
        clock=np.zeros((entries, nodes), np.int32),
        entry_message=np.full(entries, NOBODYS, np.int64),
        entry_violating=np.zeros(entries, np.uint8),
        entry_next=_chain(0, entries),
        ring_known=np.zeros((nodes, places), np.int32),
        ring_row=np.zeros((nodes, places), np.int64),
        ring_entry=np.zeros((nodes, places), np.int32),
        ring_begin=np.zeros(nodes, np.int64),
        ring_count=np.zeros(nodes, np.int64),
        ring_dropped=np.zeros(nodes, np.int32),
        joined=np.zeros(nodes, np.uint8),
        own_joined=np.zeros(nodes, np.int64),
        crashed=np.zeros(nodes, np.uint8),
        departed=np.zeros(nodes, np.uint8),
        gone=np.zeros(nodes, np.uint8),
    )
    return state


def _power(number: int) -> int:
    return 1 << max(number - 1, 1).bit_length()


def _chain(first: int, end: int) -> NDArray[np.int32]:
    """A list of free places ``first`` to ``end``."""
    chain = np.arange(first + 1, end + 1, dtype=np.int32)
    chain[-1] = -1
    return chain


def size_bytes(state: State) -> int:
    """Size of the arrays in bytes."""
    return sum(array.nbytes for array in state)


def with_more_entries(state: State) -> State:
    """Room for twice as many messages."""
    entries = state.entry_message.size
    state.registers[FREE_ENTRY] = entries
    larger = state._replace(
        clock=_longer(state.clock, 2 * entries, 0),
        entry_message=_longer(state.entry_message, 2 * entries, NOBODYS),
        entry_violating=_longer(state.entry_violating, 2 * entries, 0),
        entry_next=np.concatenate((state.entry_next, _chain(entries, 2 * entries))),
        table_message=np.full(4 * entries, NOBODYS, np.int64),
        table_entry=np.zeros(4 * entries, np.int32),
    )
    return larger


def with_larger_rings(state: State, places: int) -> State:
    """Room for at least this number of places in the ring of every node."""
    before = state.ring_known.shape[1]
    order = (state.ring_begin[:, None] + np.arange(before)) & (before - 1)
    changed: dict[str, Any] = {}
    for name in ("ring_known", "ring_row", "ring_entry"):
        ring = getattr(state, name)
        changed[name] = np.zeros((ring.shape[0], _power(places)), ring.dtype)
        changed[name][:, :before] = np.take_along_axis(ring, order, axis=1)
    return state._replace(**changed, ring_begin=np.zeros_like(state.ring_begin))


def with_more_gaps(state: State) -> State:
    """Room for twice as many gaps; there is no free one."""
    gaps = state.gap_pair.size
    state.registers[FREE_GAP] = gaps
    return state._replace(
        gap_pair=_longer(state.gap_pair, 2 * gaps, -1),
        gap_first=_longer(state.gap_first, 2 * gaps, 0),
        gap_last=_longer(state.gap_last, 2 * gaps, 0),
        gap_next=np.concatenate((state.gap_next, _chain(gaps, 2 * gaps))),
    )


def with_more_nodes(state: State, nodes: int) -> State:
    """Room for nodes that have just appeared."""
    before = state.taken.size
    if nodes == before:
        return state
    changed: dict[str, Any] = {}
    for name in ("counts", *_BY_NODE, *_FLAGS, "ring_known", "ring_row", "ring_entry"):
        changed[name] = _longer(getattr(state, name), nodes, 0)
    for name in _BY_PAIR:
        fill = -1 if name == "gap" else 0
        wider = np.full((nodes, nodes), fill, np.int32)
        wider[:before, :before] = getattr(state, name)
        changed[name] = wider
    changed["clock"] = np.zeros((state.clock.shape[0], nodes), np.int32)
    changed["clock"][:, :before] = state.clock
    used = state.gap_pair >= 0
    pair = state.gap_pair.copy()
    pair[used] = pair[used] // before * nodes + pair[used] % before
    return state._replace(gap_pair=pair, **changed)


def _longer(array: NDArray[Any], length: int, fill: int) -> NDArray[Any]:
    longer = np.full((length, *array.shape[1:]), fill, array.dtype)
    longer[: array.shape[0]] = array
    return longer


def missing(state: State, sent: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each node and source how many of its messages the node does not have."""
    nodes = state.taken.size
    absent: NDArray[np.int64] = sent[None, :] - state.top
    used = np.flatnonzero(state.gap_pair >= 0)
    lengths = state.gap_last[used].astype(np.int64) - state.gap_first[used] + 1
    np.add.at(absent.reshape(-1), state.gap_pair[used], lengths)
    for node in np.flatnonzero(state.own_joined):
        # Own messages that the node joined with and never delivered.
        covered = int(state.own_joined[node])
        lacked = max(covered - int(state.top[node, node]), 0)
        for gap in used[state.gap_pair[used] == node * nodes + node]:
            first, last = int(state.gap_first[gap]), int(state.gap_last[gap])
            lacked += max(min(last, covered) - first + 1, 0)
        absent[node, node] -= lacked
    return absent
