"""Who is in the group, and what happens to the messages of a member that is not any more.

A member is evicted because the failure detector found it silent, because it was too slow for
too long, because it left, or because another member says so. Its link is closed and nothing that
it sends later is looked at.

With a route of ``direct`` every member has a prefix of each source's messages, because links keep
their order. When x is evicted, each member tells all others how many messages of x it has
(FROZEN), and whoever has more relays them. Until a message is stable everybody keeps it, so what
any live member has delivered, all will get: the loss of a sender blocks nobody. At each further
eviction the counts are told again, because a relay may have been lost with the one evicted; nobody
relays a message to the same member twice.

Protocols with a route of ``tree`` or ``any`` see to that themselves (``on_crash``); FROZEN then
only spreads the news, over links to everybody: what a protocol sends because of a crash must not
go by neighbours, who may have crashed too, and arrive before the news itself.
"""

from __future__ import annotations

from typing import Any

from precedes import compiled, contract
from precedes.live.member import arrays as a
from precedes.live.member import credit as credits
from precedes.live.member import records, store
from precedes.live.member.arrays import Member
from precedes.live.member.effects import next_hop, report
from precedes.live.member.status import FINISHED, FLUSH, REFUSED, after_handler
from precedes.live.net.wire import FROZEN, FROZEN_BYTES, PACKET, RELAY, ROUTED, ROUTED_BYTES
from precedes.parts import topology


@compiled.function(inline=False)
def evict(member: Member, state: Any, who: int) -> int:
    """Take a member out of the view; nothing happens if it is out already."""
    registers = member.host.registers
    if who == member.setting[a.ME]:
        if registers[a.REPORTS] + 2 > member.report.shape[0]:
            return FLUSH
        report(member, a.EVICTED, who, 0)
        return FINISHED
    if member.known[who, a.GONE] != 0:
        return FINISHED
    records = member.setting[a.NODES] * (registers[a.EVICTIONS] + 1)
    if registers[a.REPORTS] + 2 > member.report.shape[0] or not credits.has_room(
        member, records * FROZEN_BYTES, records
    ):
        return FLUSH
    registers[a.OF_DETECTOR] = 0
    status = contract.on_crash(state, 0, who, member.host)
    if status != contract.DONE:
        return after_handler(status)
    member.known[who, a.GONE] = 1
    registers[a.EVICTIONS] += 1
    if member.detector.state[0, who] & 1 == 0:
        member.detector.state[0, who] += 1
    report(member, a.EVICTED, who, 0)
    _tell_frozen(member)
    return FINISHED


@compiled.function(inline=False)
def _tell_frozen(member: Member) -> None:
    """Tell all how many messages have come of every member that is out of the view."""
    nodes = member.setting[a.NODES]
    for target in range(nodes):
        if target == member.setting[a.ME] or member.known[target, a.GONE] != 0:
            continue
        for gone in range(nodes):
            if member.known[gone, a.GONE] != 0:
                at = credits.open_record(member, target, FROZEN)
                at = records.write(member.out, at, gone, 2)
                at = records.write(member.out, at, member.known[gone, a.RECEIVED], 4)
                credits.close_record(member, at)


@compiled.function(inline=False)
def read_frozen(member: Member, state: Any, peer: int, at: int, end: int) -> int:
    """A peer tells what it has of a member out of the view: send it what it lacks."""
    if at + 6 > end:
        return records.SHORT
    registers = member.host.registers
    who = records.read(member.input, at, 2)
    if who >= member.setting[a.NODES]:
        return records.UNKNOWN_SOURCE
    status = evict(member, state, who)
    if status != FINISHED or who == member.setting[a.ME]:
        return REFUSED + status if status != FINISHED else at + 6
    has = records.read(member.input, at + 2, 4)
    # What was relayed to it arrives, as long as the two are there: it is not relayed again.
    done = max(has, member.relayed[peer, who], member.known[who, a.FORGOTTEN])
    while member.setting[a.ROUTE] == a.DIRECT and done < member.known[who, a.RECEIVED]:
        slot = member.kept[who, (done + 1) % member.kept.shape[1]] + a.ZERO
        if slot != a.NONE:
            if not credits.has_room(member, 1 + records.item_bytes_max(member, 0, slot), 1):
                return REFUSED + FLUSH
            place = credits.open_record(member, peer, RELAY)
            end_of_item = records.write_item(member, member.out, place, 0, slot)
            member.bound[peer, a.OF_MESSAGES] += end_of_item - place
            credits.close_record(member, end_of_item)
            registers[a.RELAYED] += 1
        done += 1
        member.relayed[peer, who] = done
    return at + 6


@compiled.function(inline=False)
def read_relay(member: Member, at: int, end: int) -> int:
    """A message of a member out of the view, from one that had it."""
    registers = member.host.registers
    if member.setting[a.ROUTE] != a.DIRECT:
        return records.UNKNOWN_RECORD
    at = records.read_one(member, at, end)
    if at < 0:
        return at
    if member.inbox[0] != 0:
        records.give_back(member, 1)
        return records.MISROUTED
    slot = member.inbox[1]
    source = member.host.name[2 * slot + contract.SOURCE] + a.ZERO
    sequence = member.host.name[2 * slot + contract.SEQUENCE] + a.ZERO
    expected = member.known[source, a.RECEIVED] + 1
    gone = member.known[source, a.GONE] != 0
    if not gone or sequence > expected:
        records.give_back(member, 1)
        return records.MISROUTED
    if sequence < expected:
        registers[a.DUPLICATES] += 1
        records.give_back(member, 1)
        return at
    registers[a.SENDER] = source
    return at


