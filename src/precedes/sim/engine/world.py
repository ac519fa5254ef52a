"""The arrays of one run, owned by Python and changed by the engine loop.

Values that belong together share an array with named columns or places: what is compiled is
paid for by the array, and a message or a packet is touched as a whole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, contract
from precedes.contract import Host, Int64s
from precedes.model import EventKind
from precedes.sim.engine import faults as fault
from precedes.sim.engine import oracle
from precedes.sim.engine import queue as events
from precedes.sim.engine.faults import Faults
from precedes.sim.engine.network import Network
from precedes.sim.engine.oracle import Oracle
from precedes.sim.engine.queue import Queue
from precedes.sim.engine.workload import Workload

NONE: Final = -1

# Words of a message, eight each, named by the slot.
BORN_NS: Final = 0
REFERENCES: Final = 1
NUMBER: Final = 2  # in order of broadcast
LABEL: Final = 3  # the replayed event, or -1
FLAGGED: Final = 4  # 1: some delivery of it was out of order; 3: one that was not tagged
DELIVERED: Final = 5  # how many nodes have delivered it
LINK: Final = 6

# Words of a node, eight each: a cache line.
SEQUENCE: Final = 0  # broadcasts so far
HELD: Final = 1  # messages received and neither delivered nor dropped
BUSY_UNTIL_NS: Final = 2  # when its send queue is empty
BLOCKED_UNTIL_NS: Final = 3  # end of its pause; FOR_EVER_NS once crashed
SENDS_LEFT: Final = 4  # packets until it crashes in mid-send; negative: never
BEHIND: Final = oracle.BEHIND
GAPS: Final = oracle.GAPS
LATEST: Final = oracle.LATEST

# Columns of ``packets.packet`` and ``packets.item``.
SENDER: Final = 0
FIRST_ITEM: Final = 1
COPIES: Final = 2
PACKET_NUMBER: Final = 3
PACKET_LINK: Final = 4
TAG: Final = 0
VALUE: Final = 1
ITEM_LINK: Final = 2

# Columns of ``trace``.
ROW_TIME_NS: Final = 0
ROW_NODE: Final = 1
ROW_KIND: Final = 2
ROW_SOURCE: Final = 3
ROW_SEQUENCE: Final = 4
ROW_PACKET: Final = 5

# Places in ``host.registers`` after the contract's own: counts,
BROADCASTS: Final = contract.REGISTERS
DELIVERIES: Final = BROADCASTS + 1
PACKETS: Final = BROADCASTS + 2
MESSAGES_SENT: Final = BROADCASTS + 3
BYTES_SENT: Final = BROADCASTS + 4
RECEPTIONS: Final = BROADCASTS + 5
RECEPTION_NS: Final = BROADCASTS + 6
DELIVERY_NS: Final = BROADCASTS + 7
VIOLATIONS: Final = BROADCASTS + 8
VIOLATING_MESSAGES: Final = BROADCASTS + 9
DUPLICATES: Final = BROADCASTS + 10
DROPPED: Final = BROADCASTS + 11
PENDING_MAX: Final = BROADCASTS + 12
PACKETS_LOST: Final = BROADCASTS + 13
SKIPPED: Final = BROADCASTS + 14  # broadcasts of crashed nodes
# where the engine goes on after it stopped to let something grow,
HORIZON_NS: Final = BROADCASTS + 15
EFFECT: Final = BROADCASTS + 16  # the next effect to carry out
HERE: Final = BROADCASTS + 17  # of which node
ARRIVED: Final = BROADCASTS + 18  # items of the packet just received
# the trace,
ROWS: Final = BROADCASTS + 19  # rows written
RECORDING: Final = BROADCASTS + 20
RECORDING_PACKETS: Final = BROADCASTS + 21
# and the pools: a list of free rows, then rows never used.
SLOT_FREE: Final = BROADCASTS + 22
SLOT_HIGH: Final = BROADCASTS + 23
PACKET_FREE: Final = BROADCASTS + 24
PACKET_HIGH: Final = BROADCASTS + 25
ITEM_FREE: Final = BROADCASTS + 26
ITEM_HIGH: Final = BROADCASTS + 27
# Whether the run has faults, a trace or a replay: arrivals then take the longer way.
CARE: Final = BROADCASTS + 28
# Whether the packets being sent go on the node's second channel.
ASIDE: Final = BROADCASTS + 29
# Which delivery the protocol tagged last, and what it should have tagged and did not.
TAGGED: Final = BROADCASTS + 30
UNTAGGED_VIOLATIONS: Final = BROADCASTS + 31
UNTAGGED_MESSAGES: Final = BROADCASTS + 32
WAITED_NS: Final = BROADCASTS + 33  # of all packets, in the queues of their senders
# Packets that carry 0, 1, 2, .. messages; the last place counts those with more, too.
PACKETS_OF: Final = BROADCASTS + 34
PACKETS_OF_MAX: Final = 16
# Packets of up to 100, 200, .. bytes; the last: or more.
PACKETS_SIZED: Final = PACKETS_OF + PACKETS_OF_MAX + 1
SIZE_STEP_BYTES: Final = 100
SIZES_MAX: Final = 15
# Deliveries out of order in every 10 s; the last: or later.
VIOLATIONS_TIMED: Final = PACKETS_SIZED + SIZES_MAX + 1
TIMED_STEP_NS: Final = 10_000_000_000
TIMED_MAX: Final = 63
REGISTERS: Final = VIOLATIONS_TIMED + TIMED_MAX + 1
# Behind them, a registers for every node: the messages of the largest packet that it has sent.

# What ``engine.run`` returns.
FINISHED: Final = 0
GROW_QUEUE: Final = 1
GROW_SLOTS: Final = 2
GROW_STATE: Final = 3
GROW_PACKETS: Final = 4
GROW_ORACLE: Final = 5
FLUSH_TRACE: Final = 6
EFFECTS_OVERFLOW: Final = 7
PAUSED: Final = 8  # the time slice is over: report progress and go on
DRAW: Final = 10  # what was drawn for the network is used up
NEITHER: Final = 9  # a handler returned neither DONE nor FULL

# Kinds of queue entries, above the node in ``where``.
ARRIVAL: Final = 0 << events.WHERE_BITS
ISSUE: Final = 1 << events.WHERE_BITS
TIMER: Final = 2 << events.WHERE_BITS
FAULT: Final = 3 << events.WHERE_BITS
SUSPECT: Final = 4 << events.WHERE_BITS
START: Final = 5 << events.WHERE_BITS
ISSUE_LATE: Final = 6 << events.WHERE_BITS  # a broadcast outside the schedule: put off, replayed

HISTOGRAM_SHIFT: Final = 45  # keeps 7 bits of a double's fraction: steps of 0.8 % or finer
HISTOGRAM_BASE: Final = 1023 << 7
HISTOGRAM_BINS: Final = 64 << 7


class Packets(NamedTuple):
    """Packets in flight that are more than one message sent by its own source."""

    packet: NDArray[np.int64]
    item: NDArray[np.int64]


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
    item_class: NDArray[np.int64]  # tag -> MESSAGE, REFERENCE or NUMBER
    delivered: NDArray[np.int64]  # node, source -> deliveries; only when nodes may crash
    latency: NDArray[np.int64]  # histogram of delivery latency
    trace: NDArray[np.int64]  # a chunk of rows; Python empties it when it is nearly full


def allocate_host(*, slots: int, effects: int, seed: int, nodes: int) -> Host:
    """The host's side of the contract with the simulator's cells behind it."""
    host = contract.allocate_host(
        slots=slots, effects=effects, seed=seed, registers=REGISTERS + nodes
    )
    for place in (SLOT_FREE, PACKET_FREE, ITEM_FREE, TAGGED):
        host.registers[place] = NONE
    return host


def allocate_packets(count: int) -> Packets:
    """Room for that many packets, and for twice as many items."""
    return Packets(packet=np.zeros((count, 5), np.int64), item=np.zeros((2 * count, 3), np.int64))


def allocate_nodes(nodes: int) -> NDArray[np.int64]:
    """The words of nodes that have done nothing yet."""
    words = np.zeros((nodes, 8), np.int64)
    words[:, SENDS_LEFT] = words[:, LATEST] = -1
    return words.reshape(-1)


CRASH_KIND: Final = int(EventKind.CRASH)
SEND_KIND: Final = int(EventKind.SEND)
TAG_KIND: Final = int(EventKind.TAG)


@compiled.function()
def _record(
    trace: Int64s, registers: Int64s, kind: int, node: int, source: int, sequence: int, packet: int
) -> None:
    row = trace[registers[ROWS]]
    row[ROW_TIME_NS] = registers[contract.NOW_NS]
    row[ROW_NODE] = node
    row[ROW_KIND] = kind
    row[ROW_SOURCE] = source
    row[ROW_SEQUENCE] = sequence
    row[ROW_PACKET] = packet
    registers[ROWS] += 1


@compiled.function(inline=False)
def record_message(trace: Int64s, host: Host, kind: int, node: int, slot: int, packet: int) -> None:
    """Append an event of a message to the trace; the engine has made sure of the room."""
    source = int(host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
    sequence = int(host.name[2 * slot + contract.SEQUENCE]) + compiled.ZERO
    _record(trace, host.registers, kind, node, source, sequence, packet)


@compiled.function()
def delivery_key(message: Int64s, node: int, slot: int) -> int:
    """A number that no other delivery of the run has."""
    return (message[8 * slot + NUMBER] << events.WHERE_BITS) | node


@compiled.function()
def needs_flush(trace: Int64s, registers: Int64s, rows: int) -> bool:
    """Whether the rows of the next effect, at most so many, might not fit into the chunk."""
    return registers[RECORDING] != 0 and registers[ROWS] + rows + 8 > trace.shape[0]


@compiled.function(inline=False)
def crash(world: World, node: int) -> None:
    """The node stops for good, and the others learn it after their detection delays."""
    registers = world.host.registers
    if world.node[8 * node + BLOCKED_UNTIL_NS] == fault.FOR_EVER_NS:
        return
    world.node[8 * node + BLOCKED_UNTIL_NS] = fault.FOR_EVER_NS
    world.node[8 * node + HELD] = 0
    if registers[HERE] == node:
        # A crash in mid-send: what the handler asked for after this packet never happens.
        registers[contract.LENGTH] = registers[EFFECT]
        registers[ARRIVED] = 0
    if registers[RECORDING] != 0:
        _record(world.trace, registers, CRASH_KIND, node, node, 0, NONE)
    for observer in range(world.node.size // 8):
        if observer != node:
            time_ns = registers[contract.NOW_NS] + world.faults.detection_ns[node, observer]
            events.push_one(world.queue, time_ns, SUSPECT | observer, node)


@compiled.function()
def take_slot(message: Int64s, registers: Int64s) -> int:
    """A free slot, or NONE."""
    slot = registers[SLOT_FREE]
    if slot != NONE:
        registers[SLOT_FREE] = message[8 * slot + LINK]
        return slot
    slot = registers[SLOT_HIGH]
    if 8 * slot == message.size:
        return NONE
    registers[SLOT_HIGH] = slot + 1
    return slot


@compiled.function()
def end_reference(message: Int64s, registers: Int64s, slot: int) -> None:
    """One reference less; the last one frees the slot."""
    references = message[8 * slot + REFERENCES] - 1
    message[8 * slot + REFERENCES] = references
    if references == 0:
        message[8 * slot + LINK] = registers[SLOT_FREE]
        registers[SLOT_FREE] = slot


@compiled.function(inline=False)
def refer(packets: Packets, message: Int64s, item_class: Int64s, what: int) -> None:
    """A copy of a packet is under way: its messages are referred to once more."""
    if what < 0:
        message[8 * (~what) + REFERENCES] += 1
        return
    packets.packet[what, COPIES] += 1
    item = packets.packet[what, FIRST_ITEM]
    while item != NONE:
        if item_class[packets.item[item, TAG]] != contract.NUMBER:
            message[8 * packets.item[item, VALUE] + REFERENCES] += 1
        item = packets.item[item, ITEM_LINK]


@compiled.function()
def has_packet_room(packets: Packets, registers: Int64s, items: int) -> bool:
    """Whether that many packets of together that many items fit; a packet has an item or more."""
    unused = min(
        packets.packet.shape[0] - registers[PACKET_HIGH],
        packets.item.shape[0] - registers[ITEM_HIGH],
    )
    return unused >= items


@compiled.function(inline=False)
def new_packet(packets: Packets, registers: Int64s, sender: int) -> int:
    """An empty packet; the caller has asked ``has_packet_room``."""
    packet = registers[PACKET_FREE]
    if packet != NONE:
        registers[PACKET_FREE] = packets.packet[packet, PACKET_LINK]
    else:
        packet = registers[PACKET_HIGH]
        registers[PACKET_HIGH] = packet + 1
    packets.packet[packet, SENDER] = sender
    packets.packet[packet, FIRST_ITEM] = NONE
    packets.packet[packet, COPIES] = 0
    return packet


@compiled.function(inline=False)
def add_item(
    packets: Packets, registers: Int64s, packet: int, last: int, tag: int, value: int
) -> int:
    """Append an item after ``last`` (NONE: the packet is empty); returns the item."""
    item = registers[ITEM_FREE]
    if item != NONE:
        registers[ITEM_FREE] = packets.item[item, ITEM_LINK]
    else:
        item = registers[ITEM_HIGH]
        registers[ITEM_HIGH] = item + 1
    packets.item[item, TAG] = tag
    packets.item[item, VALUE] = value
    packets.item[item, ITEM_LINK] = NONE
    if last == NONE:
        packets.packet[packet, FIRST_ITEM] = item
    else:
        packets.item[last, ITEM_LINK] = item
    return item


@compiled.function(inline=False)
def end_copy(packets: Packets, registers: Int64s, packet: int, copies: int) -> None:
    """So many copies of a packet less; with the last one, the packet and its items are free."""
    packets.packet[packet, COPIES] -= copies
    if packets.packet[packet, COPIES] > 0:
        return
    item = packets.packet[packet, FIRST_ITEM]
    while item != NONE:
        following = packets.item[item, ITEM_LINK]
        packets.item[item, ITEM_LINK] = registers[ITEM_FREE]
        registers[ITEM_FREE] = item
        item = following
    packets.packet[packet, PACKET_LINK] = registers[PACKET_FREE]
    registers[PACKET_FREE] = packet


@compiled.function(inline=False)
def count_sent(
    packets: Packets, host: Host, trace: Int64s, item_class: Int64s, node: int, what: int
) -> None:
    """Count the messages of a packet that is sent, and record them if packets are."""
    registers = host.registers
    if what < 0:
        registers[MESSAGES_SENT] += 1
        registers[PACKETS_OF + 1] += 1
        registers[REGISTERS + node] = max(registers[REGISTERS + node], 1)
        return
    before = registers[MESSAGES_SENT]
    packets.packet[what, PACKET_NUMBER] = registers[PACKETS]
    item = packets.packet[what, FIRST_ITEM]
    while item != NONE:
        if item_class[packets.item[item, TAG]] == contract.MESSAGE:
            registers[MESSAGES_SENT] += 1
            if registers[RECORDING_PACKETS] != 0:
                slot = packets.item[item, VALUE]
                record_message(trace, host, SEND_KIND, node, slot, registers[PACKETS])
        item = packets.item[item, ITEM_LINK]
    count = registers[MESSAGES_SENT] - before
    registers[PACKETS_OF + min(count, PACKETS_OF_MAX)] += 1
    registers[REGISTERS + node] = max(registers[REGISTERS + node], count)


@compiled.function()
def latency_bin(latency_ns: int) -> int:
    """The histogram bin of a latency: exponent and leading bits of its floating-point form."""
    bits = np.float64(latency_ns + 1).view(np.int64)
    return int(bits >> HISTOGRAM_SHIFT) - HISTOGRAM_BASE


def bin_start_ns(bin_number: int) -> float:
    """The smallest latency of a bin."""
    bits = np.int64((bin_number + HISTOGRAM_BASE) << HISTOGRAM_SHIFT)
    return float(bits.view(np.float64)) - 1.0
