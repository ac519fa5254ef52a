"""Records from peers: each is checked, and applied or refused.

No record is trusted. A peer that sends what no correct member sends is reported, with the reason,
and the rest of its frame is skipped. Packets are read into the inbox and handed to the protocol, or
to the failure detector, if every item is one that a correct member may send.
"""

from __future__ import annotations

from typing import Any

from precedes import compiled, contract
from precedes.compiled import ZERO
from precedes.contract import MESSAGE, REFERENCE, Int64s
from precedes.live.member import arrays, credit, effects, records, store
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.parts import tester, topology


@compiled.function(inline=False)
def next_record(member: Member, state: Any, peer: int, at: int) -> int:
    """Accept the record at this place of the current frame, or refuse it with all that follow."""
    if member.known[peer, arrays.GONE] != 0:
        return next_segment(member.host.registers)
    after = _accept_record(member, peer, at)
    if after >= 0:
        member.host.registers[arrays.POSITION] = after
        return DONE
    return after - records.STOP if after < records.STOP // 2 else _refuse(member, after)


@compiled.function(inline=False)
def next_segment(registers: Int64s) -> int:
    """Continue with the next segment."""
    registers[arrays.SEGMENT] += 1
    registers[arrays.POSITION] = 0
    return DONE


@compiled.function(inline=False)
def _refuse(member: Member, reason: int) -> int:
    """Report the peer's mistake; the rest of its frame is skipped."""
    registers = member.host.registers
    if not effects.can_report(member, 1):
        return FLUSH
    peer = member.segment[registers[arrays.SEGMENT], arrays.WHO]
    effects.report(member, arrays.MALFORMED, peer, -reason)
    return next_segment(registers)


@compiled.function(inline=False)
def _accept_record(member: Member, peer: int, at: int) -> int:
    """The position of the next record, or a reason below 0, as of the readers in ``records``."""
    end = member.segment[member.host.registers[arrays.SEGMENT], arrays.END]
    kind = records.read(member.input, at, records.KIND_BYTES)
    if kind == records.PACKET:
        return _accept_packet(member, peer, at, end)
    if kind == records.UP:
        return _accept_up(member, peer, at, end)
    if kind == records.DOWN:
        return _accept_down(member, peer, at, end)
    return records.UNKNOWN_RECORD


@compiled.function(inline=False)
def _accept_up(member: Member, peer: int, at: int, end: int) -> int:
    if at + records.UP_BYTES > end:
        return records.SHORT
    source, consumed, laggard = records.read_up(member.input, at)
    nodes = member.setting[arrays.NODES]
    if source >= nodes or laggard >= nodes or consumed > records.SEQUENCE_MAX:
        return records.UNKNOWN_SOURCE
    own = member.host.registers[arrays.OWN_SEQUENCE]
    if source == member.setting[arrays.ME] and consumed > own:
        return records.IMPOSSIBLE
    credit.apply_up(member, peer, source, consumed, laggard)
    return at + records.UP_BYTES


@compiled.function(inline=False)
def _accept_down(member: Member, peer: int, at: int, end: int) -> int:
    """A source's record that goes down its tree: only its parent may send it."""
    if at + records.DOWN_BYTES > end:
        return records.SHORT
    source, stable, finished = records.read_down(member.input, at)
    if source >= member.setting[arrays.NODES] or source == member.setting[arrays.ME]:
        return records.UNKNOWN_SOURCE
    if not _comes_down(member, peer, source):
        return records.MISROUTED
    if stable > member.known[source, arrays.CONSUMED]:
        return records.IMPOSSIBLE  # this member is included in all
    credit.apply_down(member, source, stable, finished)
    return at + records.DOWN_BYTES


@compiled.function(inline=False)
def _accept_packet(member: Member, peer: int, at: int, end: int) -> int:
    """A packet straight from a peer."""
    at = records.read_packet(member, at, end)
    if at < 0:
        return at
    if not _is_legal_route(member, peer):
        records.give_back(member, member.host.registers[arrays.COUNT])
        return records.MISROUTED
    member.host.registers[arrays.SENDER] = peer
    return at


