"""Output of a step: effects of handlers, records for others, reports for Python.

Records that are written between two flushes become one frame for each member: first those for all,
in ``common``, then its own, written to ``out`` as they come and sorted by target at the end.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled, contract
from precedes.compiled import ZERO
from precedes.live.member import arrays, records, store
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.model import EventKind

DELIVER_KIND: Final = int(EventKind.DELIVER)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)

# The kind of an event and its source are above the sequence in one word of the trace.
KIND_SHIFT: Final = 56
SOURCE_SHIFT: Final = 32

# A frame with more than one record for all, or for its receiver alone, is cut here.
FRAME_BYTES: Final = 1 << 19
# A packet is cut here: its frame stays far below every limit, and its memory too.
PIECE_BYTES: Final = 1 << 17


@compiled.function(inline=False)
def can_report(member: Member, count: int) -> bool:
    """Return whether this many more reports fit."""
    return member.host.registers[arrays.REPORTS] + count <= member.report.shape[0]


@compiled.function(inline=False)
def report(member: Member, what: int, about: int, reason: int) -> None:
    """Append a report for Python; the caller has checked ``can_report``."""
    registers = member.host.registers
    row = member.report[registers[arrays.REPORTS]]
    row[arrays.WHAT] = what
    row[arrays.ABOUT] = about
    row[arrays.REASON] = reason
    registers[arrays.REPORTS] += 1


@compiled.function(inline=False)
def has_room(member: Member, size_bytes: int, count: int) -> bool:
    """Return whether this many records, with this many bytes, fit for single members."""
    registers = member.host.registers
    end = registers[arrays.OUT_BYTES] + size_bytes
    return bool(
        end <= member.out.size
        and (end <= FRAME_BYTES or registers[arrays.OUT_BYTES] == 0)
        and registers[arrays.PACKETS] + count <= member.packet.shape[0]
    )


@compiled.function(inline=False)
def open_record(member: Member, target: int) -> int:
    """Begin a record for one member; return its offset. The caller has checked ``has_room``."""
    registers = member.host.registers
    row = member.packet[registers[arrays.PACKETS]]
    row[arrays.TARGET] = target
    row[arrays.FROM] = registers[arrays.OUT_BYTES]
    return registers[arrays.OUT_BYTES]


@compiled.function(inline=False)
def close_record(member: Member, at: int) -> None:
    """End the last record that was begun."""
    registers = member.host.registers
    row = member.packet[registers[arrays.PACKETS]]
    row[arrays.TO] = at
    member.bound[row[arrays.TARGET], arrays.LAST] += at - row[arrays.FROM]
    registers[arrays.OUT_BYTES] = at
    registers[arrays.PACKETS] += 1


@compiled.function(inline=False)
def sort_by_target(member: Member) -> None:
    """Sort the records by target."""
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
    """A packet of one item to all: written once."""
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
        size_bytes = records.PACKET_BYTES
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
    """A packet of some items of a send."""
    close_record(member, _write_items(member, open_record(member, target), target, at, first, last))
    member.host.registers[arrays.PACKETS_SENT] += 1


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


# Effects of handlers ------------------------------------------------------------------------


@compiled.function(inline=False)
def trace_event(member: Member, kind: int, slot: int) -> None:
    """Append an event of a message to the trace; the caller has checked the room."""
    registers = member.host.registers
    if registers[arrays.RECORDING] != 0:
        source = np.int64(member.host.source_of(slot))
        sequence = np.int64(member.host.sequence_of(slot))
        row = member.trace[registers[arrays.ROWS]]
        row[0] = registers[contract.NOW_NS]
        row[1] = np.int64(kind) << KIND_SHIFT | source << SOURCE_SHIFT | sequence
        registers[arrays.ROWS] += 1


@compiled.function(inline=False)
def carry_out(member: Member) -> int:
    """Carry out the effects of the last handler, from where an earlier call stopped."""
    host = member.host
    registers = host.registers
    if registers[contract.OVERFLOW] != 0:
        return arrays.OVERFLOW
    while registers[arrays.EFFECT] < registers[contract.LENGTH]:
        at = registers[arrays.EFFECT]
        code = host.effects[at]
        if code == contract.DELIVER:
            status = _deliver(member, host.effects[at + 1])
        elif code == contract.SEND_ALL:
            status = send_all(member, host.effects[at + 1], host.effects[at + 2])
        elif code == contract.SEND or code == contract.SEND_ASIDE:
            status = send(member, at)
        else:
            status = _carry_out_other(member, at)
        if status != DONE:
            return status
        registers[arrays.EFFECT] = contract.next_effect(host.effects, at)
    if registers[arrays.PENDING] > 0:
        registers[arrays.PENDING_MAX] = max(
            registers[arrays.PENDING_MAX], registers[arrays.PENDING]
        )
        if registers[arrays.RECORDING] != 0:
            if registers[arrays.ROWS] + registers[arrays.ARRIVED] > member.trace.shape[0]:
                return FLUSH
            # Record the reception of messages that are neither delivered nor dropped.
            for i in range(registers[arrays.ARRIVED]):
                slot = contract.value_of(member.inbox, i)
                kind = member.item_class[contract.tag_of(member.inbox, i)]
                if kind == contract.MESSAGE and not contract.ends(
                    host.effects, registers[contract.LENGTH], slot
                ):
                    trace_event(member, RECEIVE_KIND, slot)
    registers[contract.LENGTH] = 0
    registers[arrays.EFFECT] = 0
    registers[arrays.ARRIVED] = 0
    return DONE


@compiled.function(inline=False)
def _deliver(member: Member, slot: int) -> int:
    """Deliver a message that has come from another member."""
    registers = member.host.registers
    if not can_hand_out(member, member.message[slot, arrays.PAYLOAD_BYTES]):
        return FLUSH
    if registers[arrays.ROWS] == member.trace.shape[0] and registers[arrays.RECORDING] != 0:
        return FLUSH
    hand_out(member, slot)
    trace_event(member, DELIVER_KIND, slot)
    _end_wait(member, slot)
    return DONE


@compiled.function(inline=False)
def can_hand_out(member: Member, size_bytes: int) -> bool:
    """Return whether one more message for the application fits."""
    registers = member.host.registers
    if registers[arrays.DELIVERED_BYTES] + size_bytes > member.delivered.size:
        return False
    return bool(registers[arrays.DELIVERIES] < member.delivery.shape[0])


@compiled.function(inline=False)
def hand_out(member: Member, slot: int) -> None:
    """Copy a message for the application; the caller has checked ``can_hand_out``."""
    registers = member.host.registers
    first = registers[arrays.DELIVERED_BYTES]
    row = member.delivery[registers[arrays.DELIVERIES]]
    source, sequence = member.host.source_of(slot) + ZERO, member.host.sequence_of(slot) + ZERO
    row[arrays.SOURCE] = source
    row[arrays.SEQUENCE] = sequence
    known = member.known[source]
    known[arrays.DELIVERED] = max(known[arrays.DELIVERED], sequence)
    row[arrays.FIRST_BYTE] = first
    row[arrays.LAST_BYTE] = store.copy_payload(member, slot, member.delivered, first)
    registers[arrays.DELIVERED_BYTES] = row[arrays.LAST_BYTE]
    registers[arrays.DELIVERIES] += 1


@compiled.function(inline=False)
def begin_wait(member: Member, slot: int) -> None:
    """Count one more pending reference of this message."""
    registers = member.host.registers
    member.message[slot, arrays.WAITING] += 1
    registers[arrays.PENDING] += 1
    registers[arrays.PENDING_BYTES] += member.message[slot, arrays.PAYLOAD_BYTES]


@compiled.function(inline=False)
def _end_wait(member: Member, slot: int) -> None:
    registers = member.host.registers
    member.message[slot, arrays.WAITING] -= 1
    registers[arrays.PENDING] -= 1
    registers[arrays.PENDING_BYTES] -= member.message[slot, arrays.PAYLOAD_BYTES]
    store.end_reference(member, slot)


@compiled.function(inline=False)
def _carry_out_other(member: Member, at: int) -> int:
    """The rarer effects."""
    effects, registers = member.host.effects, member.host.registers
    code, slot = effects[at], effects[at + 1]
    if code == contract.RELEASE:
        store.end_reference(member, slot)
    elif code == contract.DROP:
        registers[arrays.DROPPED] += 1
        _end_wait(member, slot)
    elif code == contract.KEEP:
        member.message[slot, arrays.REFERENCES] += 1
        begin_wait(member, slot)
    elif code == contract.RETAIN:
        member.message[slot, arrays.REFERENCES] += 1
    elif code == contract.SET_TIMER:
        if registers[arrays.TIMERS] == member.timer.shape[0]:
            return FLUSH
        row = member.timer[registers[arrays.TIMERS]]
        row[arrays.KEY] = effects[at + 1]
        row[arrays.DUE_NS] = registers[contract.NOW_NS] + effects[at + 2]
        row[arrays.OWNER] = registers[arrays.OF_DETECTOR]
        registers[arrays.TIMERS] += 1
    else:
        if registers[arrays.ROWS] == member.trace.shape[0] and registers[arrays.RECORDING] != 0:
            return FLUSH
        trace_event(member, effects[at + 1], effects[at + 2])
    return DONE
