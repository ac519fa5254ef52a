"""Who has taken what: credit for senders, stability, and the end of a group.

A member's application takes messages; how many of each source is told up the tree over which
that source's messages come, and every member passes up the least of its own number and of those
from below. So a source learns how many of its messages everybody has taken with one number from
each of its neighbours, and tells down the same tree how many that are. In a mesh the tree is a
star and the numbers are those of single members.

What has been heard stays true, because nobody takes less later: after a change of the view the
most that was heard of a branch counts on, until its new first member knows more.
"""

from __future__ import annotations

import numpy as np

from precedes import compiled
from precedes.live.member.arrays import (
    CLOSING,
    COMMON_BYTES,
    CONSUMED,
    DIRECT,
    EAGER,
    FINISHED,
    FORCED,
    FORGOTTEN,
    GONE,
    LAGGARD,
    LAST,
    LEAVES,
    ME,
    NODES,
    NONE,
    OUT_BYTES,
    OWN_SEQUENCE,
    OWN_STABLE,
    PACKETS,
    PARENT,
    ROUTE,
    STABLE,
    TREE,
    UNTOLD,
    WINDOW,
    ZERO,
    Member,
)
from precedes.live.member.records import write
from precedes.live.member.store import end_reference
from precedes.live.net.wire import DOWN, DOWN_BYTES, FRAME_BYTES, UP, UP_BYTES

ALL = 1 << 31
ENDED = 1 << 30  # in ``told``: beside the stable number, that nothing more will come


@compiled.function(inline=False)
def taken_below(member: Member, source: int) -> int:
    """How many messages of a source this member and all behind it have taken."""
    me = member.setting[ME]
    least = np.int64(ALL) if source == me else member.known[source, CONSUMED]
    laggard = me
    for b in range(member.setting[LEAVES]):
        peer = member.branch[b]
        if peer == NONE or member.serves[source, b] == 0:
            continue
        if member.heard[peer, source] > member.behind[b, source]:
            member.behind[b, source] = member.heard[peer, source]
        if member.behind[b, source] < least:
            least = member.behind[b, source] + ZERO
            laggard = member.lag[peer, source]
    member.known[source, LAGGARD] = laggard
    return int(least)


@compiled.function(inline=False)
def settle(member: Member) -> None:
    """Find how many own messages are stable, and let kept ones go that all have."""
    registers = member.host.registers
    me = member.setting[ME]
    stable = min(taken_below(member, me), registers[OWN_SEQUENCE])
    registers[OWN_STABLE] = max(registers[OWN_STABLE], stable)
    member.known[me, STABLE] = registers[OWN_STABLE]
    if registers[CLOSING] != 0 and registers[OWN_STABLE] == registers[OWN_SEQUENCE]:
        member.known[me, FINISHED] = 1
    if member.setting[ROUTE] == DIRECT:
        for source in range(member.setting[NODES]):
            while member.known[source, FORGOTTEN] < member.known[source, STABLE]:
                _forget_next(member, source)


@compiled.function(inline=False)
def _forget_next(member: Member, source: int) -> None:
    known = member.known[source]
    known[FORGOTTEN] += 1
    place = known[FORGOTTEN] % member.kept.shape[1]
    if member.kept[source, place] != NONE:
        end_reference(member, member.kept[source, place] + ZERO)
        member.kept[source, place] = NONE


@compiled.function(inline=False)
def tell(member: Member) -> None:
    """Write what has changed to those who wait for it.

    With a frame that goes to the peer anyway, or when much has changed, or when Python says so
    after a few milliseconds: a frame for every message taken would double their number.
    """
    registers = member.host.registers
    registers[UNTOLD] = 0
    for source in range(member.setting[NODES]):
        if source != member.setting[ME] and member.known[source, GONE] == 0:
            _tell_up(member, source)
    for b in range(member.setting[LEAVES]):
        if member.branch[b] != NONE:
            for source in range(member.setting[NODES]):
                if member.serves[source, b] != 0 and member.known[source, GONE] == 0:
                    _tell_down(member, member.branch[b] + ZERO, source)


