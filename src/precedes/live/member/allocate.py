"""Making the arrays of a live member, letting them grow, and placing the member in its view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from precedes import contract
from precedes.contract import Capacity, grow
from precedes.live.member import arrays as a
from precedes.live.member import names
from precedes.live.member.arrays import Member
from precedes.live.member.effects import PIECE_BYTES
from precedes.live.net.wire import FRAME_BYTES
from precedes.parts import tester, topology
from precedes.registry import Protocol

if TYPE_CHECKING:
    from precedes.live.member.node import Settings

# A member keeps some arrays of members x members; 1024 take 16 MB, and are far more than a
# group with one window for everybody is good for.
MEMBERS_MAX: Final = 1024
WINDOW_MAX: Final = 1 << 16
PAYLOAD_BYTES_MAX: Final = 1 << 26
ITEMS_MAX: Final = 4096

SLOTS_FIRST: Final = 1024
BLOCKS_FIRST: Final = 2048
INPUT_FIRST: Final = 1 << 18
SEGMENTS_FIRST: Final = 256
TRACE_ROWS: Final = 4096
REPORTS: Final = 64
TIMERS: Final = 256
PACKETS: Final = 8192  # small ones fill a frame: fewer would have it cut before
DELIVERIES: Final = 4096

# What is counted, by the names that metrics have.
COUNTS: Final = {
    "broadcasts": a.OWN_SEQUENCE,
    "stable": a.OWN_STABLE,
    "received": a.RECEPTIONS,
    "dropped": a.DROPPED,
    "duplicates": a.DUPLICATES,
    "relayed": a.RELAYED,
    "routed": a.ROUTED_ON,
    "packets_sent": a.PACKETS_SENT,
    "packets_sent_to_all": a.PACKETS_ALL,
    "pending": a.PENDING,
    "pending_max": a.PENDING_MAX,
    "pending_bytes": a.PENDING_BYTES,
    "messages_kept": a.NAMES_USED,
    "evictions": a.EVICTIONS,
}


def make_member(
    settings: Settings, protocol: Protocol, state: Any, capacity: Capacity, *, entropy: int
) -> Member:
    """The arrays of a member that has done nothing yet."""
    n = settings.members
    slots = capacity.slots
    route = a.ROUTES[protocol.route]
    branches = topology.dimension(n) if route == a.TREE else n
    setting = np.zeros(a.SETTINGS, np.int64)
    setting[[a.NODES, a.ME, a.ROUTE, a.WINDOW]] = n, settings.member, route, settings.window
    setting[[a.PAYLOAD_MAX, a.ITEMS_MAX]] = settings.payload_max_bytes, ITEMS_MAX
    setting[[a.LEAVES, a.EAGER]] = branches, max(settings.window // 8, 1)
    words = protocol.effects_words(capacity, n)
    fields = a.fields_of(state, protocol.message_fields, slots)
    widest = settings.payload_max_bytes + 64 + sum(2 + 5 * f.shape[1] for f in fields)
    records = n * (n + 1) + n * (1 + branches) + PACKETS
    out_bytes = max(FRAME_BYTES, PIECE_BYTES + widest + 9 * records)
    detector_items = (contract.NUMBER, contract.NUMBER, contract.NUMBER)
    host = a.make_host(slots=slots, effects=words, seed=entropy)
    host.registers[contract.WINDOW] = settings.window
    return Member(
        host=host,
        message=np.zeros(a.WORDS * (slots - 1), np.int64),
        field=fields,
        block=np.zeros(BLOCKS_FIRST * a.BLOCK_BYTES, np.uint8),
        block_link=np.zeros(BLOCKS_FIRST, np.int32),
        name=names.allocate(slots),
        inbox=np.zeros(2 * ITEMS_MAX, np.int64),
        item_class=np.array([*protocol.items, *detector_items], np.int64),
        setting=setting,
        input=np.zeros(INPUT_FIRST, np.uint8),
        segment=np.zeros((SEGMENTS_FIRST, a.SEGMENT_WORDS), np.int64),
        common=np.zeros(max(FRAME_BYTES, widest), np.uint8),
        out=np.zeros(out_bytes, np.uint8),
        packet=np.zeros((records, 3), np.int64),
        routed=np.zeros(out_bytes, np.uint8),
        bound=np.zeros((n, a.BOUND_WORDS), np.int64),
        delivered=np.zeros(max(1 << 18, 2 * widest), np.uint8),
        delivery=np.zeros((DELIVERIES, a.DELIVERY_WORDS), np.int64),
        timer=np.zeros((TIMERS, 3), np.int64),
        report=np.zeros((REPORTS, 3), np.int64),
        trace=np.zeros((TRACE_ROWS + 2 * ITEMS_MAX, 2), np.int64),
        known=np.zeros((n, a.KNOWN_WORDS), np.int64),
        kept=np.full((n, 2 * settings.window), a.NONE, np.int32),
        relayed=np.zeros((n, n), np.int32),
        heard=np.zeros((n, n), np.int32),
        lag=np.repeat(np.arange(n, dtype=np.int32)[:, None], n, axis=1).copy(),
        told=np.zeros((n, n), np.int32),
        behind=np.zeros((branches, n), np.int32),
        branch=np.full(branches, a.NONE, np.int32),
        serves=np.zeros((n, branches), np.uint8),
        detector=_make_detector(settings, len(protocol.items)),
    )


def _make_detector(settings: Settings, first_tag: int) -> tester.Detector:
    group = contract.Group(
        nodes=settings.members, hosted=np.array([settings.member], np.int32), seed=1
    )
    return tester.make_detector(
        group=group,
        interval_ms=settings.test_interval_ms,
        timeout_ms=settings.patience_ms,
        rounds=0,
        first_tag=first_tag,
        own_channel=True,
    )


def with_input(member: Member, *, size_bytes: int) -> Member:
    """Room for more input; a batch is as large as what the links had in one turn of the loop."""
    return member._replace(input=grow(member.input, np.zeros(2 * size_bytes, np.uint8)))


def with_segments(member: Member) -> Member:
    """Twice the room for segments."""
    segments = 2 * len(member.segment)
    return member._replace(
        segment=grow(member.segment, np.zeros((segments, a.SEGMENT_WORDS), np.int64))
    )


def with_blocks(member: Member) -> Member:
    """Twice the room for payloads; windows bound how often this can happen."""
    blocks = 2 * member.block_link.size
    return member._replace(
        block=grow(member.block, np.zeros(blocks * a.BLOCK_BYTES, np.uint8)),
        block_link=grow(member.block_link, np.zeros(blocks, np.int32)),
    )


def neighbours(settings: Settings, route: int, gone: Any) -> list[int]:
    """Whom a member has a link with: everybody, or the first member of each of its clusters."""
    me, n = settings.member, settings.members
    if route != a.TREE:
        return [peer for peer in range(n) if peer != me and not gone[peer]]
    found = (topology.first_correct(me, s, gone, n) for s in range(1, topology.dimension(n) + 1))
    return [int(peer) for peer in found if peer != topology.NONE]


def place_in_view(member: Member, settings: Settings) -> None:
    """Find this member's place in the trees of all sources, as far as it knows who is there."""
    me, n = settings.member, settings.members
    gone = member.known[:, a.GONE]
    member.told[:] = 0
    member.serves[:] = 0
    member.known[:, a.PARENT] = a.NONE
    if member.setting[a.ROUTE] != a.TREE:
        peers = np.arange(n, dtype=np.int32)
        member.branch[:] = np.where((gone != 0) | (peers == me), a.NONE, peers)
        member.serves[me] = 1
        member.known[:, a.PARENT] = member.branch
    else:
        dimension = topology.dimension(n)
        for s in range(1, dimension + 1):
            member.branch[s - 1] = topology.first_correct(me, s, gone, n)
        member.serves[me] = 1
        for source in range(n):
            if source != me and not gone[source]:
                parent = _parent(me, source, gone, n)
                member.known[source, a.PARENT] = parent
                member.serves[source, : topology.cluster(me, parent) - 1] = 1
    for peer in neighbours(settings, int(member.setting[a.ROUTE]), gone):
        member.known[peer, a.LINKED] = 1


def _parent(me: int, source: int, gone: Any, members: int) -> int:
    """From whom the messages of a source come; members out of the view are passed over."""
    while True:
        following = topology.first_correct(source, topology.cluster(me, source), gone, members)
        if following == me:
            return source
        source = following
