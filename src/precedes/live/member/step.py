"""The step of a live member: one call for a whole batch of input, compiled for each protocol.

``run`` takes the segments in order (frames, own broadcasts, timers, evictions), hands packets to
the protocol's handlers and carries out their effects. When something is too small it returns what
must grow or be emptied, with its place kept in ``host.registers``; ``node`` attends to it and calls
again. Nothing is done twice.
"""

from __future__ import annotations

from typing import Any, Final

from precedes import compiled, contract
from precedes.live.member import arrays as a
from precedes.live.member import credit as credits
from precedes.live.member import records, store, view
from precedes.live.member.arrays import Member
from precedes.live.member.effects import carry_out, record, report
from precedes.live.member.status import (
    FINISHED,
    FLUSH,
    GROW_BLOCKS,
    GROW_SLOTS,
    REFUSED,
    after_handler,
)
from precedes.live.net.wire import DOWN, FROZEN, LEAVE, PACKET, RELAY, ROUTED, UP
from precedes.model import EventKind
from precedes.parts import tester

BROADCAST_KIND: Final = int(EventKind.BROADCAST)
# Rows of the trace that one packet or broadcast may take beside its effects.
TRACE_SPARE: Final = 16


def run(member: Member, state: Any) -> int:
    """Handle all segments, or stop for what must grow; what is to be sent is in order then."""
    registers = member.host.registers
    status = FINISHED
    while status == FINISHED:
        if registers[contract.LENGTH] > 0 or registers[a.ARRIVED] > 0:
            status = carry_out(member, state)
        elif registers[a.COUNT] > 0:
            status = _hand_over(member, state)
        elif registers[a.SEGMENT] < registers[a.SEGMENTS]:
            status = _go_on(member, state)
        else:
            break
    if status == FINISHED:
        credits.settle(member)
        if credits.has_room_to_tell(member):
            credits.tell(member)
        else:
            status = FLUSH
    _sort_by_target(member)
    return status


@compiled.function(inline=False)
def _sort_by_target(member: Member) -> None:
    """Put the bytes for single members into one stretch each."""
    registers = member.host.registers
    at = 0
    for target in range(member.setting[a.NODES]):
        member.bound[target, a.FIRST] = at
        at += member.bound[target, a.LAST]
        member.bound[target, a.LAST] = member.bound[target, a.FIRST]
    for i in range(registers[a.PACKETS]):
        target, first, last = member.packet[i, 0], member.packet[i, 1], member.packet[i, 2]
        compiled.copy_bytes(
            member.out, first, member.routed, member.bound[target, a.LAST], last - first
        )
        member.bound[target, a.LAST] += last - first


@compiled.function(inline=False)
def _go_on(member: Member, state: Any) -> int:
    """The next thing of the segment at hand."""
    registers = member.host.registers
    if registers[a.ROWS] + TRACE_SPARE > member.trace.shape[0]:
        return FLUSH
    segment = member.segment[registers[a.SEGMENT]]
    kind = segment[a.KIND]
    if kind in (a.FRAME, a.BROADCAST):
        position = max(registers[a.POSITION], segment[a.BEGIN])
        if position >= segment[a.END]:
            return _next_segment(registers)
        registers[a.POSITION] = position
        if kind == a.BROADCAST:
            return _broadcast(member, state, position)
        if member.known[segment[a.WHO], a.GONE] != 0:
            return _next_segment(registers)
        # What answers a packet goes the way that it came: the one by neighbours may be broken.
        member.known[segment[a.WHO], a.LINKED] = 1
        return _after_record(member, _read_record(member, state, segment[a.WHO], position))
    status = _happen(member, state, kind, segment[a.WHO])
    if status == FINISHED:
        return _next_segment(registers)
    return status


@compiled.function(inline=False)
def _next_segment(registers: contract.Int64s) -> int:
    registers[a.SEGMENT] += 1
    registers[a.POSITION] = 0
    return FINISHED


