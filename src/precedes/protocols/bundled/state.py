"""Parameters and state of ``bundled``: what a process awaits, has delivered and bundles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes.contract import Capacity, Group, Int32s, Int64s
from precedes.errors import UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.parts import tester, topology
from precedes.parts.pool import NONE, Pool, allocate_pool
from precedes.parts.tester import Detector

from . import ack_set, bundles, delivered
from .ack_set import AckSet
from .bundles import Bundles

# Tags of items.
TREE: Final = 0
ACK: Final = 1

ROW_WORDS: Final = 6  # of the pool: as many as those of ``awaited`` have
# Words of a process.
PROCESS: Final = 0  # its number in the group
CHILD: Final = 0  # CHILD + s: the process that it takes for the first fault-free of cluster s
PROCESS_WORDS: Final = CHILD + 17  # NODES_MAX has 16 bits

# Places in ``mark``.
NODES: Final = 0
DIMENSION: Final = 1
COMPLETIONS: Final = 2
LAST_COMPLETION_NS: Final = 3
RETRANSMISSIONS: Final = 4
MARKS: Final = 5


@dataclass(frozen=True)
class Parameters:
    """Sizes for bundling, patience, and who tells of crashes; the defaults are SMALL2."""

    payload_max_bytes: int = field(default=1460, metadata={"help": "items of a packet at most"})
    tree_bytes: int = field(default=24, metadata={"help": "a TREE item, for bundling"})
    ack_bytes: int = field(default=20, metadata={"help": "an ACK item, for bundling"})
    delay_max_ms: float = field(default=2.0, metadata={"help": "how long an item may wait"})
    tests: bool = field(default=False, metadata={"help": "find crashes by tests; else be told"})
    interval_ms: float = field(default=30.0, metadata={"help": "rest between rounds of tests"})
    timeout_ms: float = field(default=4.0, metadata={"help": "patience with a tested process"})
    own_channel: bool = field(default=True, metadata={"help": "tests have a queue of their own"})
    rounds: int = field(default=100, metadata={"help": "rounds of tests; 0: without end"})
    profile_node: int = field(default=-1, metadata={"help": "whose packets to count over time"})
    profile_ms: float = field(default=1.0, metadata={"help": "in slices of this length"})
    profile_slices: int = field(default=100, metadata={"help": "and so many of them"})

    def __post_init__(self) -> None:
        sizes = dict.fromkeys(("payload_max_bytes", "tree_bytes", "ack_bytes"), (1, 1 << 30))
        times = {"delay_max_ms": (0, DELAY_MS_MAX), "profile_ms": (0.001, DELAY_MS_MAX)}
        for name, (low, high) in {**sizes, **times, "profile_slices": (1, 1 << 20)}.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UserError(f"{name} must be between {low:g} and {high:g}, not {value}")
        tester.check(interval_ms=self.interval_ms, timeout_ms=self.timeout_ms, rounds=self.rounds)


class State(NamedTuple):
    """What a process awaits, has delivered and bundles, in one pool of rows, and its view."""

    pool: Pool
    awaited: AckSet
    bundles: Bundles
    source: Int32s  # here, process -> words of ``delivered``
    crashed: Int32s  # here, process -> whether it is known to have crashed
    process: Int64s  # here -> words of a process
    mark: Int64s
    detector: Detector


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    nodes, hosted = group.nodes, len(group.hosted)
    source = np.zeros((hosted, nodes, delivered.WORDS), np.int32)
    source[:, :, delivered.EARLY] = NONE
    process = np.full((hosted, PROCESS_WORDS), NONE, np.int64)
    process[:, PROCESS] = group.hosted
    dimension = topology.dimension(nodes)
    for here, me in enumerate(group.hosted.tolist()):
        for s in range(1, dimension + 1):
            process[here, CHILD + s] = topology.first_present(me, s, nodes)
    mark = np.array([nodes, dimension] + [0] * (MARKS - 2), np.int64)
    return State(
        # A quarter of the processes may wait for as many messages each.
        pool=allocate_pool(rows=capacity.held * (1 + hosted // 4), words=ROW_WORDS),
        awaited=ack_set.allocate(hosted, capacity.slots),
        bundles=bundles.allocate(
            hosted=group.hosted,
            nodes=nodes,
            tree_bytes=parameters.tree_bytes,
            ack_bytes=parameters.ack_bytes,
            payload_max_bytes=parameters.payload_max_bytes,
            delay_ns=round(parameters.delay_max_ms * NANOSECONDS_PER_MS),
            profile_node=parameters.profile_node,
            profile_ns=round(parameters.profile_ms * NANOSECONDS_PER_MS),
            profile_slices=parameters.profile_slices,
        ),
        source=source,
        crashed=np.zeros((hosted, nodes), np.int32),
        process=process,
        mark=mark,
        detector=tester.make_detector(
            group=group,
            interval_ms=parameters.interval_ms,
            timeout_ms=parameters.timeout_ms,
            rounds=parameters.rounds,
            first_tag=ACK + 1,
            own_channel=parameters.own_channel,
            on=parameters.tests,
        ),
    )


def extra(state: State) -> dict[str, float]:
    """Completed broadcasts and what was sent for them, without the detector's packets."""
    counter = state.bundles.counter
    found = {
        "completions": int(state.mark[COMPLETIONS]),
        "last_completion_ms": int(state.mark[LAST_COMPLETION_NS]) / NANOSECONDS_PER_MS,
        "retransmissions": int(state.mark[RETRANSMISSIONS]),
        "trees": int(counter[bundles.TREES]),
        "acks": int(counter[bundles.ACKS]),
        "bundles": int(counter[bundles.PACKETS]),
        "bundle_bytes": int(counter[bundles.BYTES_SENT]),
    }
    for place, row in enumerate(state.bundles.profile.tolist()):
        for name, value in zip(bundles.PROFILE, row, strict=True):
            found[f"profile_{name}_{place}"] = value
    if state.detector.state.size:
        found |= tester.counters(state.detector)
    return found
