"""Messages and packets in flight: reference counts and free rows."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, contract
from precedes.contract import Host, Int64s
from precedes.model import EventKind
from precedes.sim.engine import layout, queue, rows
from precedes.sim.engine.layout import NONE

SEND_KIND: Final = int(EventKind.SEND)

# Columns of ``packets.packet`` and ``packets.item``.
SENDER: Final = 0
FIRST_ITEM: Final = 1
COPIES: Final = 2
PACKET_NUMBER: Final = 3
TAG: Final = 0
VALUE: Final = 1
ITEM_LINK: Final = 2


class Packets(NamedTuple):
    """Packets in flight that are more than one message sent by its own source."""

    packet: NDArray[np.int64]
    item: NDArray[np.int64]


def allocate_packets(count: int) -> Packets:
    """Room for that many packets, and for twice as many items."""
    return Packets(packet=np.zeros((count, 4), np.int64), item=np.zeros((2 * count, 3), np.int64))


@compiled.function()
def _take_row(table: Int64s, registers: Int64s, free: int) -> int:
    """A free row, or one that was never used; the caller has checked the room.

    ``free`` is where the registers have the head of the list of free rows, which are linked by
    their first words, followed by the number of rows ever used.
    """
    row = registers[free]
    if row != NONE:
        registers[free] = table[row, 0]
    else:
        row = registers[free + 1]
        registers[free + 1] = row + 1
    return row


@compiled.function()
def _free_row(table: Int64s, registers: Int64s, free: int, row: int) -> None:
    table[row, 0] = registers[free]
    registers[free] = row


@compiled.function()
def take_slot(message: Int64s, registers: Int64s) -> int:
    """A free slot, or NONE."""
    if registers[layout.SLOT_FREE] == NONE and registers[layout.SLOT_HIGH] == message.shape[0]:
        return NONE
    return _take_row(message, registers, layout.SLOT_FREE)


@compiled.function()
def end_reference(message: Int64s, registers: Int64s, slot: int) -> None:
    """End one reference; the last one frees the slot."""
    references = message[slot, layout.REFERENCES] - 1
    message[slot, layout.REFERENCES] = references
    if references == 0:
        _free_row(message, registers, layout.SLOT_FREE, slot)


@compiled.function()
def delivery_key(message: Int64s, node: int, slot: int) -> int:
    """A number that identifies a delivery of the run."""
    return (message[slot, layout.NUMBER] << queue.WHERE_BITS) | node


@compiled.function()
def has_packet_room(packets: Packets, registers: Int64s, items: int) -> bool:
    """Return whether this many packets with this many items fit; a packet has an item or more."""
    unused = min(
        packets.packet.shape[0] - registers[layout.PACKET_HIGH],
        packets.item.shape[0] - registers[layout.ITEM_HIGH],
    )
    return unused >= items


@compiled.function(inline=False)
def new_packet(packets: Packets, registers: Int64s, sender: int) -> int:
    """An empty packet; the caller has checked ``has_packet_room``."""
    packet = _take_row(packets.packet, registers, layout.PACKET_FREE)
    packets.packet[packet, SENDER] = sender
    packets.packet[packet, FIRST_ITEM] = NONE
    packets.packet[packet, COPIES] = 0
    return packet


@compiled.function(inline=False)
def add_item(
    packets: Packets, registers: Int64s, packet: int, last: int, tag: int, value: int
) -> int:
    """Append an item after ``last`` (NONE: the packet is empty); returns the item."""
    item = _take_row(packets.item, registers, layout.ITEM_FREE)
    packets.item[item, TAG] = tag
    packets.item[item, VALUE] = value
    packets.item[item, ITEM_LINK] = NONE
    if last == NONE:
        packets.packet[packet, FIRST_ITEM] = item
    else:
        packets.item[last, ITEM_LINK] = item
    return item


@compiled.function(inline=False)
def unpack(packets: Packets, inbox: Int64s, packet: int) -> int:
    """Write the items of a packet into the inbox; return their number."""
    item = packets.packet[packet, FIRST_ITEM]
    count = 0
    while item != NONE:
        inbox[2 * count] = packets.item[item, TAG]
        inbox[2 * count + 1] = packets.item[item, VALUE]
        count += 1
        item = packets.item[item, ITEM_LINK]
    return count


@compiled.function(inline=False)
def first_message(packets: Packets, item_class: Int64s, argument: int) -> int:
    """The first message that a packet carries or names, or NONE."""
    if argument < 0:
        return ~argument
    item = packets.packet[argument, FIRST_ITEM]
    while item != NONE:
        if item_class[packets.item[item, TAG]] < contract.NUMBER:
            return packets.item[item, VALUE]
        item = packets.item[item, ITEM_LINK]
    return NONE


@compiled.function(inline=False)
def refer(packets: Packets, message: Int64s, item_class: Int64s, argument: int) -> None:
    """Count one more reference to the messages of a packet that is copied."""
    if argument < 0:
        message[~argument, layout.REFERENCES] += 1
        return
    packets.packet[argument, COPIES] += 1
    item = packets.packet[argument, FIRST_ITEM]
    while item != NONE:
        if item_class[packets.item[item, TAG]] < contract.NUMBER:
            message[packets.item[item, VALUE], layout.REFERENCES] += 1
        item = packets.item[item, ITEM_LINK]


@compiled.function(inline=False)
def end_copy(packets: Packets, registers: Int64s, packet: int, copies: int) -> None:
    """End copies of a packet; with the last one, the packet and its items are free."""
    packets.packet[packet, COPIES] -= copies
    if packets.packet[packet, COPIES] > 0:
        return
    item = packets.packet[packet, FIRST_ITEM]
    while item != NONE:
        following = packets.item[item, ITEM_LINK]
        _free_row(packets.item, registers, layout.ITEM_FREE, item)
        item = following
    _free_row(packets.packet, registers, layout.PACKET_FREE, packet)


@compiled.function(inline=False)
def count_sent(
    packets: Packets, host: Host, trace: Int64s, item_class: Int64s, node: int, argument: int
) -> None:
    """Count the messages of a packet that is sent, and record them if packets are."""
    registers = host.registers
    if argument < 0:
        registers[layout.MESSAGES_SENT] += 1
        registers[layout.PACKETS_OF + 1] += 1
        registers[layout.REGISTERS + node] = max(registers[layout.REGISTERS + node], 1)
        return
    before = registers[layout.MESSAGES_SENT]
    packets.packet[argument, PACKET_NUMBER] = registers[layout.PACKETS]
    item = packets.packet[argument, FIRST_ITEM]
    while item != NONE:
        if item_class[packets.item[item, TAG]] == contract.MESSAGE:
            registers[layout.MESSAGES_SENT] += 1
            if registers[layout.RECORDING_PACKETS] != 0:
                slot = packets.item[item, VALUE]
                rows.record_message(trace, host, SEND_KIND, node, slot, registers[layout.PACKETS])
        item = packets.item[item, ITEM_LINK]
    count = registers[layout.MESSAGES_SENT] - before
    registers[layout.PACKETS_OF + min(count, layout.PACKETS_OF_MAX)] += 1
    registers[layout.REGISTERS + node] = max(registers[layout.REGISTERS + node], count)