@compiled.function(inline=False)
def _after_record(member: Member, position: int) -> int:
    """Go on behind a record, or tell why not."""
    registers = member.host.registers
    if position >= 0:
        registers[a.POSITION] = position
        return FINISHED
    if position == records.NO_SLOTS:
        return GROW_SLOTS
    if position == records.NO_BLOCKS:
        return GROW_BLOCKS
    if position < REFUSED // 2:
        return position - REFUSED
    # The peer's mistake: the rest of what it sent is not looked at.
    if registers[a.REPORTS] + 1 > member.report.shape[0]:
        return FLUSH
    who = member.segment[registers[a.SEGMENT], a.WHO]
    report(member, a.MALFORMED, who, -position)
    return _next_segment(registers)


@compiled.function(inline=False)
def _happen(member: Member, state: Any, kind: int, who: int) -> int:
    """A start, a timer or an eviction."""
    host = member.host
    host.registers[a.OF_DETECTOR] = 0
    status = contract.DONE
    if kind == a.START:
        status = contract.start(state, 0, host)
    elif kind == a.TIMER:
        status = contract.on_timer(state, 0, who, host)
    elif kind == a.EVICT:
        return view.evict(member, state, who)
    elif tester.crash_of(who) >= 0:
        return view.evict(member, state, tester.crash_of(who))
    else:
        host.registers[a.OF_DETECTOR] = 1
        if member.detector.process[0, tester.ROUND] == 0:
            tester.begin(member.detector, 0, host)
        else:
            tester.on_expiry(member.detector, 0, who, host)
    return after_handler(status)


@compiled.function(inline=False)
def _broadcast(member: Member, state: Any, position: int) -> int:
    """The application broadcasts: a length of 4 bytes, then the payload."""
    registers = member.host.registers
    size_bytes = records.read(member.input, position, 4)
    if not store.has_slot(member.message, registers):
        return GROW_SLOTS
    if not store.has_blocks(member.block_link, registers, size_bytes):
        return GROW_BLOCKS
    me = member.setting[a.ME]
    sequence = registers[a.OWN_SEQUENCE] + 1
    slot = store.new_message(member, me, sequence)
    for k in range(len(member.field)):
        row = member.field[k][slot]
        for i in range(row.size):
            row[i] = 0
    registers[a.OF_DETECTOR] = 0
    status = contract.broadcast(state, 0, slot, member.host)
    if status != contract.DONE:
        store.end_reference(member, slot)
        return after_handler(status)
    store.keep_payload(member, slot, member.input, position + 4, size_bytes)
    registers[a.OWN_SEQUENCE] = sequence
    member.known[me, a.RECEIVED] = sequence
    if member.setting[a.ROUTE] == a.DIRECT:
        view.keep_until_stable(member, me, sequence, slot)
    contract.release(member.host, slot)
    record(member, BROADCAST_KIND, slot)
    registers[a.POSITION] = position + 4 + size_bytes
    return FINISHED


@compiled.function(inline=False)
def _read_record(member: Member, state: Any, peer: int, at: int) -> int:
    """Take in one record of a frame; where the next one begins, or why not."""
    end = member.segment[member.host.registers[a.SEGMENT], a.END]
    kind = records.read(member.input, at, 1)
    at += 1
    if kind == PACKET:
        return _read_packet(member, peer, at, end)
    if kind == UP:
        return _read_up(member, peer, at, end)
    if kind == DOWN:
        return _read_down(member, at, end)
    if kind == FROZEN:
        return view.read_frozen(member, state, peer, at, end)
    if kind == RELAY:
        return view.read_relay(member, at, end)
    if kind == ROUTED:
        return view.read_routed(member, at, end)
    if kind == LEAVE:
        status = view.evict(member, state, peer)
        if status != FINISHED:
            return REFUSED + status
        report(member, a.LEFT, peer, 0)
        return at
    return records.UNKNOWN_RECORD


