"""The arrays of one run, owned by Python and changed by the engine loop."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, contract
from precedes.contract import Capacity, Host
from precedes.model import NANOSECONDS_PER_MS
from precedes.sim.engine import layout
from precedes.sim.engine.network import Network
from precedes.sim.engine.oracle import Oracle
from precedes.sim.engine.packets import Packets
from precedes.sim.engine.queue import Queue
from precedes.sim.engine.workload import Workload

# Kinds of faults.
CRASH: Final = 0
PAUSE: Final = 1
CUT: Final = 2

# Columns of a schedule of faults.
FAULT_KIND: Final = 0
FAULT_TIME_NS: Final = 1
FAULT_NODE: Final = 2
FAULT_OTHER: Final = 3  # CUT: the far end of the link
FAULT_UNTIL_NS: Final = 4  # PAUSE, CUT; negative for a CUT whose packets wait for its end

FOR_EVER_NS: Final = 1 << 62

# Bins of latencies are floating-point numbers, exact to a share of themselves.
LATENCY_SHIFT: Final = 45  # keeps 7 bits of a double's fraction: steps of 0.8 % or finer
LATENCY_BASE: Final = 1023 << 7
LATENCY_BINS: Final = 64 << 7


class Faults(NamedTuple):
    """The scheduled faults, and the detection delays of crashes."""

    schedule: NDArray[np.int64]
    detection_ns: NDArray[np.int64]  # crashed, observer: how long after it the observer knows


class World(NamedTuple):
    """The state of a run except for the protocol's."""

    queue: Queue
    network: Network
    workload: Workload
    faults: Faults
    oracle: Oracle
    packets: Packets
    host: Host
    message: NDArray[np.int64]
    node: NDArray[np.int64]
    inbox: NDArray[np.int64]  # items of the packet at hand: tag, value
    item_class: NDArray[np.int64]  # tag -> MESSAGE, REFERENCE, NUMBER or RECORD
    delivered: NDArray[np.int64]  # node, source -> deliveries; only when nodes may crash
    latency: NDArray[np.int64]  # histogram of delivery latency
    trace: NDArray[np.int64]  # a chunk of rows; Python empties it when it is nearly full


def allocate_host(capacity: Capacity, *, seed: int, nodes: int) -> Host:
    """The host's side of the contract, with the simulator's own registers."""
    host = contract.allocate_host(capacity, seed=seed, registers=layout.REGISTERS + nodes)
    for place in (layout.SLOT_FREE, layout.PACKET_FREE, layout.ITEM_FREE, layout.TAGGED):
        host.registers[place] = layout.NONE
    return host


def allocate_messages(slots: int) -> NDArray[np.int64]:
    """A row for each slot."""
    return np.zeros((slots, layout.MESSAGE_WORDS), np.int64)


def allocate_nodes(nodes: int) -> NDArray[np.int64]:
    """A row in the initial state for each node."""
    rows = np.zeros((nodes, layout.NODE_WORDS), np.int64)
    rows[:, layout.SENDS_LEFT] = rows[:, layout.LATEST] = -1
    return rows


@compiled.function()
def latency_bin(latency_ns: int) -> int:
    """The histogram bin of a latency: exponent and leading bits of its floating-point form."""
    bits = np.float64(latency_ns + 1).view(np.int64)
    return int(bits >> LATENCY_SHIFT) - LATENCY_BASE


def latency_percentile_ms(histogram: NDArray[np.int64], share: float) -> float | None:
    """The latency that this share of deliveries does not exceed, interpolated within its bin."""
    total = int(histogram.sum())
    if total == 0:
        return None
    below = np.cumsum(histogram)
    rank = share * total
    place = int(np.searchsorted(below, rank))
    before = int(below[place - 1]) if place else 0
    inside = (rank - before) / int(histogram[place])
    edges = np.array([place, place + 1], np.int64) + LATENCY_BASE  # the smallest of two bins
    start_ns, end_ns = ((edges << LATENCY_SHIFT).view(np.float64) - 1.0).tolist()
    return float(start_ns + inside * (end_ns - start_ns)) / NANOSECONDS_PER_MS
