"""Parameters and state of ``bundled``: what a process awaits, has delivered and bundles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from precedes.contract import Capacity, Group, Int32s, Int64s
from precedes.errors import UserError
from precedes.model import DELAY_MS_MAX, NANOSECONDS_PER_MS
from precedes.parts import tester, topology
from precedes.parts.pool import NONE
from precedes.parts.tester import Detector

from . import ack_set, bundles, delivered
from .ack_set import AckSet
from .bundles import Bundles
from .delivered import Delivered

# Tags of items.
TREE: Final = 0
ACK: Final = 1

# Places in ``counter``.
COMPLETIONS: Final = 0
LAST_COMPLETION_NS: Final = 1
RETRANSMISSIONS: Final = 2


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


class Trees(NamedTuple):
    """What a process awaits, has delivered and bundles, and its view."""

    awaited: AckSet
    bundles: Bundles
    delivered: Delivered
    crashed: Int32s  # here, process -> whether it is known to have crashed
    child: Int64s  # here, s -> the process that it takes for the first fault-free of cluster s
    counter: Int64s
    hosted: Int64s
    nodes: int
    dimension: int


class State(NamedTuple):
    """Broadcasts, and apart from them the detector.

    Numba hands tuples over by value: functions that need no detector take ``trees`` alone.
    """

    trees: Trees
    detector: Detector


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    nodes, hosted = group.nodes, len(group.hosted)
    dimension = topology.dimension(nodes)
    child = np.full((hosted, dimension + 1), NONE, np.int64)
    for here, me in enumerate(group.hosted.tolist()):
        for s in range(1, dimension + 1):
            child[here, s] = topology.first_present(me, s, nodes)
    trees = Trees(
        awaited=ack_set.allocate(hosted, capacity),
        bundles=bundles.allocate(
            hosted=group.hosted,
            nodes=nodes,
            capacity=capacity,
            item_bytes=(parameters.tree_bytes, parameters.ack_bytes),
            payload_max_bytes=parameters.payload_max_bytes,
            delay_ns=round(parameters.delay_max_ms * NANOSECONDS_PER_MS),
            profile_node=parameters.profile_node,
            profile_ns=round(parameters.profile_ms * NANOSECONDS_PER_MS),
            profile_slices=parameters.profile_slices,
        ),
        delivered=delivered.allocate(hosted, nodes, capacity),
        crashed=np.zeros((hosted, nodes), np.int32),
        child=child,
        counter=np.zeros(3, np.int64),
        hosted=np.array(group.hosted, np.int64),
        nodes=nodes,
        dimension=dimension,
    )
    return State(
        trees=trees,
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
    counter, bundled = state.trees.counter, state.trees.bundles
    found = {
        "completions": int(counter[COMPLETIONS]),
        "last_completion_ms": int(counter[LAST_COMPLETION_NS]) / NANOSECONDS_PER_MS,
        "retransmissions": int(counter[RETRANSMISSIONS]),
        "trees": int(bundled.items[TREE]),
        "acks": int(bundled.items[ACK]),
        "bundles": int(bundled.sent[bundles.PACKETS]),
        "bundle_bytes": int(bundled.sent[bundles.BYTES]),
    }
    for place, row in enumerate(bundled.profile.tolist()):
        for name, value in zip(bundles.PROFILE, row, strict=True):
            found[f"profile_{name}_{place}"] = value
    if tester.is_on(state.detector):
        found |= tester.counters(state.detector)
    return found
