"""The arrays of one run, owned by Python and changed by the engine loop.

Values that belong together share an array with named columns or places: what is compiled is
paid for by the array, and a message or a packet is touched as a whole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.model import EventKind
from precedes.protocols import contract
from precedes.protocols.contract import Host
from precedes.sim import faults as fault
from precedes.sim import queue as events
from precedes.sim.faults import Faults
from precedes.sim.network import Network
from precedes.sim.oracle import Oracle
from precedes.sim.queue import Queue
from precedes.sim.workload import Workload

NONE: Final = -1

# Columns of ``messages.slot``.
BORN_NS: Final = 0
REFERENCES: Final = 1
NUMBER: Final = 2  # in order of broadcast
LABEL: Final = 3  # the replayed event, or -1
LINK: Final = 4

# Columns of ``packets.packet`` and ``packets.item``.
SENDER: Final = 0
FIRST_ITEM: Final = 1
COPIES: Final = 2
PACKET_NUMBER: Final = 3
PACKET_LINK: Final = 4
TAG: Final = 0
VALUE: Final = 1
ITEM_LINK: Final = 2

# Places in a pool's ``mark``: a list of free rows, then rows never used. Packets have two pools.
FREE: Final = 0
HIGH: Final = 1
ITEM_FREE: Final = 2
ITEM_HIGH: Final = 3

# Columns of ``recorder.row``, and places in ``recorder.setting``.
ROW_TIME_NS: Final = 0
ROW_NODE: Final = 1
ROW_KIND: Final = 2
ROW_SOURCE: Final = 3
ROW_SEQUENCE: Final = 4
ROW_PACKET: Final = 5
ROWS: Final = 0  # rows written
RECORDING: Final = 1
RECORDING_PACKETS: Final = 2

# Columns of ``node``.
SEQUENCE: Final = 0  # broadcasts so far
HELD: Final = 1  # messages received and neither delivered nor dropped

# Places in ``counter``.
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
SKIPPED: Final = 14  # broadcasts of crashed nodes
COUNTERS: Final = 15

# Places in ``progress``: where the engine goes on after it stopped to let something grow.
HORIZON_NS: Final = 0
EFFECT: Final = 1  # the next effect to carry out
HERE: Final = 2  # of which node
ARRIVED: Final = 3  # items of the packet just received, until the trace has seen them
PLACES: Final = 4

# Kinds of queue entries, above the node in ``where``.
ARRIVAL: Final = 0 << events.WHERE_BITS
ISSUE: Final = 1 << events.WHERE_BITS
TIMER: Final = 2 << events.WHERE_BITS
FAULT: Final = 3 << events.WHERE_BITS
SUSPECT: Final = 4 << events.WHERE_BITS
START: Final = 5 << events.WHERE_BITS
ISSUE_LATE: Final = 6 << events.WHERE_BITS  # a broadcast put off by a pause

HISTOGRAM_SHIFT: Final = 45  # keeps 7 bits of a double's fraction: steps of 0.8 % or finer
HISTOGRAM_BASE: Final = 1023 << 7
HISTOGRAM_BINS: Final = 64 << 7


class Messages(NamedTuple):
    """What the host knows of the messages in flight, by slot."""

    slot: NDArray[np.int64]
    mark: NDArray[np.int64]


class Packets(NamedTuple):
    """Packets in flight that are more than one message sent by its own source."""

    packet: NDArray[np.int64]
    item: NDArray[np.int64]
    mark: NDArray[np.int64]


def allocate_messages(slots: int) -> Messages:
    """Slots, all free."""
    return Messages(np.zeros(8 * slots, np.int64), np.array([NONE, 0], np.int64))


def allocate_packets(count: int) -> Packets:
    """Room for that many packets, and for twice as many items."""
    return Packets(
        packet=np.zeros((count, 5), np.int64),
        item=np.zeros((2 * count, 3), np.int64),
        mark=np.array([NONE, 0, NONE, 0], np.int64),
    )


class Recorder(NamedTuple):
    """A chunk of the trace; the engine stops when it is nearly full and Python empties it."""

    row: NDArray[np.int64]
    setting: NDArray[np.int64]


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
    inbox: NDArray[np.int64]  # items of the packet at hand: tag, value
    item_class: NDArray[np.int64]  # tag -> MESSAGE, REFERENCE or NUMBER
    node: NDArray[np.int64]
    delivered: NDArray[np.int64]  # node, source -> deliveries; only when nodes may crash
    counter: NDArray[np.int64]
    latency: NDArray[np.int64]  # histogram of delivery latency
    progress: NDArray[np.int64]


CRASH_KIND: Final = int(EventKind.CRASH)
SEND_KIND: Final = int(EventKind.SEND)


@compiled.function()
def _record(
    recorder: Recorder, time_ns: int, kind: int, node: int, source: int, sequence: int, packet: int
) -> None:
    row = recorder.row[recorder.setting[ROWS]]
    row[ROW_TIME_NS] = time_ns
    row[ROW_NODE] = node
    row[ROW_KIND] = kind
    row[ROW_SOURCE] = source
    row[ROW_SEQUENCE] = sequence
    row[ROW_PACKET] = packet
    recorder.setting[ROWS] += 1


@compiled.function(inline=False)
def record_message(
    recorder: Recorder, host: Host, kind: int, node: int, slot: int, packet: int
) -> None:
    """Append an event of a message to the trace; the engine has made sure of the room."""
    source = host.name[2 * slot + contract.SOURCE]
    sequence = host.name[2 * slot + contract.SEQUENCE]
    _record(recorder, host.cursor[contract.NOW_NS], kind, node, source, sequence, packet)


@compiled.function(inline=False)
def crash(world: World, node: int) -> None:
    """The node stops for good, and the others learn it after their detection delays."""
    if world.faults.blocked_until_ns[node] == fault.FOR_EVER_NS:
        return
    world.faults.blocked_until_ns[node] = fault.FOR_EVER_NS
    world.node[2 * node + HELD] = 0
    now_ns = world.host.cursor[contract.NOW_NS]
    if world.progress[HERE] == node:
        # A crash in mid-send: what the handler asked for after this packet never happens.
        world.host.cursor[contract.LENGTH] = world.progress[EFFECT]
        world.progress[ARRIVED] = 0
    if world.recorder.setting[RECORDING] != 0:
        _record(world.recorder, now_ns, CRASH_KIND, node, node, 0, NONE)
    for observer in range(world.network.busy_until_ns.size):
        if observer != node:
            time_ns = now_ns + world.faults.detection_ns[node, observer]
            events.push_one(world.queue, time_ns, SUSPECT | observer, node)


@compiled.function(inline=False)
def take_slot(messages: Messages) -> int:
    """A free slot, or NONE."""
    slot = messages.mark[FREE]
    if slot != NONE:
        messages.mark[FREE] = messages.slot[8 * slot + LINK]
        return slot
    slot = messages.mark[HIGH]
    if 8 * slot == messages.slot.size:
        return NONE
    messages.mark[HIGH] = slot + 1
    return slot


@compiled.function()
def end_reference(messages: Messages, slot: int) -> None:
    """One reference less; the last one frees the slot."""
    references = messages.slot[8 * slot + REFERENCES] - 1
    messages.slot[8 * slot + REFERENCES] = references
    if references == 0:
        messages.slot[8 * slot + LINK] = messages.mark[FREE]
        messages.mark[FREE] = slot


@compiled.function(inline=False)
def refer(world: World, what: int) -> None:
    """A copy of a packet is under way: its messages are referred to once more."""
    if what < 0:
        world.messages.slot[8 * (~what) + REFERENCES] += 1
        return
    world.packets.packet[what, COPIES] += 1
    item = world.packets.packet[what, FIRST_ITEM]
    while item != NONE:
        if world.item_class[world.packets.item[item, TAG]] != contract.NUMBER:
            world.messages.slot[8 * world.packets.item[item, VALUE] + REFERENCES] += 1
        item = world.packets.item[item, ITEM_LINK]


@compiled.function(inline=False)
def count_sent(world: World, node: int, what: int) -> None:
    """Count the messages of a packet that is sent, and record them if packets are."""
    if what < 0:
        world.counter[MESSAGES_SENT] += 1
        return
    number = world.counter[PACKETS]
    world.packets.packet[what, PACKET_NUMBER] = number
    item = world.packets.packet[what, FIRST_ITEM]
    while item != NONE:
        if world.item_class[world.packets.item[item, TAG]] == contract.MESSAGE:
            world.counter[MESSAGES_SENT] += 1
            if world.recorder.setting[RECORDING_PACKETS] != 0:
                slot = world.packets.item[item, VALUE]
                record_message(world.recorder, world.host, SEND_KIND, node, slot, number)
        item = world.packets.item[item, ITEM_LINK]


@compiled.function(inline=False)
def has_packet_room(packets: Packets, items: int) -> bool:
    """Whether that many packets of together that many items fit; a packet has an item or more."""
    unused = min(
        packets.packet.shape[0] - packets.mark[HIGH], packets.item.shape[0] - packets.mark[ITEM_HIGH]
    )
    return unused >= items


@compiled.function(inline=False)
def new_packet(packets: Packets, sender: int) -> int:
    """An empty packet; the caller has asked ``has_packet_room``."""
    packet = packets.mark[FREE]
    if packet != NONE:
        packets.mark[FREE] = packets.packet[packet, PACKET_LINK]
    else:
        packet = packets.mark[HIGH]
        packets.mark[HIGH] = packet + 1
    packets.packet[packet, SENDER] = sender
    packets.packet[packet, FIRST_ITEM] = NONE
    packets.packet[packet, COPIES] = 0
    return packet


@compiled.function(inline=False)
def add_item(packets: Packets, packet: int, last: int, tag: int, value: int) -> int:
    """Append an item after ``last`` (NONE: the packet is empty); returns the item."""
    item = packets.mark[ITEM_FREE]
    if item != NONE:
        packets.mark[ITEM_FREE] = packets.item[item, ITEM_LINK]
    else:
        item = packets.mark[ITEM_HIGH]
        packets.mark[ITEM_HIGH] = item + 1
    packets.item[item, TAG] = tag
    packets.item[item, VALUE] = value
    packets.item[item, ITEM_LINK] = NONE
    if last == NONE:
        packets.packet[packet, FIRST_ITEM] = item
    else:
        packets.item[last, ITEM_LINK] = item
    return item


@compiled.function(inline=False)
def free_packet(packets: Packets, packet: int) -> None:
    """Give a packet and its items back."""
    item = packets.packet[packet, FIRST_ITEM]
    while item != NONE:
        following = packets.item[item, ITEM_LINK]
        packets.item[item, ITEM_LINK] = packets.mark[ITEM_FREE]
        packets.mark[ITEM_FREE] = item
        item = following
    packets.packet[packet, PACKET_LINK] = packets.mark[FREE]
    packets.mark[FREE] = packet


@compiled.function(inline=False)
def end_copy(packets: Packets, packet: int) -> None:
    """One copy of a packet has arrived; the last one frees it."""
    packets.packet[packet, COPIES] -= 1
    if packets.packet[packet, COPIES] == 0:
        free_packet(packets, packet)


@compiled.function()
def latency_bin(latency_ns: int) -> int:
    """The histogram bin of a latency: exponent and leading bits of its floating-point form."""
    bits = np.float64(latency_ns + 1).view(np.int64)
    return (bits >> HISTOGRAM_SHIFT) - HISTOGRAM_BASE


def bin_start_ns(bin_number: int) -> float:
    """The smallest latency of a bin."""
    bits = np.int64((bin_number + HISTOGRAM_BASE) << HISTOGRAM_SHIFT)
    return float(bits.view(np.float64)) - 1.0