@compiled.function(inline=False)
def _read_packet(member: Member, peer: int, at: int, end: int) -> int:
    """A packet straight from a peer."""
    at = records.read_items(member, at, end)
    if at < 0:
        return at
    if not view.comes_rightly(member, peer):
        records.give_back(member, member.host.registers[a.COUNT])
        return records.MISROUTED
    member.host.registers[a.SENDER] = peer
    return at


@compiled.function(inline=False)
def _read_up(member: Member, peer: int, at: int, end: int) -> int:
    if at + 8 > end:
        return records.SHORT
    source = records.read(member.input, at, 2)
    taken = records.read(member.input, at + 2, 4)
    laggard = records.read(member.input, at + 6, 2)
    nodes = member.setting[a.NODES]
    if source >= nodes or laggard >= nodes or taken > records.SEQUENCE_MAX:
        return records.UNKNOWN_SOURCE
    if source == member.setting[a.ME] and taken > member.host.registers[a.OWN_SEQUENCE]:
        return records.IMPOSSIBLE
    credits.hear_up(member, peer, source, taken, laggard)
    return at + 8


@compiled.function(inline=False)
def _read_down(member: Member, at: int, end: int) -> int:
    if at + 7 > end:
        return records.SHORT
    source = records.read(member.input, at, 2)
    stable = records.read(member.input, at + 2, 4)
    if source >= member.setting[a.NODES] or source == member.setting[a.ME]:
        return records.UNKNOWN_SOURCE
    if stable > member.known[source, a.CONSUMED]:
        return records.IMPOSSIBLE  # not all have taken what this member has not
    credits.hear_down(member, source, stable, records.read(member.input, at + 6, 1))
    return at + 7


@compiled.function(inline=False)
def _hand_over(member: Member, state: Any) -> int:
    """Give the packet in the inbox to the protocol, or to the failure detector."""
    registers = member.host.registers
    count, sender = registers[a.COUNT], registers[a.SENDER]
    if not _is_admitted(member, state, sender, count):
        if registers[a.REPORTS] + 1 > member.report.shape[0]:
            return FLUSH
        records.give_back(member, count)
        report(
            member, a.MALFORMED, member.segment[registers[a.SEGMENT], a.WHO], -records.IMPOSSIBLE
        )
        return _next_segment(registers)
    status = contract.DONE
    if member.inbox[0] >= member.detector.setting[tester.FIRST_TAG]:
        registers[a.OF_DETECTOR] = 1
        tester.on_packet(member.detector, 0, sender, member.inbox, count, member.host)
    else:
        registers[a.OF_DETECTOR] = 0
        status = contract.receive(state, 0, sender, member.inbox, count, member.host)
    if status != contract.DONE:
        return after_handler(status)
    registers[a.COUNT] = 0
    registers[a.ARRIVED] = count
    view.count_arrival(member, count)
    return FINISHED


@compiled.function(inline=False)
def _is_admitted(member: Member, state: Any, sender: int, count: int) -> bool:
    """Whether every item is one that a correct member may send."""
    first = member.detector.setting[tester.FIRST_TAG]
    of_detector = member.inbox[0] >= first
    for i in range(count):
        tag, value = member.inbox[2 * i], member.inbox[2 * i + 1]
        if (tag >= first) != of_detector:
            return False
        if of_detector:
            counter = tag == first + tester.COUNTER
            process = value & tester.PROCESS_MASK
            if value < 0 or (counter and process >= member.setting[a.NODES]):
                return False
            if counter != (i > 0) or (value >> tester.PROCESS_BITS) > records.SEQUENCE_MAX:
                return False
        elif not contract.admits(state, 0, sender, tag, value, member.host):
            return False
    return True


ENTRY: Final = compiled.Entry(run, label="a live member", by_reference=True)
