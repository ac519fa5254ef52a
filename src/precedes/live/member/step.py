"""The step of a live member: one call for a whole batch of input, compiled for each protocol.

``run`` takes the segments in order (frames, own broadcasts, timers, crashes), hands packets to
the protocol's handlers and carries out their effects. When an array is too small it returns which
one must grow or be drained, with its place kept in ``host.registers``; ``node`` does that and calls
it again. No input is handled twice.
"""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled, contract
from precedes.live.member import arrays, arrivals, credit, effects, records, store, view
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.model import EventKind
from precedes.parts import tester

BROADCAST_KIND: Final = int(EventKind.BROADCAST)
# Rows of the trace that one packet or broadcast may take in addition to its effects.
TRACE_SPARE: Final = 16


def run(member: Member, state: Any) -> int:
    """Handle all segments, or stop for an array that must grow; the output is sorted by target."""
    registers = member.host.registers
    status = DONE
    while status == DONE:
        if registers[contract.LENGTH] > 0 or registers[arrays.ARRIVED] > 0:
            status = effects.carry_out(member)
        elif registers[arrays.COUNT] > 0:
            status = arrivals.hand_over(member, state)
        elif registers[arrays.SEGMENT] < registers[arrays.SEGMENTS]:
            status = _next_input(member, state)
        else:
            break
    if status == DONE:
        credit.settle(member)
        status = credit.acknowledge(member)
    effects.sort_by_target(member)
    return status


@compiled.function(inline=False)
def _next_input(member: Member, state: Any) -> int:
    """The next record, broadcast or event of the current segment."""
    host, registers = member.host, member.host.registers
    if registers[arrays.ROWS] + TRACE_SPARE > member.trace.shape[0]:
        return FLUSH
    segment = member.segment[registers[arrays.SEGMENT]]
    kind, who = segment[arrays.KIND], segment[arrays.WHO]
    if kind in (arrays.FRAME, arrays.BROADCAST):
        position = max(registers[arrays.POSITION], segment[arrays.BEGIN])
        if position >= segment[arrays.END]:
            return arrivals.next_segment(registers)
        registers[arrays.POSITION] = position
        if kind == arrays.BROADCAST:
            return _broadcast(member, state, position)
        return arrivals.next_record(member, state, who, position)
    registers[arrays.OF_DETECTOR] = 0
    if kind == arrays.START:
        contract.start(state, 0, host)
    elif kind == arrays.TIMER:
        contract.on_timer(state, 0, who, host)
    elif kind == arrays.CRASH:
        view.crash(member, state, who)
    elif tester.crash_of(who) >= 0:
        if not effects.can_report(member, 1):
            return FLUSH
        effects.report(member, arrays.SUSPECTED, tester.crash_of(who), 0)
    else:
        registers[arrays.OF_DETECTOR] = 1
        if member.detector.process.round[0] == 0:
            tester.begin(member.detector, 0, host)
        else:
            tester.on_expiry(member.detector, 0, who, host)
    return arrivals.next_segment(registers)


@compiled.function(inline=False)
def _broadcast(member: Member, state: Any, position: int) -> int:
    """A broadcast of the application: the length of a payload, then the payload."""
    registers = member.host.registers
    size_bytes = records.read(member.input, position, records.LENGTH_BYTES)
    position += records.LENGTH_BYTES
    if not store.has_slot(member):
        return arrays.GROW_SLOTS
    if not store.has_blocks(member, size_bytes):
        return arrays.GROW_BLOCKS
    is_echoed = member.setting[arrays.ECHO] != 0
    if is_echoed and not effects.can_hand_out(member, size_bytes):
        return FLUSH
    me = member.setting[arrays.ME]
    sequence = registers[arrays.OWN_SEQUENCE] + 1
    slot = store.new_message(member, me, sequence)
    for k in range(len(member.field)):
        records.clear(member.field[k][slot], 0)
    registers[arrays.OF_DETECTOR] = 0
    contract.broadcast(state, 0, slot, member.host)
    store.keep_payload(member, slot, member.input, position, size_bytes)
    registers[arrays.OWN_SEQUENCE] = sequence
    member.known[me, arrays.RECEIVED] = sequence
    member.known[me, arrays.DELIVERED] = sequence
    if member.setting[arrays.ROUTE] == arrays.DIRECT:
        store.keep_until_stable(member, me, sequence, slot)
    if is_echoed:
        effects.hand_out(member, slot)
    member.host.release(slot)
    effects.trace_event(member, BROADCAST_KIND, slot)
    registers[arrays.POSITION] = position + size_bytes
    return DONE


ENTRY: Final = compiled.Entry(
    run, label="a live member", job="live", by_reference=("member", "state")
)
