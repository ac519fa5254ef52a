"""Parameters and state of ``vcube``: fields of messages, and the state of a node, in arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.contract import Capacity, Group, Host, Int32s, Int64s
from precedes.errors import UserError
from precedes.parts import pool, topology
from precedes.parts.pool import NONE

TREES: Final = ("source", "shared")

# Tags of a packet's items: places in ITEMS.
DATA: Final = 0
DIRECT: Final = 1
RELAY: Final = 2
ENDED: Final = 3
ACKNOWLEDGED: Final = 4
RELAYED: Final = 5

NODE_BITS: Final = 20  # of a node's number in an ENDED item; the count is above it
NODE_MASK: Final = (1 << NODE_BITS) - 1

# Words of a message's stamp, then pairs of a node and a count.
ENTRIES: Final = 0
STABLE: Final = 1  # number of messages of its source that all have
FIRST_ENTRY: Final = 2

# Places in ``queue``: the ends of the queue of rows that may be deliverable.
FIRST: Final = 0
LAST: Final = 1

# Numbers of direct dependencies that broadcasts are counted by (Figure 6).
DEPENDENCIES: Final = {
    "broadcasts_needing_0": (0, 0),
    "broadcasts_needing_1_to_4": (1, 4),
    "broadcasts_needing_5_to_9": (5, 9),
    "broadcasts_needing_10_to_12": (10, 12),
}
# Maximum messages that waited at a node at some time, by which nodes are counted (Figure 9).
WAITED: Final = {
    "nodes_waiting_up_to_50": (0, 50),
    "nodes_waiting_51_to_100": (51, 100),
    "nodes_waiting_101_to_150": (101, 150),
    "nodes_waiting_151_to_200": (151, 200),
    "nodes_waiting_201_to_250": (201, 250),
    "nodes_waiting_over_250": (251, np.iinfo(np.int64).max),
}


@dataclass(frozen=True)
class Parameters:
    """Aggregation, trees, and tolerance of crashes."""

    aggregation: bool = field(
        default=True, metadata={"help": "hold messages that a child cannot deliver yet"}
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


class Clock(NamedTuple):
    """Counts of a process for each source, and its lists of waiting rows."""

    received: Int32s  # vector_max of the paper: messages received without a gap
    delivered: Int32s  # vector_clock
    forwarding: Int32s  # head of the list of rows that wait for a reception
    delivering: Int32s  # head of the list of rows that wait for a delivery


class Rows(NamedTuple):
    """Waiting messages."""

    slot: Int32s
    serial: Int32s  # in order of arrival at its process
    unserved: Int32s  # clusters 1..unserved have not been sent the message yet
    blocked: Int32s  # and clusters 1..blocked must not be yet: they lack a message
    entry: Int32s  # the source of what is awaited,
    value: Int32s  # and the required count
    link: Int32s
    predecessor: Int32s  # the row of the source's message before, while that waits too
    # Not part of the record: [i] is the i-th row that this call of a handler examines. There are
    # never more of them than rows, and as a column it is reserved with them.
    chosen: Int32s
    mark: Int64s


@compiled.methods(apart=("enter", "sort_by_sequence", "sort_by_arrival"))
class Waiting(NamedTuple):
    """Waiting messages, each on the list of the one entry that it awaits.

    The rows are shared by all hosted processes. A process has two lists for every source: rows that
    wait until a number of messages of the source have been *received*, and rows that wait until a
    number have been *delivered*. A row is on one list at a time, so an arrival or a delivery
    touches only the messages that waited for it. ``queue`` are the rows that may be deliverable,
    linked as the lists are.
    """

    rows: Rows
    queue: Int32s

    def enter(self, slot: int, serial: int) -> int:
        """Add a row for a message that has just arrived."""
        row = pool.take(self.rows)
        self.rows.slot[row] = slot
        self.rows.serial[row] = serial
        self.rows.link[row] = NONE
        self.rows.predecessor[row] = NONE
        return row

    def leave(self, row: int) -> None:
        """Remove the row of a message that waits no longer."""
        pool.give_back(self.rows, row)

    def await_entry(self, row: int, entry: int, value: int) -> None:
        """Store the entry that a row waits for."""
        self.rows.entry[row] = entry
        self.rows.value[row] = value

    def put_on(self, heads: Int32s, entry: int, row: int) -> None:
        """Add a row to the list of an entry."""
        self.rows.link[row] = heads[entry]
        heads[entry] = row

    def take_off(self, heads: Int32s, entry: int, before: int, row: int) -> None:
        """Remove a row from the list of an entry; ``before`` is the one in front of it, or NONE."""
        if before == NONE:
            heads[entry] = self.rows.link[row]
        else:
            self.rows.link[before] = self.rows.link[row]
        self.rows.link[row] = NONE

    def enqueue(self, row: int) -> None:
        """Append a row that is on no list to the queue."""
        self.rows.link[row] = NONE
        if self.queue[FIRST] == NONE:
            self.queue[FIRST] = row
        else:
            self.rows.link[self.queue[LAST]] = row
        self.queue[LAST] = row

    def is_queue_empty(self) -> bool:
        """Return whether no row is left that may be deliverable."""
        return self.queue[FIRST] == NONE

    def dequeue(self) -> int:
        """Take the first row of the queue, which must not be empty."""
        row = self.queue[FIRST]
        self.queue[FIRST] = self.rows.link[row]
        return int(row)

    def sort_by_sequence(self, count: int, host: Host) -> None:
        """Order the chosen rows so that a message comes after its source's earlier ones."""
        chosen, slot = self.rows.chosen, self.rows.slot
        for i in range(1, count):
            row = chosen[i]
            key = host.sequence_of(slot[row])
            at = i
            while at > 0 and host.sequence_of(slot[chosen[at - 1]]) > key:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = row

    def sort_by_arrival(self, count: int) -> None:
        """Order the chosen rows as their messages arrived."""
        chosen, serial = self.rows.chosen, self.rows.serial
        for i in range(1, count):
            row = chosen[i]
            key = serial[row]
            at = i
            while at > 0 and serial[chosen[at - 1]] > key:
                chosen[at] = chosen[at - 1]
                at -= 1
            chosen[at] = row


