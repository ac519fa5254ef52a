"""Parameters and state of ``vcube``: what travels, and what a node knows, in arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.contract import LENGTH, Capacity, Group, Host, Int32s, Int64s
from precedes.errors import UserError
from precedes.parts import topology
from precedes.parts.pool import NONE, Pool, allocate_pool

from .waiting import Waiting, allocate_waiting

TREES: Final = ("source", "shared")
ROOT: Final = 0  # of the shared tree

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
STABLE: Final = 1  # how many messages of its source everybody has
FIRST_ENTRY: Final = 2
ENTRY_BYTES: Final = 4

# Words of a process and a source in ``clock``.
RECEIVED: Final = 0  # vector_max of the paper: messages received without a gap
DELIVERED: Final = 1  # vector_clock
FORWARDING: Final = 2  # head of the list of rows that wait for a reception
DELIVERING: Final = 3  # head of the list of rows that wait for a delivery
CLOCK_WORDS: Final = 4

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

# Words of a process and another node in ``peer``, for crashes.
CONFIRMED: Final = 0  # how many of my messages it has, as far as I know
ENDS: Final = 1  # how many crashes it has ended with
OUTSTANDING: Final = 2  # relayed messages that it has not acknowledged
LAST_ACKNOWLEDGED: Final = 3  # how many of its messages I have acknowledged
FIRST_KEPT: Final = 4  # the messages of it that I keep: a list, in order of arrival
LAST_KEPT: Final = 5
LIMIT: Final = 6  # its messages beyond this one are dead
PEER_WORDS: Final = 7

# Words of a process in ``own``, for crashes.
KNOWN: Final = 0  # crashes that it knows of
ANNOUNCED: Final = 1  # and has ended with
DIRECT_FROM: Final = 2  # from this message on it broadcasts directly; 0: over its tree
OWN_STABLE: Final = 3  # how many of its own messages everybody has
AT_STABLE: Final = 4  # nodes that have confirmed no more than that
UNACKNOWLEDGED: Final = 5  # relayed messages that somebody has not acknowledged
KEPT: Final = 6  # messages that it keeps
DISCARDED: Final = 7
OWN_WORDS: Final = 8

# Words of a message that is kept.
KEPT_SLOT: Final = 0
KEPT_LINK: Final = 1
KEPT_WORDS: Final = 2

# Numbers of direct dependencies that broadcasts are counted by (Figure 6).
DEPENDENCIES: Final = {
    "broadcasts_needing_0": (0, 0),
    "broadcasts_needing_1_to_4": (1, 4),
    "broadcasts_needing_5_to_9": (5, 9),
    "broadcasts_needing_10_to_12": (10, 12),
}
# Most messages that waited at a node at some time, by which nodes are counted (Figure 9).
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


class Recovery(NamedTuple):
    """What a process knows of crashes; all arrays are empty when they are not tolerated."""

    crashed: NDArray[np.int8]  # process, node: whether it knows of the crash
    order: Int32s  # process, crashes in the order in which it learned of them
    peer: Int32s
    own: Int64s
    kept: Pool


class State(NamedTuple):
    """Rows of ``stamp`` belong to messages, all others to hosted processes."""

    clock: Int32s
    stamped: Int32s  # process, source: the count in its last broadcast
    newest: Int32s  # process, source: row of the last message received without a gap
    stamp: Int32s
    waiting: Waiting
    recovery: Recovery
    process: Int64s
    dependencies: Int64s  # so many entries in a stamp -> broadcasts
    hosted: Int64s
    setting: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    processes, nodes = len(group.hosted), group.nodes
    setting = np.zeros(5, np.int64)
    setting[NODES], setting[DIMENSION] = nodes, topology.dimension(nodes)
    setting[AGGREGATES] = parameters.aggregation
    setting[SHARED] = parameters.trees == "shared"
    setting[TOLERANT] = parameters.tolerant
    clock = np.zeros((processes * nodes, CLOCK_WORDS), np.int32)
    clock[:, [FORWARDING, DELIVERING]] = NONE
    # Far more messages are kept than wait.
    rows = -(-capacity.held // 4) if parameters.tolerant else capacity.held
    return State(
        clock=clock.reshape(-1),
        stamped=np.zeros((processes, nodes), np.int32),
        newest=np.zeros((processes, nodes), np.int32),
        stamp=np.zeros((capacity.slots, FIRST_ENTRY + 2 * nodes), np.int32),
        waiting=allocate_waiting(rows),
        recovery=_allocate_recovery(
            on=parameters.tolerant, processes=processes, nodes=nodes, rows=capacity.held
        ),
        process=np.zeros((processes, PROCESS_WORDS), np.int64),
        dependencies=np.zeros(nodes, np.int64),
        hosted=np.array(group.hosted, np.int64),
        setting=setting,
    )


def _allocate_recovery(*, on: bool, processes: int, nodes: int, rows: int) -> Recovery:
    """Nobody has crashed and nothing is kept; room for keeping ``rows`` messages in all."""
    h, n, r = (processes, nodes, rows) if on else (0, 0, 0)
    peer = np.zeros((h * n, PEER_WORDS), np.int32)
    peer[:, [FIRST_KEPT, LAST_KEPT]] = NONE
    peer[:, LIMIT] = np.iinfo(np.int32).max
    own = np.zeros((h, OWN_WORDS), np.int64)
    own[:, AT_STABLE] = nodes - 1
    return Recovery(
        crashed=np.zeros((h, n), np.int8),
        order=np.zeros((h, n), np.int32),
        peer=peer.reshape(-1),
        own=own,
        kept=allocate_pool(rows=r, words=KEPT_WORDS),
    )


def effects_words(capacity: Capacity, nodes: int) -> int:
    """Handlers ask for more by returning FULL, as long as it takes."""
    return 1024 + 64 * nodes + 2 * capacity.held


def extra(state: State) -> dict[str, float]:
    """Counts over all processes; ``waiting`` is without those that some process saw crash."""
    correct = np.ones(len(state.hosted), bool)
    discarded = kept = 0
    if state.setting[TOLERANT]:
        correct = state.recovery.crashed[:, state.hosted].max(axis=0) == 0
        discarded = int(state.recovery.own[correct, DISCARDED].sum())
        kept = int(state.recovery.own[correct, KEPT].sum())
    waiting_max, depth = state.process[:, WAITING_MAX], np.arange(len(state.dependencies))
    return {
        **{
            name: int(state.dependencies[(depth >= low) & (depth <= high)].sum())
            for name, (low, high) in DEPENDENCIES.items()
        },
        **{
            name: int(((waiting_max >= low) & (waiting_max <= high)).sum())
            for name, (low, high) in WAITED.items()
        },
        "waiting_at_end": int(state.process[correct, WAITING].sum()),
        "waiting_max": int(waiting_max.max()),
        "delayed": int(state.process[:, DELAYED].sum()),
        "dependencies_max": int(np.flatnonzero(state.dependencies).max(initial=0)),
        "kept_at_end": kept,
        "discarded": discarded,
    }


@compiled.function()
def has_effects(host: Host, words: int) -> bool:
    """Whether a handler may ask for effects of that many words."""
    return host.registers[LENGTH] + words <= host.effects.size


@compiled.function()
def entry_of(state: State, here: int, source: int) -> int:
    """Where the words of a source begin in ``clock``."""
    return CLOCK_WORDS * (here * state.setting[NODES] + source)


@compiled.function()
def peer_of(state: State, here: int, other: int) -> int:
    """Where the words of another node begin in ``recovery.peer``."""
    return PEER_WORDS * (here * state.setting[NODES] + other)


@compiled.function()
def knows_crashed(state: State, here: int, node: int) -> bool:
    """Whether a process knows that a node has crashed."""
    return state.setting[TOLERANT] != 0 and state.recovery.crashed[here, node] != 0