@compiled.function(inline=False)
def read_routed(member: Member, at: int, end: int) -> int:
    """A packet by way of neighbours: for this member, or to be passed on."""
    if at + ROUTED_BYTES - 1 > end:
        return records.SHORT
    target = records.read(member.input, at, 2)
    origin = records.read(member.input, at + 2, 2)
    length = records.read(member.input, at + 4, 4)
    first, last = at + 8, at + 8 + length
    if last > end or length < records.HEADER_BYTES:
        return records.SHORT
    nodes, me = member.setting[a.NODES], member.setting[a.ME]
    if member.setting[a.ROUTE] != a.TREE or target >= nodes or origin >= nodes or origin == me:
        return records.UNKNOWN_SOURCE
    if target == me:
        return _read_inner(member, origin, first, last)
    hop = next_hop(member, target)
    if hop != a.NONE:
        if not credits.has_room(member, ROUTED_BYTES + length, 1):
            return REFUSED + FLUSH
        place = credits.open_record(member, hop, ROUTED)
        compiled.copy_bytes(member.input, at, member.out, place, 8 + length)
        credits.close_record(member, place + 8 + length)
        member.host.registers[a.ROUTED_ON] += 1
    return last


@compiled.function(inline=False)
def _read_inner(member: Member, origin: int, first: int, last: int) -> int:
    if records.read(member.input, first, 1) != PACKET:
        return records.UNKNOWN_RECORD
    at = records.read_items(member, first + 1, last)
    if at < 0:
        return at
    for i in range(member.host.registers[a.COUNT]):
        if member.item_class[member.inbox[2 * i]] == contract.MESSAGE or at != last:
            records.give_back(member, member.host.registers[a.COUNT])
            return records.MISROUTED
    if member.known[origin, a.GONE] != 0:
        records.give_back(member, member.host.registers[a.COUNT])
    member.host.registers[a.SENDER] = origin
    return last


@compiled.function(inline=False)
def comes_rightly(member: Member, peer: int) -> bool:
    """Whether the messages of a packet may come, and from this peer.

    No source sends more than a window beyond what this member has told to have taken: memory is
    bounded whatever a peer does. ``direct``: a peer sends its own messages, one after the other.
    ``tree``: in the tree of a source every step leads into a smaller cluster of ours, whoever
    has crashed.
    """
    route, me = member.setting[a.ROUTE], member.setting[a.ME]
    expected = member.known[peer, a.RECEIVED] + 1
    for i in range(member.host.registers[a.COUNT]):
        tag, slot = member.inbox[2 * i], member.inbox[2 * i + 1]
        if member.item_class[tag] != contract.MESSAGE:
            continue
        source = member.host.name[2 * slot + contract.SOURCE] + a.ZERO
        sequence = member.host.name[2 * slot + contract.SEQUENCE] + a.ZERO
        if sequence > member.known[source, a.CONSUMED] + member.setting[a.WINDOW]:
            return False
        if route == a.DIRECT:
            if source != peer or sequence != expected:
                return False
            expected += 1
        elif source == me:
            return False
        elif route == a.TREE and tag == 0 and source != peer:
            nearer = topology.cluster(me, peer) < topology.cluster(me, source)
            if not nearer:
                return False
    return True


@compiled.function(inline=False)
def keep_until_stable(member: Member, source: int, sequence: int, slot: int) -> None:
    """Keep a message in case its source is lost: one more reference."""
    place = sequence % member.kept.shape[1]
    if member.kept[source, place] != a.NONE:
        # A window further back and more: stable, although this step has not come to forget it.
        store.end_reference(member, member.kept[source, place] + a.ZERO)
        member.known[source, a.FORGOTTEN] = sequence - member.kept.shape[1]
    member.kept[source, place] = slot
    member.message[a.WORDS * slot + a.REFERENCES] += 1


@compiled.function(inline=False)
def count_arrival(member: Member, count: int) -> None:
    """Count what was handed over, and let references that are not the protocol's go."""
    registers = member.host.registers
    for i in range(count):
        kind = member.item_class[member.inbox[2 * i]]
        slot = member.inbox[2 * i + 1]
        if kind == contract.MESSAGE:
            word = a.WORDS * slot
            registers[a.RECEPTIONS] += 1
            registers[a.PENDING] += 1
            registers[a.PENDING_BYTES] += member.message[word + a.PAYLOAD_BYTES]
            member.message[word + a.WAITING] += 1
            if member.setting[a.ROUTE] == a.DIRECT:
                source = member.host.name[2 * slot + contract.SOURCE] + a.ZERO
                sequence = member.host.name[2 * slot + contract.SEQUENCE] + a.ZERO
                member.known[source, a.RECEIVED] = sequence
                keep_until_stable(member, source, sequence, slot)
        elif kind == contract.REFERENCE:
            store.end_reference(member, slot)
