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
from precedes.live.member import arrays, credit, effects, records, store, view
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.parts import tester, topology
from precedes.parts.pool import NONE


@compiled.function(inline=False)
def next_record(member: Member, state: Any, peer: int, at: int) -> int:
    """Accept the record at this place of the frame at hand, or refuse it with all that follow."""
    if member.known[peer, arrays.GONE] != 0:
        return next_segment(member.host.registers)
    # An answer takes the link on which the packet came: the way by neighbours may be broken.
    member.known[peer, arrays.LINKED] = 1
    after = _accept_record(member, state, peer, at)
    if after >= 0:
        member.host.registers[arrays.POSITION] = after
        return DONE
    return after - records.STOP if after < records.STOP // 2 else _refuse(member, after)


@compiled.function(inline=False)
def next_segment(registers: Int64s) -> int:
    """Go on with the next segment."""
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
def _accept_record(member: Member, state: Any, peer: int, at: int) -> int:
    """Where the next record begins, or a reason below 0, as of the readers in ``records``."""
    end = member.segment[member.host.registers[arrays.SEGMENT], arrays.END]
    kind = records.read(member.input, at, records.KIND_BYTES)
    if kind == records.PACKET:
        return _accept_packet(member, peer, at, end)
    if kind == records.UP:
        return _accept_up(member, peer, at, end)
    if kind == records.DOWN:
        return _accept_down(member, peer, at, end)
    if kind == records.FROZEN:
        return view.accept_frozen(member, state, peer, at, end)
    if kind == records.RELAY:
        return _accept_relay(member, at, end)
    if kind == records.ROUTED:
        return _accept_routed(member, at, end)
    if kind == records.LEAVE:
        status = view.evict(member, state, peer)
        if status != DONE:
            return records.STOP + status
        effects.report(member, arrays.LEFT, peer, 0)
        return at + records.KIND_BYTES
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
    credit.hear_up(member, peer, source, consumed, laggard)
    return at + records.UP_BYTES


@compiled.function(inline=False)
def _accept_down(member: Member, peer: int, at: int, end: int) -> int:
    """A record of a source goes down its tree: nobody else may report that it has finished."""
    if at + records.DOWN_BYTES > end:
        return records.SHORT
    source, stable, finished = records.read_down(member.input, at)
    if source >= member.setting[arrays.NODES] or source == member.setting[arrays.ME]:
        return records.UNKNOWN_SOURCE
    if not _comes_down(member, peer, source):
        return records.MISROUTED
    if stable > member.known[source, arrays.CONSUMED]:
        return records.IMPOSSIBLE  # this member is one of all
    credit.hear_down(member, source, stable, finished)
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
    """Whether each message is within its sender's window and came by a legal route.

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
    """Whether a peer may be above this member in the tree of a source, whatever its view."""
    if peer == source or member.setting[arrays.ROUTE] != arrays.TREE:
        return bool(peer == source)
    me = member.setting[arrays.ME]
    return bool(topology.cluster(me, peer) < topology.cluster(me, source))


@compiled.function(inline=False)
def _accept_relay(member: Member, at: int, end: int) -> int:
    """A message of a member out of the view, from one that had it."""
    registers = member.host.registers
    if member.setting[arrays.ROUTE] != arrays.DIRECT:
        return records.UNKNOWN_RECORD
    at = records.read_relay(member, at, end)
    if at < 0:
        return at
    if contract.tag_of(member.inbox, 0) != 0:
        records.give_back(member, 1)
        return records.MISROUTED
    slot = contract.value_of(member.inbox, 0)
    source = member.host.source_of(slot) + ZERO
    sequence = member.host.sequence_of(slot) + ZERO
    expected = member.known[source, arrays.RECEIVED] + 1
    if member.known[source, arrays.GONE] == 0 or sequence > expected:
        records.give_back(member, 1)
        return records.MISROUTED
    if sequence < expected:
        registers[arrays.DUPLICATES] += 1
        records.give_back(member, 1)
        return at
    registers[arrays.SENDER] = source
    return at


@compiled.function(inline=False)
def _accept_routed(member: Member, at: int, end: int) -> int:
    """A packet by way of neighbours: for this member, or to be passed on."""
    first = at + records.ROUTED_BYTES
    if first > end:
        return records.SHORT
    target, origin, length = records.read_routed(member.input, at)
    last = first + length
    if last > end or length < records.PACKET_BYTES:
        return records.SHORT
    nodes, me = member.setting[arrays.NODES], member.setting[arrays.ME]
    is_tree = member.setting[arrays.ROUTE] == arrays.TREE
    if not is_tree or target >= nodes or origin >= nodes or origin == me:
        return records.UNKNOWN_SOURCE
    if target == me:
        return _accept_inner(member, origin, first, last)
    hop = effects.next_hop(member, target)
    if hop != NONE:
        size_bytes = last - at
        if not effects.has_room(member, size_bytes, 1):
            return records.STOP + FLUSH
        place = effects.open_record(member, hop)
        compiled.copy_bytes(member.input, at, member.out, place, size_bytes)
        effects.close_record(member, place + size_bytes)
        member.host.registers[arrays.ROUTED_ON] += 1
    return last


@compiled.function(inline=False)
def _accept_inner(member: Member, origin: int, first: int, last: int) -> int:
    """The packet in a routed record: no messages, and nothing behind it.

    A malformed one is dropped and nobody is blamed: the peer has passed it on unread, and its claim
    about the origin proves nothing.
    """
    if records.read(member.input, first, records.KIND_BYTES) != records.PACKET:
        return last
    at = records.read_packet(member, first, last)
    if at < 0:
        return at if at < records.STOP // 2 else last
    registers = member.host.registers
    sound = at == last and member.known[origin, arrays.GONE] == 0
    for i in range(registers[arrays.COUNT]):
        sound &= member.item_class[contract.tag_of(member.inbox, i)] != MESSAGE
    if not sound:
        records.give_back(member, registers[arrays.COUNT])
    registers[arrays.SENDER] = origin
    return last


@compiled.function(inline=False)
def hand_over(member: Member, state: Any) -> int:
    """Give the packet in the inbox to the protocol, or to the failure detector."""
    registers = member.host.registers
    is_direct = member.setting[arrays.ROUTE] == arrays.DIRECT
    count, sender = registers[arrays.COUNT], registers[arrays.SENDER]
    if not _is_admitted(member, state, sender, count):
        if sender == member.segment[registers[arrays.SEGMENT], arrays.WHO]:
            status = _refuse(member, records.IMPOSSIBLE)
        else:
            # It was routed or relayed by a peer that could not judge it. A relayed message counts
            # as received, so that those behind it are in their turn.
            status = DONE
            if is_direct:
                slot = contract.value_of(member.inbox, 0)
                source = member.host.source_of(slot) + ZERO
                member.known[source, arrays.RECEIVED] = member.host.sequence_of(slot)
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
    """Whether every item is one that a correct member may send."""
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
