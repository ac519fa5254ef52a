"""The arrays of one run, owned by Python and changed by the engine loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import contract
from precedes.contract import Capacity, Host
from precedes.sim.engine import layout
from precedes.sim.engine.faults import Faults
from precedes.sim.engine.network import Network
from precedes.sim.engine.oracle import Oracle
from precedes.sim.engine.packets import Packets
from precedes.sim.engine.queue import Queue
from precedes.sim.engine.workload import Workload


class World(NamedTuple):
    """Everything of a run but the protocol's state."""

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
    """A row for each node that has done nothing yet."""
    rows = np.zeros((nodes, layout.NODE_WORDS), np.int64)
    rows[:, layout.SENDS_LEFT] = rows[:, layout.LATEST] = -1
    return rows
