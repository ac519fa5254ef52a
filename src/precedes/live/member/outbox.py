"""What goes out: records for single members, packets for all, reports to Python.

What is written between two flushes becomes one frame for each member: first what is for all, in
``common``, then its own records, written to ``out`` as they come and put in order at the end.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled, contract
from precedes.compiled import ZERO
from precedes.live.member import arrays, records
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.parts import topology
from precedes.parts.pool import NONE

# A frame with more than one record for all, or for its receiver alone, is cut here.
FRAME_BYTES: Final = 1 << 19
# A packet is cut here: its frame stays far below every limit, and its memory too.
PIECE_BYTES: Final = 1 << 17


@compiled.function(inline=False)
def can_report(member: Member, count: int) -> bool:
    """Whether so many more reports fit."""
    return member.host.registers[arrays.REPORTS] + count <= member.report.shape[0]


@compiled.function(inline=False)
def report(member: Member, what: int, about: int, reason: int) -> None:
    """Tell Python something; the caller has asked ``can_report``."""
    registers = member.host.registers
    row = member.report[registers[arrays.REPORTS]]
    row[arrays.WHAT] = what
    row[arrays.ABOUT] = about
    row[arrays.REASON] = reason
    registers[arrays.REPORTS] += 1


@compiled.function(inline=False)
def has_room(member: Member, size_bytes: int, count: int) -> bool:
    """Whether that many records, of so many bytes in all, can be written for single members."""
    registers = member.host.registers
    end = registers[arrays.OUT_BYTES] + size_bytes
    return bool(
        end <= member.out.size
        and (end <= FRAME_BYTES or registers[arrays.OUT_BYTES] == 0)
        and registers[arrays.PACKETS] + count <= member.packet.shape[0]
    )


@compiled.function(inline=False)
def open_record(member: Member, target: int) -> int:
    """Begin a record for one member; where to write it. The caller has asked ``has_room``."""
    registers = member.host.registers
    row = member.packet[registers[arrays.PACKETS]]
    row[arrays.TARGET] = target
    row[arrays.FROM] = registers[arrays.OUT_BYTES]
    return registers[arrays.OUT_BYTES]


@compiled.function(inline=False)
def close_record(member: Member, at: int) -> None:
    """End the record begun last."""
    registers = member.host.registers
    row = member.packet[registers[arrays.PACKETS]]
    row[arrays.TO] = at
    member.bound[row[arrays.TARGET], arrays.LAST] += at - row[arrays.FROM]
    registers[arrays.OUT_BYTES] = at
    registers[arrays.PACKETS] += 1


@compiled.function(inline=False)
def sort_by_target(member: Member) -> None:
    """Put the records for each member side by side."""
    bound = member.bound
    at = 0
    for target in range(member.setting[arrays.NODES]):
        bound[target, arrays.FIRST] = at
        at += bound[target, arrays.LAST]
        bound[target, arrays.LAST] = bound[target, arrays.FIRST]
    for i in range(member.host.registers[arrays.PACKETS]):
        row = member.packet[i]
        target, first = row[arrays.TARGET], row[arrays.FROM]
        count = row[arrays.TO] - first
        compiled.copy_bytes(member.out, first, member.routed, bound[target, arrays.LAST], count)
        bound[target, arrays.LAST] += count


@compiled.function(inline=False)
def send_all(member: Member, tag: int, value: int) -> int:
    """A packet of one item to everybody: written once."""
    registers = member.host.registers
    at = registers[arrays.COMMON_BYTES]
    end = at + records.PACKET_BYTES + records.item_bytes_max(member, tag, value)
    if end > member.common.size or (at > 0 and end > FRAME_BYTES):
        return FLUSH
    at = records.write_packet(member.common, at, 1)
    registers[arrays.COMMON_BYTES] = records.write_item(member, member.common, at, tag, value)
    registers[arrays.PACKETS_ALL] += 1
    return DONE


@compiled.function(inline=False)
def send(member: Member, at: int) -> int:
    """The items of the SEND effect at this place, in pieces that fit into the buffer."""
    effects, registers = member.host.effects, member.host.registers
    target, count = effects[at + 1], effects[at + 2]
    if member.known[target, arrays.GONE] != 0 or target == member.setting[arrays.ME]:
        return DONE
    while registers[arrays.PIECE] < count:
        first = registers[arrays.PIECE]
        last = first
        size_bytes = records.ROUTED_BYTES + records.PACKET_BYTES
        while last < count:
            tag, value = effects[at + 3 + 2 * last], effects[at + 4 + 2 * last]
            more, items = records.item_bytes_max(member, tag, value), 1
            if member.item_class[tag] == contract.RECORD:
                items += value
                more += value * (records.TAG_BYTES + records.NUMBER_BYTES)
            too_many = last + items - first > member.setting[arrays.ITEMS_MAX]
            if last > first and (too_many or size_bytes + more > PIECE_BYTES):
                break
            size_bytes += more
            last += items
        if not has_room(member, size_bytes, 1):
            return FLUSH
        _send_piece(member, target, at, first, last)
        registers[arrays.PIECE] = last
    registers[arrays.PIECE] = 0
    return DONE


@compiled.function(inline=False)
def _send_piece(member: Member, target: int, at: int, first: int, last: int) -> None:
    """A packet of some items of a send, straight to the target or by way of neighbours."""
    registers = member.host.registers
    unlinked = member.known[target, arrays.LINKED] == 0 and registers[arrays.EVICTIONS] == 0
    if unlinked and member.setting[arrays.ROUTE] == arrays.TREE:
        hop = next_hop(member, target)
        if hop == NONE:
            return
        begin = open_record(member, hop)
        packet = begin + records.ROUTED_BYTES
        end = _write_items(member, packet, target, at, first, last)
        me = member.setting[arrays.ME]
        records.write_routed(member.out, begin, target, me, end - packet)
    else:
        end = _write_items(member, open_record(member, target), target, at, first, last)
    close_record(member, end)
    registers[arrays.PACKETS_SENT] += 1


@compiled.function(inline=False)
def _write_items(member: Member, place: int, target: int, at: int, first: int, last: int) -> int:
    effects = member.host.effects
    place = records.write_packet(member.out, place, last - first)
    for i in range(first, last):
        tag, value = effects[at + 3 + 2 * i], effects[at + 4 + 2 * i]
        before = place
        place = records.write_item(member, member.out, place, tag, value)
        if member.item_class[tag] == contract.MESSAGE:
            member.bound[target, arrays.OF_MESSAGES] += place - before
    return place


@compiled.function(inline=False)
def next_hop(member: Member, target: int) -> int:
    """The neighbour by which a packet comes nearer to its target, or NONE.

    It is in the same cluster of ours as the target, so what is left of the way is in a smaller
    cluster: no loops, whatever the views on the way.
    """
    return member.branch[topology.cluster(member.setting[arrays.ME], target) - 1] + ZERO
