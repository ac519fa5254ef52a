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

import numpy as np

from precedes import compiled, contract
from precedes.compiled import ZERO
from precedes.contract import Int64s
from precedes.live.member import arrays, effects, records
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.parts import topology
from precedes.parts.pool import NONE


@compiled.function(inline=False)
def evict(member: Member, state: Any, who: int) -> int:
    """Take a member out of the view; nothing happens if it is out already."""
    registers = member.host.registers
    if who == member.setting[arrays.ME]:
        if not effects.can_report(member, 2):
            return FLUSH
        effects.report(member, arrays.EVICTED, who, 0)
        return DONE
    if member.known[who, arrays.GONE] != 0:
        return DONE
    count = member.setting[arrays.NODES] * (registers[arrays.EVICTIONS] + 1)
    if not effects.can_report(member, 2) or not effects.has_room(
        member, count * records.FROZEN_BYTES, count
    ):
        return FLUSH
    registers[arrays.OF_DETECTOR] = 0
    contract.on_crash(state, 0, who, member.host)
    member.known[who, arrays.GONE] = 1
    registers[arrays.EVICTIONS] += 1
    if member.detector.state[0, who] & 1 == 0:
        member.detector.state[0, who] += 1
    effects.report(member, arrays.EVICTED, who, 0)
    _send_frozen(member)
    return DONE


@compiled.function(inline=False)
def _send_frozen(member: Member) -> None:
    """Tell all how many messages have come of every member that is out of the view."""
    nodes = member.setting[arrays.NODES]
    for target in range(nodes):
        if target == member.setting[arrays.ME] or member.known[target, arrays.GONE] != 0:
            continue
        for gone in range(nodes):
            if member.known[gone, arrays.GONE] != 0:
                received = member.known[gone, arrays.RECEIVED]
                at = effects.open_record(member, target)
                effects.close_record(member, records.write_frozen(member.out, at, gone, received))


@compiled.function(inline=False)
def accept_frozen(member: Member, state: Any, peer: int, at: int, end: int) -> int:
    """A peer tells what it has of a member out of the view: relay what it lacks."""
    if at + records.FROZEN_BYTES > end:
        return records.SHORT
    who, has = records.read_frozen(member.input, at)
    if who >= member.setting[arrays.NODES]:
        return records.UNKNOWN_SOURCE
    status = evict(member, state, who)
    if status == DONE and who != member.setting[arrays.ME]:
        status = _relay(member, peer, who, has)
    return at + records.FROZEN_BYTES if status == DONE else records.STOP + status


@compiled.function(inline=False)
def _relay(member: Member, peer: int, who: int, has: int) -> int:
    """Send a peer the messages of a lost member that it has not; where there is no room, stop."""
    # What was relayed to it arrives, as long as the two are there: it is not relayed again.
    done = max(has, member.relayed[peer, who], member.known[who, arrays.FORGOTTEN])
    while (
        member.setting[arrays.ROUTE] == arrays.DIRECT and done < member.known[who, arrays.RECEIVED]
    ):
        slot = member.kept[who, (done + 1) % member.kept.shape[1]] + ZERO
        if slot != NONE:
            if not effects.has_room(member, records.relay_bytes_max(member, slot), 1):
                return FLUSH
            begin = effects.open_record(member, peer)
            at = records.write_relay(member, member.out, begin, slot)
            effects.close_record(member, at)
            member.bound[peer, arrays.OF_MESSAGES] += at - begin - records.KIND_BYTES
            member.host.registers[arrays.RELAYED] += 1
        done += 1
        member.relayed[peer, who] = done
    return DONE


def neighbours(member: Member) -> list[int]:
    """Whom a member has a link with: everybody, or the first member of each of its clusters."""
    me, n = int(member.setting[arrays.ME]), int(member.setting[arrays.NODES])
    gone = member.known[:, arrays.GONE]
    if member.setting[arrays.ROUTE] != arrays.TREE:
        return [peer for peer in range(n) if peer != me and not gone[peer]]
    found = (topology.first_correct(me, s, gone, n) for s in range(1, topology.dimension(n) + 1))
    return [int(peer) for peer in found if peer != topology.NONE]


def place_in_view(member: Member) -> None:
    """Find this member's place in the trees of all sources, as far as it knows who is there."""
    me, n = int(member.setting[arrays.ME]), int(member.setting[arrays.NODES])
    gone = member.known[:, arrays.GONE]
    member.last_sent[:] = 0
    member.serves[:] = 0
    member.serves[me] = 1
    if member.setting[arrays.ROUTE] != arrays.TREE:
        peers = np.arange(n, dtype=np.int32)
        member.branch[:] = np.where((gone != 0) | (peers == me), NONE, peers)
        member.known[:, arrays.PARENT] = member.branch
    else:
        member.known[:, arrays.PARENT] = NONE
        for s in range(1, topology.dimension(n) + 1):
            member.branch[s - 1] = topology.first_correct(me, s, gone, n)
        for source in range(n):
            if source != me and not gone[source]:
                parent = _parent(me, source, gone, n)
                member.known[source, arrays.PARENT] = parent
                member.serves[source, : topology.cluster(me, parent) - 1] = 1
    for peer in neighbours(member):
        member.known[peer, arrays.LINKED] = 1


def _parent(me: int, source: int, gone: Int64s, members: int) -> int:
    """From whom the messages of a source come; members out of the view are passed over."""
    while True:
        following = topology.first_correct(source, topology.cluster(me, source), gone, members)
        if following == me:
            return source
        source = following
