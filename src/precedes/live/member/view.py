"""This member's place in the trees of all sources, also after a crash in its epoch.

A protocol that goes on without a crashed member in the same epoch gets ``on_crash`` when the
members have agreed on that. For all others an epoch ends with its first loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from precedes import compiled, contract
from precedes.contract import Int64s
from precedes.live.member import arrays
from precedes.live.member.arrays import Member
from precedes.parts import topology
from precedes.parts.pool import NONE


@compiled.function(inline=False)
def crash(member: Member, state: Any, who: int) -> None:
    """Report to the protocol that a member has crashed, once; it is ignored from then on."""
    if member.known[who, arrays.GONE] != 0:
        return
    registers = member.host.registers
    registers[arrays.OF_DETECTOR] = 0
    contract.on_crash(state, 0, who, member.host)
    member.known[who, arrays.GONE] = 1
    registers[arrays.CRASHES] += 1
    if member.detector.state[0, who] & 1 == 0:
        member.detector.state[0, who] += 1


def place_in_view(member: Member) -> None:
    """Compute this member's place in the trees of all sources, from its current view."""
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


def _parent(me: int, source: int, gone: Int64s, members: int) -> int:
    """The member that forwards the messages of a source; evicted members are skipped."""
    while True:
        following = topology.first_correct(source, topology.cluster(me, source), gone, members)
        if following == me:
            return source
        source = following
