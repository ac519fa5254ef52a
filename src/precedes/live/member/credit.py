"""Acknowledgement and stability: credit for senders, and the end of a group.

An application consumes messages; the count of each source goes up the tree over which that
source's messages come, and every member passes up the minimum of its own count and those from
below. So a source learns from one number of each of its neighbours how many of its messages all
members have consumed, and sends down the same tree how many are stable. In a mesh the tree is a
star and the numbers are those of single members.

A reported number stays valid, because counts never fall: after a change of the view the
highest number of a branch still counts, until its new first member reports more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.compiled import ZERO
from precedes.live.member import arrays, effects, records, store
from precedes.live.member.arrays import DONE, FLUSH, Member
from precedes.parts.pool import NONE

ALL: Final = 1 << 31  # more than any member can have consumed
# In ``last_sent``, next to the stable number: the source has finished.
ENDED: Final = records.SEQUENCE_MAX + 1


@compiled.function(inline=False)
def settle(member: Member) -> None:
    """Count the own messages that are stable, and drop kept ones that all have."""
    registers = member.host.registers
    me = member.setting[arrays.ME]
    stable = min(_consumed_below(member, me), registers[arrays.OWN_SEQUENCE])
    registers[arrays.OWN_STABLE] = max(registers[arrays.OWN_STABLE], stable)
    member.known[me, arrays.STABLE] = registers[arrays.OWN_STABLE]
    all_stable = registers[arrays.OWN_STABLE] == registers[arrays.OWN_SEQUENCE]
    if registers[arrays.CLOSING] != 0 and all_stable:
        member.known[me, arrays.FINISHED] = 1
    if member.setting[arrays.ROUTE] == arrays.DIRECT:
        for source in range(member.setting[arrays.NODES]):
            store.forget_stable(member, source)


@compiled.function(inline=False)
def _consumed_below(member: Member, source: int) -> int:
    """The number of messages of a source that this member and all behind it have consumed."""
    me = member.setting[arrays.ME]
    # Its own messages are not for its application to consume, unless they are echoed.
    is_echoed = source != me or member.setting[arrays.ECHO] != 0
    least = member.known[source, arrays.CONSUMED] if is_echoed else np.int64(ALL)
    laggard = me
    for b in range(member.setting[arrays.BRANCHES]):
        peer = member.branch[b]
        if peer == NONE or member.serves[source, b] == 0:
            continue
        if member.consumed_behind[peer, source] > member.behind[b, source]:
            member.behind[b, source] = member.consumed_behind[peer, source]
        if member.behind[b, source] < least:
            least = member.behind[b, source] + ZERO
            laggard = member.lag[peer, source]
    member.known[source, arrays.LAGGARD] = laggard
    return int(least)


@compiled.function(inline=False)
def acknowledge(member: Member) -> int:
    """Acknowledge consumption and stability: piggybacked, or alone if much or overdue.

    A frame for every message consumed would double their number. FLUSH if there is no room.
    """
    registers = member.host.registers
    count = member.setting[arrays.NODES] * (1 + member.setting[arrays.BRANCHES])
    if member.setting[arrays.ROUTE] != arrays.TREE:
        count = 2 * member.setting[arrays.NODES]
    if not effects.has_room(member, count * max(records.UP_BYTES, records.DOWN_BYTES), count):
        return FLUSH
    registers[arrays.UNACKNOWLEDGED] = 0
    for source in range(member.setting[arrays.NODES]):
        if source != member.setting[arrays.ME] and member.known[source, arrays.GONE] == 0:
            _send_up(member, source)
    for b in range(member.setting[arrays.BRANCHES]):
        if member.branch[b] != NONE:
            for source in range(member.setting[arrays.NODES]):
                if member.serves[source, b] != 0 and member.known[source, arrays.GONE] == 0:
                    _send_down(member, member.branch[b] + ZERO, source)
    return DONE


@compiled.function(inline=False)
def _goes_now(member: Member, peer: int, change: int) -> bool:
    registers = member.host.registers
    going = member.bound[peer, arrays.LAST] > 0 or registers[arrays.COMMON_BYTES] > 0
    return going or registers[arrays.FORCED] != 0 or change >= member.setting[arrays.EAGER]


@compiled.function(inline=False)
def _send_up(member: Member, source: int) -> None:
    parent = member.known[source, arrays.PARENT] + ZERO
    if parent == NONE:
        return
    consumed = _consumed_below(member, source)
    change = consumed - member.last_sent[parent, source]
    if change <= 0:
        return
    if not _goes_now(member, parent, change):
        member.host.registers[arrays.UNACKNOWLEDGED] = 1
        return
    member.last_sent[parent, source] = consumed
    laggard = member.known[source, arrays.LAGGARD]
    at = effects.open_record(member, parent)
    at = records.write_up(member.out, at, source, consumed, laggard)
    effects.close_record(member, at)


@compiled.function(inline=False)
def _send_down(member: Member, peer: int, source: int) -> None:
    stable = member.known[source, arrays.STABLE]
    finished = member.known[source, arrays.FINISHED] != 0
    news = stable | ENDED if finished else stable
    if news == member.last_sent[peer, source]:
        return
    if not finished and not _goes_now(member, peer, stable - member.last_sent[peer, source]):
        member.host.registers[arrays.UNACKNOWLEDGED] = 1
        return
    member.last_sent[peer, source] = news
    at = effects.open_record(member, peer)
    at = records.write_down(member.out, at, source, stable, int(finished))
    effects.close_record(member, at)


@compiled.function(inline=False)
def apply_up(member: Member, peer: int, source: int, consumed: int, laggard: int) -> None:
    """Apply a peer's report of the messages that it and those behind it have consumed."""
    if consumed > member.consumed_behind[peer, source]:
        member.consumed_behind[peer, source] = consumed
        member.lag[peer, source] = laggard


@compiled.function(inline=False)
def apply_down(member: Member, source: int, stable: int, finished: int) -> None:
    """Apply a peer's report of the messages of a source that all members have consumed."""
    known = member.known[source]
    known[arrays.STABLE] = max(known[arrays.STABLE], stable)
    if finished != 0:
        known[arrays.FINISHED] = 1
