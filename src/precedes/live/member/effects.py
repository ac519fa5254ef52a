"""Carrying out what a handler asked for, at a live member: deliveries, packets, timers, notes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from precedes import compiled, contract
from precedes.live.member import arrays as a
from precedes.live.member import credit as credits
from precedes.live.member import records, store
from precedes.live.member.arrays import Member
from precedes.live.member.status import FINISHED, FLUSH, OVERFLOW
from precedes.live.net.wire import FRAME_BYTES, PACKET, ROUTED, ROUTED_BYTES
from precedes.model import EventKind
from precedes.parts import topology

DELIVER_KIND: Final = int(EventKind.DELIVER)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)

# A packet is cut here: its frame stays far below every limit, and its memory too.
PIECE_BYTES: Final = 1 << 17

# The kind of an event and its source stand above the sequence in one word of the trace.
KIND_SHIFT: Final = 56
SOURCE_SHIFT: Final = 32


@compiled.function(inline=False)
def record(member: Member, kind: int, slot: int) -> None:
    """Append an event of a message to the trace; the caller has made sure of the room."""
    registers = member.host.registers
    if registers[a.RECORDING] != 0:
        source = np.int64(member.host.name[2 * slot + contract.SOURCE])
        sequence = np.int64(member.host.name[2 * slot + contract.SEQUENCE])
        row = member.trace[registers[a.ROWS]]
        row[0] = registers[contract.NOW_NS]
        row[1] = np.int64(kind) << KIND_SHIFT | source << SOURCE_SHIFT | sequence
        registers[a.ROWS] += 1


@compiled.function(inline=False)
def report(member: Member, what: int, about: int, reason: int) -> None:
    """Have Python know something; the caller has made sure of the room."""
    registers = member.host.registers
    row = member.report[registers[a.REPORTS]]
    row[a.WHAT] = what
    row[a.ABOUT] = about
    row[2] = reason
    registers[a.REPORTS] += 1


@compiled.function(inline=False)
def carry_out(member: Member, state: Any) -> int:
    """Carry out the effects of the last handler, from where an earlier call stopped."""
    host = member.host
    registers = host.registers
    while registers[a.EFFECT] < registers[contract.LENGTH]:
        at = registers[a.EFFECT]
        code = host.effects[at]
        if code == contract.DELIVER:
            status = _deliver(member, host.effects[at + 1])
        elif code == contract.SEND_ALL:
            status = _send_all(member, host.effects[at + 1], host.effects[at + 2])
        elif code == contract.SEND or code == contract.SEND_ASIDE:
            status = _send(member, at)
        else:
            status = _carry_out_other(member, at)
        if status != FINISHED:
            return status
        registers[a.EFFECT] = contract.next_effect(host.effects, at)
    if registers[contract.OVERFLOW] != 0:
        return OVERFLOW
    if registers[a.PENDING] > 0:
        registers[a.PENDING_MAX] = max(registers[a.PENDING_MAX], registers[a.PENDING])
        if registers[a.RECORDING] != 0:
            if registers[a.ROWS] + registers[a.ARRIVED] > member.trace.shape[0]:
                return FLUSH
            _record_held(member)
    registers[contract.LENGTH] = 0
    registers[a.EFFECT] = 0
    registers[a.ARRIVED] = 0
    return FINISHED


@compiled.function(inline=False)
def _record_held(member: Member) -> None:
    """Record the reception of what was received just now and neither delivered nor dropped."""
    effects, registers = member.host.effects, member.host.registers
    for i in range(registers[a.ARRIVED]):
        if member.item_class[member.inbox[2 * i]] != contract.MESSAGE:
            continue
        slot = member.inbox[2 * i + 1]
        held = True
        at = 0
        while at < registers[contract.LENGTH]:
            code = effects[at]
            if (code == contract.DELIVER or code == contract.DROP) and effects[at + 1] == slot:
                held = False
            at = contract.next_effect(effects, at)
        if held:
            record(member, RECEIVE_KIND, slot)


@compiled.function(inline=False)
def _deliver(member: Member, slot: int) -> int:
    """Copy a message to what the application gets."""
    registers = member.host.registers
    first = registers[a.DELIVERED_BYTES]
    size_bytes = member.message[a.WORDS * slot + a.PAYLOAD_BYTES]
    full = first + size_bytes > member.delivered.size
    if full or registers[a.DELIVERIES] == member.delivery.shape[0]:
        return FLUSH
    if registers[a.ROWS] == member.trace.shape[0] and registers[a.RECORDING] != 0:
        return FLUSH
    row = member.delivery[registers[a.DELIVERIES]]
    row[a.SOURCE] = member.host.name[2 * slot + contract.SOURCE]
    row[a.SEQUENCE] = member.host.name[2 * slot + contract.SEQUENCE]
    row[a.FIRST_BYTE] = first
    row[a.LAST_BYTE] = store.copy_payload(member, slot, member.delivered, first)
    registers[a.DELIVERED_BYTES] = row[a.LAST_BYTE]
    registers[a.DELIVERIES] += 1
    record(member, DELIVER_KIND, slot)
    _end_wait(member, slot)
    return FINISHED


@compiled.function(inline=False)
def _end_wait(member: Member, slot: int) -> None:
    registers = member.host.registers
    member.message[a.WORDS * slot + a.WAITING] -= 1
    registers[a.PENDING] -= 1
    registers[a.PENDING_BYTES] -= member.message[a.WORDS * slot + a.PAYLOAD_BYTES]
    store.end_reference(member, slot)


@compiled.function(inline=False)
def _send_all(member: Member, tag: int, value: int) -> int:
    """A packet of one item to everybody: written once."""
    registers = member.host.registers
    at = registers[a.COMMON_BYTES]
    end = at + records.HEADER_BYTES + records.item_bytes_max(member, tag, value)
    if end > member.common.size or (at > 0 and end > FRAME_BYTES):
        return FLUSH
    at = records.write(member.common, at, PACKET, 1)
    at = records.write(member.common, at, 1, 2)
    registers[a.COMMON_BYTES] = records.write_item(member, member.common, at, tag, value)
    registers[a.PACKETS_ALL] += 1
    return FINISHED


@compiled.function(inline=False)
def _send(member: Member, at: int) -> int:
    """Items to one member, in pieces that fit into the buffer."""
    effects, registers = member.host.effects, member.host.registers
    target, count = effects[at + 1], effects[at + 2]
    if member.known[target, a.GONE] != 0 or target == member.setting[a.ME]:
        return FINISHED
    while registers[a.PIECE] < count:
        first = registers[a.PIECE]
        last = first
        size_bytes = ROUTED_BYTES + records.HEADER_BYTES
        while last < count and last - first < member.setting[a.ITEMS_MAX]:
            more = records.item_bytes_max(
                member, effects[at + 3 + 2 * last], effects[at + 4 + 2 * last]
            )
            if last > first and size_bytes + more > PIECE_BYTES:
                break
            size_bytes += more
            last += 1
        if not credits.has_room(member, size_bytes, 1):
            return FLUSH
        _write_packet(member, target, at, first, last)
        registers[a.PIECE] = last
    registers[a.PIECE] = 0
    return FINISHED


@compiled.function(inline=False)
def _write_packet(member: Member, target: int, at: int, first: int, last: int) -> None:
    """A packet of some items of a send, straight to the target or by its neighbours."""
    effects, registers, out = member.host.effects, member.host.registers, member.out
    routed = member.known[target, a.LINKED] == 0 and registers[a.EVICTIONS] == 0
    length_at = 0
    if routed and member.setting[a.ROUTE] == a.TREE:
        hop = next_hop(member, target)
        if hop == a.NONE:
            return
        place = credits.open_record(member, hop, ROUTED)
        place = records.write(out, place, target, 2)
        place = records.write(out, place, member.setting[a.ME], 2)
        length_at = place
        place = records.write(out, place + 4, PACKET, 1)
    else:
        place = credits.open_record(member, target, PACKET)
    place = records.write(out, place, last - first, 2)
    for i in range(first, last):
        tag, value = effects[at + 3 + 2 * i], effects[at + 4 + 2 * i]
        before = place
        place = records.write_item(member, out, place, tag, value)
        if member.item_class[tag] == contract.MESSAGE:
            registers[a.MESSAGES_SENT] += 1
            member.bound[target, a.OF_MESSAGES] += place - before
    if length_at > 0:
        records.write(out, length_at, place - length_at - 4, 4)
    credits.close_record(member, place)
    registers[a.PACKETS_SENT] += 1


@compiled.function(inline=False)
def next_hop(member: Member, target: int) -> int:
    """The neighbour by which a packet comes nearer to its target, or NONE.

    It lies in the same cluster of ours as the target, so that what is left of the way is in a
    smaller cluster: no circle, whatever the views on the way.
    """
    return member.branch[topology.cluster(member.setting[a.ME], target) - 1] + a.ZERO


@compiled.function(inline=False)
def _carry_out_other(member: Member, at: int) -> int:
    """The rarer effects."""
    effects, registers = member.host.effects, member.host.registers
    code, slot = effects[at], effects[at + 1]
    word = a.WORDS * slot
    if code == contract.RELEASE:
        store.end_reference(member, slot)
    elif code == contract.DROP:
        registers[a.DROPPED] += 1
        _end_wait(member, slot)
    elif code == contract.KEEP:
        member.message[word + a.WAITING] += 1
        member.message[word + a.REFERENCES] += 1
        registers[a.PENDING] += 1
        registers[a.PENDING_BYTES] += member.message[word + a.PAYLOAD_BYTES]
    elif code == contract.RETAIN:
        member.message[word + a.REFERENCES] += 1
    elif code == contract.SET_TIMER:
        if registers[a.TIMERS] == member.timer.shape[0]:
            return FLUSH
        row = member.timer[registers[a.TIMERS]]
        row[a.KEY] = effects[at + 1]
        row[a.DUE_NS] = registers[contract.NOW_NS] + effects[at + 2]
        row[a.OWNER] = registers[a.OF_DETECTOR]
        registers[a.TIMERS] += 1
    else:
        if registers[a.ROWS] == member.trace.shape[0] and registers[a.RECORDING] != 0:
            return FLUSH
        record(member, effects[at + 1], effects[at + 2])
    return FINISHED
