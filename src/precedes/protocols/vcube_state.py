"""Parameters and state of ``vcube``: what a node knows, in arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes import compiled, topology
from precedes.model import UserError
from precedes.protocols import vcube_recovery as recover
from precedes.protocols import vcube_waiting as wait
from precedes.protocols.contract import LENGTH, Capacity, Group, Host, Int32s, Int64s
from precedes.protocols.vcube_recovery import Recovery
from precedes.protocols.vcube_waiting import Waiting

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

# Numbers of direct dependencies that broadcasts are counted by (Figure 6).
DEPENDENCIES: Final = {
    "broadcasts_needing_0": (0, 0),
    "broadcasts_needing_1_to_4": (1, 4),
    "broadcasts_needing_5_to_9": (5, 9),
    "broadcasts_needing_10_to_12": (10, 12),
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


class Arrays(NamedTuple):
    """Rows of ``stamp`` belong to messages, all others to hosted processes."""

    clock: Int32s  # process, source: the words of ``vcube_waiting``
    stamped: Int32s  # process, source: the count in its last broadcast
    newest: Int32s  # process, source: row of the last message received without a gap
    stamp: Int32s
    waiting: Waiting
    recovery: Recovery
    process: Int64s
    dependencies: Int64s  # so many entries in a stamp -> broadcasts
    hosted: Int64s
    setting: Int64s


def make_arrays(parameters: Parameters, group: Group, capacity: Capacity) -> Arrays:
    """The arrays of a state for the hosted processes of a group."""
    processes, nodes = len(group.hosted), group.nodes
    setting = np.zeros(5, np.int64)
    setting[NODES], setting[DIMENSION] = nodes, topology.dimension(nodes)
    setting[AGGREGATES] = parameters.aggregation
    setting[SHARED] = parameters.trees == "shared"
    setting[TOLERANT] = parameters.tolerant
    # Far more messages are kept than wait.
    rows = -(-capacity.held // 4) if parameters.tolerant else capacity.held
    return Arrays(
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
        hosted=np.array(group.hosted, np.int64),
        setting=setting,
    )


def effects_words(capacity: Capacity, nodes: int) -> int:
    """Handlers ask for more by returning FULL, as long as it takes."""
    return 1024 + 64 * nodes + 2 * capacity.held


def extra(state: Arrays) -> dict[str, float]:
    """Counts over all processes; ``waiting`` is without those that some process saw crash."""
    correct = np.ones(len(state.hosted), bool)
    discarded = kept = 0
    if state.setting[TOLERANT]:
        correct = state.recovery.crashed[:, state.hosted].max(axis=0) == 0
        discarded = int(state.recovery.own[correct, recover.DISCARDED].sum())
        kept = int(state.recovery.own[correct, recover.KEPT].sum())
    waiting_max, depth = state.process[:, WAITING_MAX], np.arange(len(state.dependencies))
    return {
        **{
            name: int(state.dependencies[(depth >= low) & (depth <= high)].sum())
            for name, (low, high) in DEPENDENCIES.items()
        },
        "nodes_waiting_up_to_50": int((waiting_max <= 50).sum()),
        "nodes_waiting_over_250": int((waiting_max > 250).sum()),
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
    return host.cursor[LENGTH] + words <= host.effects.size