class Process(NamedTuple):
    """Counts of a process."""

    waiting: Int64s  # messages that wait at it
    waiting_max: Int64s
    arrivals: Int64s
    delayed: Int64s  # messages not delivered on arrival


class Peer(NamedTuple):
    """State of another node at a process (I), for crashes."""

    confirmed: Int32s  # number of my messages that it has, as far as I know
    ends: Int32s  # number of crashes it has ended with
    outstanding: Int32s  # relayed messages that it has not acknowledged
    last_acknowledged: Int32s  # number of its messages that I have acknowledged
    first_kept: Int32s  # its messages that I keep: a list, in order of arrival
    last_kept: Int32s
    limit: Int32s  # its messages beyond this one are dead


class Own(NamedTuple):
    """State of a process itself, for crashes."""

    known: Int64s  # crashes that it knows of
    announced: Int64s  # and has ended with
    direct_from: Int64s  # from this message on it broadcasts directly; 0: over its tree
    stable: Int64s  # number of its own messages that all have
    at_stable: Int64s  # nodes that have confirmed no more than that
    unacknowledged: Int64s  # relayed messages that some node has not acknowledged
    kept: Int64s  # messages that it keeps
    discarded: Int64s


class Kept(NamedTuple):
    """Messages that are kept."""

    slot: Int32s
    link: Int32s
    mark: Int64s


class Recovery(NamedTuple):
    """State of a process about crashes; one place in each array when they are not tolerated."""

    crashed: NDArray[np.int8]  # process, node: whether it knows of the crash
    order: Int32s  # process, crashes in the order in which it learned of them
    peer: Peer  # process, node
    own: Own  # process
    kept: Kept


