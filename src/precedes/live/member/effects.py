"""Carrying out what a handler asked for, at a live member: deliveries, packets, timers, notes."""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled, contract
from precedes.live.member import arrays, outbox, store
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.model import EventKind

DELIVER_KIND: Final = int(EventKind.DELIVER)
RECEIVE_KIND: Final = int(EventKind.RECEIVE)

# The kind of an event and its source stand above the sequence in one word of the trace.
KIND_SHIFT: Final = 56
SOURCE_SHIFT: Final = 32


@compiled.function(inline=False)
def trace_event(member: Member, kind: int, slot: int) -> None:
    """Append an event of a message to the trace; the caller has made sure of the room."""
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
            status = outbox.send_all(member, host.effects[at + 1], host.effects[at + 2])
        elif code == contract.SEND or code == contract.SEND_ASIDE:
            status = outbox.send(member, at)
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
            _record_held(member)
    registers[contract.LENGTH] = 0
    registers[arrays.EFFECT] = 0
    registers[arrays.ARRIVED] = 0
    return DONE


@compiled.function(inline=False)
def _record_held(member: Member) -> None:
    """Record the reception of what was received just now and neither delivered nor dropped."""
    host = member.host
    length = host.registers[contract.LENGTH]
    for i in range(host.registers[arrays.ARRIVED]):
        slot = contract.value_of(member.inbox, i)
        is_message = member.item_class[contract.tag_of(member.inbox, i)] == contract.MESSAGE
        if is_message and not contract.ends(host.effects, length, slot):
            trace_event(member, RECEIVE_KIND, slot)


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
    """Copy a message to what the application gets; the caller has asked ``can_hand_out``."""
    registers = member.host.registers
    first = registers[arrays.DELIVERED_BYTES]
    row = member.delivery[registers[arrays.DELIVERIES]]
    row[arrays.SOURCE] = member.host.source_of(slot)
    row[arrays.SEQUENCE] = member.host.sequence_of(slot)
    row[arrays.FIRST_BYTE] = first
    row[arrays.LAST_BYTE] = store.copy_payload(member, slot, member.delivered, first)
    registers[arrays.DELIVERED_BYTES] = row[arrays.LAST_BYTE]
    registers[arrays.DELIVERIES] += 1


@compiled.function(inline=False)
def begin_wait(member: Member, slot: int) -> None:
    """One more reference of this message is pending."""
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