@compiled.function(inline=False)
def _is_legal_route(member: Member, peer: int) -> bool:
    """Return whether each message is within its sender's window and came by a legal route.

    No source sends more than a window beyond what this member has acknowledged: memory is bounded
    whatever a peer does. ``direct``: a peer sends its own messages, one after the other.
    ``tree``: in the tree of a source every step leads into a smaller cluster of ours, whoever
    has crashed.
    """
    route, me = member.setting[arrays.ROUTE], member.setting[arrays.ME]
    expected = member.known[peer, arrays.RECEIVED] + 1
    for i in range(member.host.registers[arrays.COUNT]):
        tag, slot = contract.tag_of(member.inbox, i), contract.value_of(member.inbox, i)
        if member.item_class[tag] != MESSAGE:
            continue
        source = member.host.source_of(slot) + ZERO
        sequence = member.host.sequence_of(slot) + ZERO
        if sequence > member.known[source, arrays.CONSUMED] + member.setting[arrays.WINDOW]:
            return False
        if route == arrays.DIRECT:
            if source != peer or sequence != expected:
                return False
            expected += 1
        elif source == me or (
            tag == 0 and route == arrays.TREE and not _comes_down(member, peer, source)
        ):
            return False
    return True


@compiled.function(inline=False)
def _comes_down(member: Member, peer: int, source: int) -> bool:
    """Return whether a peer may be above this member in the tree of a source, whatever its view."""
    if peer == source or member.setting[arrays.ROUTE] != arrays.TREE:
        return bool(peer == source)
    me = member.setting[arrays.ME]
    return bool(topology.cluster(me, peer) < topology.cluster(me, source))


@compiled.function(inline=False)
def hand_over(member: Member, state: Any) -> int:
    """Pass the packet in the inbox to the protocol, or to the failure detector."""
    registers = member.host.registers
    is_direct = member.setting[arrays.ROUTE] == arrays.DIRECT
    count, sender = registers[arrays.COUNT], registers[arrays.SENDER]
    if not _is_admitted(member, state, sender, count):
        status = _refuse(member, records.IMPOSSIBLE)
        if status == DONE:
            records.give_back(member, count)
        return status
    if tester.owns_packet(member.detector, member.inbox):
        registers[arrays.OF_DETECTOR] = 1
        tester.on_packet(member.detector, 0, sender, member.inbox, count, member.host)
    else:
        registers[arrays.OF_DETECTOR] = 0
        contract.receive(state, 0, sender, member.inbox, count, member.host)
    registers[arrays.COUNT] = 0
    registers[arrays.ARRIVED] = count
    # Count what was handed over, and end the references that are not the protocol's.
    for i in range(count):
        kind = member.item_class[contract.tag_of(member.inbox, i)]
        slot = contract.value_of(member.inbox, i)
        if kind == MESSAGE:
            registers[arrays.RECEPTIONS] += 1
            effects.begin_wait(member, slot)
            if is_direct:
                source = member.host.source_of(slot) + ZERO
                sequence = member.host.sequence_of(slot) + ZERO
                member.known[source, arrays.RECEIVED] = sequence
                store.keep_until_stable(member, source, sequence, slot)
        elif kind == REFERENCE:
            store.end_reference(member, slot)
    return DONE


@compiled.function(inline=False)
def _is_admitted(member: Member, state: Any, sender: int, count: int) -> bool:
    """Return whether every item is one that a correct member may send."""
    first = member.detector.first_tag
    of_detector = tester.owns_packet(member.detector, member.inbox)
    for i in range(count):
        tag, value = contract.tag_of(member.inbox, i), contract.value_of(member.inbox, i)
        if (tag >= first) != of_detector:
            return False
        if of_detector:
            if not tester.admits(member.detector, member.inbox, i):
                return False
        elif not contract.admits(state, 0, sender, tag, value, member.host):
            return False
    return True