@compiled.methods()
class State(NamedTuple):
    """Rows of ``stamp`` belong to messages, all others to hosted processes."""

    clock: Clock  # process, source
    stamped: Int32s  # process, source: the count in its last broadcast
    newest: Int32s  # process, source: row of the last message received without a gap
    stamp: Int32s
    waiting: Waiting
    recovery: Recovery
    process: Process
    dependencies: Int64s  # number of entries in a stamp -> broadcasts
    hosted: Int64s
    nodes: int
    dimension: int
    aggregates: int
    shared: int
    tolerant: int

    def knows_crashed(self, here: int, node: int) -> bool:
        """Return whether a process knows that a node has crashed."""
        return self.tolerant != 0 and self.recovery.crashed[here, node] != 0


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    processes, nodes = len(group.hosted), group.nodes
    clock = pool.columns(Clock, processes, nodes)
    clock.forwarding[:] = NONE
    clock.delivering[:] = NONE
    return State(
        clock=clock,
        stamped=np.zeros((processes, nodes), np.int32),
        newest=np.zeros((processes, nodes), np.int32),
        stamp=np.zeros((capacity.slots, FIRST_ENTRY + 2 * nodes), np.int32),
        waiting=Waiting(
            rows=pool.reserve(Rows, capacity.reserve_bytes), queue=np.full(2, NONE, np.int32)
        ),
        recovery=(
            _make_recovery(processes, nodes, capacity.reserve_bytes)
            if parameters.tolerant
            else _make_recovery(1, 1, 1)
        ),
        process=pool.columns(Process, processes, dtype=np.int64),
        dependencies=np.zeros(nodes, np.int64),
        hosted=np.array(group.hosted, np.int64),
        nodes=nodes,
        dimension=topology.dimension(nodes),
        aggregates=int(parameters.aggregation),
        shared=int(parameters.trees == "shared"),
        tolerant=int(parameters.tolerant),
    )


def _make_recovery(processes: int, nodes: int, reserve_bytes: int) -> Recovery:
    """The initial state: no crashes, and no kept messages."""
    peer = pool.columns(Peer, processes, nodes)
    peer.first_kept[:] = NONE
    peer.last_kept[:] = NONE
    peer.limit[:] = np.iinfo(np.int32).max
    own = pool.columns(Own, processes, dtype=np.int64)
    own.at_stable[:] = nodes - 1
    return Recovery(
        crashed=np.zeros((processes, nodes), np.int8),
        order=np.zeros((processes, nodes), np.int32),
        peer=peer,
        own=own,
        kept=pool.reserve(Kept, reserve_bytes),
    )


def extra(state: State) -> dict[str, float]:
    """Counts over all processes; ``waiting`` is without those of crashed processes."""
    processes = len(state.hosted)  # a table has at least two rows, the second may be unused
    correct = np.ones(processes, bool)
    discarded = kept = 0
    if state.tolerant:
        own = state.recovery.own
        correct = state.recovery.crashed[:, state.hosted].max(axis=0) == 0
        discarded = int(own.discarded[:processes][correct].sum())
        kept = int(own.kept[:processes][correct].sum())
    waiting_max = state.process.waiting_max[:processes]
    depth = np.arange(len(state.dependencies))
    return {
        **{
            name: int(state.dependencies[(depth >= low) & (depth <= high)].sum())
            for name, (low, high) in DEPENDENCIES.items()
        },
        **{
            name: int(((waiting_max >= low) & (waiting_max <= high)).sum())
            for name, (low, high) in WAITED.items()
        },
        "waiting_at_end": int(state.process.waiting[:processes][correct].sum()),
        "waiting_max": int(waiting_max.max()),
        "delayed": int(state.process.delayed.sum()),
        "dependencies_max": int(np.flatnonzero(state.dependencies).max(initial=0)),
        "kept_at_end": kept,
        "discarded": discarded,
    }