@compiled.function(inline=False)
def _goes_now(member: Member, peer: int, change: int) -> bool:
    registers = member.host.registers
    going = member.bound[peer, LAST] > 0 or registers[COMMON_BYTES] > 0
    return going or registers[FORCED] != 0 or change >= member.setting[EAGER]


@compiled.function(inline=False)
def _tell_up(member: Member, source: int) -> None:
    parent = member.known[source, PARENT] + ZERO
    if parent == NONE:
        return
    taken = taken_below(member, source)
    change = taken - member.told[parent, source]
    if change <= 0:
        return
    if not _goes_now(member, parent, change):
        member.host.registers[UNTOLD] = 1
        return
    member.told[parent, source] = taken
    at = open_record(member, parent, UP)
    at = write(member.out, at, source, 2)
    at = write(member.out, at, taken, 4)
    close_record(member, write(member.out, at, member.known[source, LAGGARD], 2))


@compiled.function(inline=False)
def _tell_down(member: Member, peer: int, source: int) -> None:
    stable = member.known[source, STABLE]
    finished = member.known[source, FINISHED] != 0
    news = stable | ENDED if finished else stable
    if news == member.told[peer, source]:
        return
    if not finished and not _goes_now(member, peer, stable - member.told[peer, source]):
        member.host.registers[UNTOLD] = 1
        return
    member.told[peer, source] = news
    at = open_record(member, peer, DOWN)
    at = write(member.out, at, source, 2)
    at = write(member.out, at, stable, 4)
    close_record(member, write(member.out, at, int(finished), 1))


@compiled.function(inline=False)
def open_record(member: Member, target: int, kind: int) -> int:
    """Begin a record for one member; where to go on. The caller has made sure of the room."""
    registers = member.host.registers
    member.packet[registers[PACKETS], 0] = target
    member.packet[registers[PACKETS], 1] = registers[OUT_BYTES]
    return write(member.out, registers[OUT_BYTES], kind, 1)


@compiled.function(inline=False)
def close_record(member: Member, at: int) -> None:
    """End the record begun last."""
    registers = member.host.registers
    row = member.packet[registers[PACKETS]]
    row[2] = at
    member.bound[row[0], LAST] += at - row[1]
    registers[OUT_BYTES] = at
    registers[PACKETS] += 1


@compiled.function(inline=False)
def has_room(member: Member, size_bytes: int, records: int) -> bool:
    """Whether records of together that many bytes can be written for single members.

    What is written until the next flush becomes one frame for each of them.
    """
    registers = member.host.registers
    end = registers[OUT_BYTES] + size_bytes
    return bool(
        end <= member.out.size
        and (end <= FRAME_BYTES or registers[OUT_BYTES] == 0)
        and registers[PACKETS] + records <= member.packet.shape[0]
    )


@compiled.function(inline=False)
def has_room_to_tell(member: Member) -> bool:
    """Whether everything that may have to be told fits."""
    records = member.setting[NODES] * (1 + member.setting[LEAVES])
    if member.setting[ROUTE] != TREE:
        records = 2 * member.setting[NODES]
    return has_room(member, records * max(UP_BYTES, DOWN_BYTES), records)


@compiled.function(inline=False)
def hear_up(member: Member, peer: int, source: int, taken: int, laggard: int) -> None:
    """A peer tells what it and those behind it have taken."""
    if taken > member.heard[peer, source]:
        member.heard[peer, source] = taken
        member.lag[peer, source] = laggard


@compiled.function(inline=False)
def hear_down(member: Member, source: int, stable: int, finished: int) -> None:
    """A peer tells how many messages of a source everybody has taken."""
    known = member.known[source]
    known[STABLE] = max(known[STABLE], stable)
    if finished != 0:
        known[FINISHED] = 1


@compiled.function(inline=False)
def credit(member: Member) -> int:
    """How many messages may be broadcast now."""
    registers = member.host.registers
    return member.setting[WINDOW] - (registers[OWN_SEQUENCE] - registers[OWN_STABLE])
