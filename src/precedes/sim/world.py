"""The arrays of one run, owned by Python and changed by the engine loop."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.protocols.contract import Host, Inbox
from precedes.sim.faults import Faults
from precedes.sim.network import Network
from precedes.sim.oracle import Oracle
from precedes.sim.queue import Queue
from precedes.sim.workload import Workload

NONE: Final = -1


class Messages(NamedTuple):
    """The slots: what the host knows of a message in flight."""

    born_ns: NDArray[np.int64]
    references: NDArray[np.int32]
    number: NDArray[np.int64]  # in order of broadcast
    label: NDArray[np.int32]  # the replayed event, or -1
    link: NDArray[np.int32]
    mark: NDArray[np.int64]  # head of the free list, slots ever used


class Packets(NamedTuple):
    """Packets in flight that are more than one message sent by its own source."""

    sender: NDArray[np.int32]
    first: NDArray[np.int32]
    copies: NDArray[np.int32]
    link: NDArray[np.int32]
    item_tag: NDArray[np.int64]
    item_value: NDArray[np.int64]
    item_link: NDArray[np.int32]
    mark: NDArray[np.int64]  # free packets, packets used, free items, items used


class Recorder(NamedTuple):
    """A chunk of the trace; the engine stops when it is nearly full and Python empties it."""

    on: NDArray[np.bool_]
    packets: NDArray[np.bool_]
    time_ns: NDArray[np.int64]
    node: NDArray[np.int32]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    packet: NDArray[np.int64]
    length: NDArray[np.int64]


# Places in ``counters``.
BROADCASTS: Final = 0
DELIVERIES: Final = 1
PACKETS: Final = 2
MESSAGES_SENT: Final = 3
BYTES_SENT: Final = 4
RECEPTIONS: Final = 5
RECEPTION_NS: Final = 6
DELIVERY_NS: Final = 7
VIOLATIONS: Final = 8
VIOLATING_MESSAGES: Final = 9
DUPLICATES: Final = 10
DROPPED: Final = 11
PENDING_MAX: Final = 12
PACKETS_LOST: Final = 13
SKIPPED: Final = 14
LAST_NS: Final = 15
COUNTERS: Final = 16

# Places in ``progress``: where the engine goes on after it stopped to let something grow.
EFFECT: Final = 0  # the next effect to carry out
NODE: Final = 1  # of which node
ARRIVED: Final = 2  # items of the packet just received, for the trace

HISTOGRAM_SHIFT: Final = 45  # keeps 7 bits of a double's fraction: steps of 0.8 % or finer
HISTOGRAM_BASE: Final = 1023 << 7
HISTOGRAM_BINS: Final = 64 << 7


class World(NamedTuple):
    """Everything of a run but the protocol's state."""

    queue: Queue
    network: Network
    workload: Workload
    faults: Faults
    oracle: Oracle
    recorder: Recorder
    messages: Messages
    packets: Packets
    host: Host
    inbox: Inbox
    item_class: NDArray[np.int64]  # tag -> MESSAGE, REFERENCE or NUMBER
    held: NDArray[np.int64]  # node -> messages received and not delivered
    sequence: NDArray[np.int32]  # node -> broadcasts so far
    delivered: NDArray[np.int64]  # node, source -> deliveries; only when nodes may crash
    counters: NDArray[np.int64]
    latency: NDArray[np.int64]  # histogram of delivery latency
    horizon_ns: NDArray[np.int64]
    progress: NDArray[np.int64]


@compiled.function()
def record(
    world: World, kind: int, node: int, source: int, sequence: int, packet: int
) -> None:
    """Append an event to the trace; the engine has made sure that there is room."""
    recorder = world.recorder
    row = recorder.length[0]
    recorder.time_ns[row] = world.host.now_ns[0]
    recorder.node[row] = node
    recorder.kind[row] = kind
    recorder.source[row] = source
    recorder.sequence[row] = sequence
    recorder.packet[row] = packet
    recorder.length[0] = row + 1


@compiled.function(inline=False)
def take_slot(messages: Messages) -> int:
    """A free slot, or NONE."""
    slot = messages.mark[0]
    if slot != NONE:
        messages.mark[0] = messages.link[slot]
        return slot
    slot = messages.mark[1]
    if slot == messages.link.size:
        return NONE
    messages.mark[1] = slot + 1
    return slot


@compiled.function()
def end_reference(messages: Messages, slot: int) -> None:
    """One reference less; the last one frees the slot."""
    messages.references[slot] -= 1
    if messages.references[slot] == 0:
        messages.link[slot] = messages.mark[0]
        messages.mark[0] = slot


@compiled.function()
def latency_bin(latency_ns: int) -> int:
    """The histogram bin of a latency: exponent and leading bits of its floating-point form."""
    bits = np.float64(latency_ns + 1).view(np.int64)
    return (bits >> HISTOGRAM_SHIFT) - HISTOGRAM_BASE


def bin_start_ns(bin_number: int) -> float:
    """The smallest latency of a bin."""
    bits = np.int64((bin_number + HISTOGRAM_BASE) << HISTOGRAM_SHIFT)
    return float(bits.view(np.float64)) - 1.0
