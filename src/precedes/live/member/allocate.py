"""Making the arrays of a live member, and letting them grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes import contract
from precedes.contract import Capacity, Int32s, Int64s, grow
from precedes.errors import UserError
from precedes.live.member import arrays, records, store
from precedes.live.member.arrays import Free, Member
from precedes.live.member.outbox import FRAME_BYTES, PIECE_BYTES
from precedes.parts import pool, tester, topology
from precedes.parts.pool import NONE
from precedes.registry import Protocol

if TYPE_CHECKING:
    from precedes.live.member.node import Settings

# A member keeps some arrays of members x members; 1024 take 16 MB, and are far more than a
# group with one window for everybody is good for.
MEMBERS_MAX: Final = 1024
WINDOW_MAX: Final = 1 << 16
PAYLOAD_BYTES_MAX: Final = 1 << 26
ITEMS_MAX: Final = 4096

LINK_BYTES: Final = 4
SLOTS_FIRST: Final = 1024
BLOCKS_FIRST: Final = 2048
INPUT_FIRST: Final = 1 << 18
SEGMENTS_FIRST: Final = 256
TRACE_ROWS: Final = 4096
REPORTS: Final = 64
TIMERS: Final = 256
PACKETS: Final = 8192  # small ones fill a frame: fewer would have it cut before
DELIVERIES: Final = 4096
# What a message takes in a frame beside its fields and its payload, at most.
BESIDE_BYTES: Final = 64


def make_member(
    settings: Settings, protocol: Protocol, state: Any, capacity: Capacity, *, entropy: int
) -> Member:
    """The arrays of a member that has done nothing yet."""
    n, window = settings.members, settings.window
    slots = capacity.slots
    route = arrays.ROUTES[protocol.route]
    branches = topology.dimension(n) if route == arrays.TREE else n
    setting = np.zeros(arrays.SETTINGS, np.int64)
    setting[[arrays.NODES, arrays.ME, arrays.ROUTE]] = n, settings.member, route
    setting[[arrays.WINDOW, arrays.EAGER]] = window, max(window // 8, 1)
    setting[[arrays.PAYLOAD_MAX, arrays.ITEMS_MAX]] = settings.payload_max_bytes, ITEMS_MAX
    setting[[arrays.BRANCHES, arrays.ECHO]] = branches, settings.echo
    fields = _fields_of(state, protocol, slots)
    widest_bytes = settings.payload_max_bytes + records.fields_bytes_max(fields) + BESIDE_BYTES
    packets = n * (n + 1) + n * (1 + branches) + PACKETS
    out_bytes = max(FRAME_BYTES, PIECE_BYTES + widest_bytes + records.UP_BYTES * packets)
    host = contract.allocate_host(capacity, seed=entropy, registers=arrays.REGISTERS)
    host.registers[contract.WINDOW] = window
    return Member(
        host=host,
        message=_make_messages(capacity),
        slots=_make_slots(capacity),
        field=fields,
        block=np.zeros(BLOCKS_FIRST * arrays.BLOCK_BYTES, np.uint8),
        blocks=_make_free(BLOCKS_FIRST),
        name=store.allocate_names(slots),
        inbox=np.zeros(2 * ITEMS_MAX, np.int64),
        item_class=np.array([*protocol.items, *tester.ITEMS], np.int64),
        setting=setting,
        input=np.zeros(INPUT_FIRST, np.uint8),
        segment=np.zeros((SEGMENTS_FIRST, arrays.SEGMENT_WORDS), np.int64),
        common=np.zeros(max(FRAME_BYTES, widest_bytes), np.uint8),
        out=np.zeros(out_bytes, np.uint8),
        packet=np.zeros((packets, arrays.PACKET_WORDS), np.int64),
        routed=np.zeros(out_bytes, np.uint8),
        bound=np.zeros((n, arrays.BOUND_WORDS), np.int64),
        delivered=np.zeros(max(1 << 18, 2 * widest_bytes), np.uint8),
        delivery=np.zeros((DELIVERIES, arrays.DELIVERY_WORDS), np.int64),
        timer=np.zeros((TIMERS, arrays.TIMER_WORDS), np.int64),
        report=np.zeros((REPORTS, arrays.REPORT_WORDS), np.int64),
        trace=np.zeros((TRACE_ROWS + 2 * ITEMS_MAX, 2), np.int64),
        known=np.zeros((n, arrays.KNOWN_WORDS), np.int64),
        kept=np.full((n, 2 * window), NONE, np.int32),
        relayed=np.zeros((n, n), np.int32),
        heard=np.zeros((n, n), np.int32),
        lag=np.repeat(np.arange(n, dtype=np.int32)[:, None], n, axis=1).copy(),
        last_sent=np.zeros((n, n), np.int32),
        behind=np.zeros((branches, n), np.int32),
        branch=np.full(branches, NONE, np.int32),
        serves=np.zeros((n, branches), np.uint8),
        detector=_make_detector(settings, len(protocol.items)),
    )


def _make_messages(capacity: Capacity) -> Int64s:
    return np.zeros((capacity.slots, arrays.WORDS), np.int64)


def _make_slots(capacity: Capacity) -> Free:
    """The last slot is for fields that are read and thrown away: no message has it."""
    return _make_free(capacity.slots - 1)


def _make_free(rows: int) -> Free:
    return pool.reserve(Free, LINK_BYTES * rows)


def _fields_of(state: Any, protocol: Protocol, slots: int) -> tuple[Int32s, ...]:
    """The message fields of a state; one of no words stands for none."""
    found = tuple(_as_words(getattr(state, name), name) for name in protocol.message_fields)
    return found or (np.zeros((slots, 0), np.int32),)


def _as_words(array: NDArray[Any], name: str) -> Int32s:
    """A message field as rows of 32-bit words, sharing its memory."""
    if array.dtype.itemsize % 4 or array.dtype.kind not in "iu" or not array.flags.c_contiguous:
        raise UserError(
            f"the message field {name!r} cannot travel: it must be an array of 32- or 64-bit "
            "integers"
        )
    return array.reshape(len(array), -1).view(np.int32)


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
        segment=grow(member.segment, np.zeros((segments, arrays.SEGMENT_WORDS), np.int64))
    )


def with_blocks(member: Member) -> Member:
    """Twice the room for payloads; windows bound how often this can happen."""
    blocks = 2 * member.blocks.link.size
    return member._replace(
        block=grow(member.block, np.zeros(blocks * arrays.BLOCK_BYTES, np.uint8)),
        blocks=grow(member.blocks, _make_free(blocks)),
    )


def with_slots(member: Member, protocol: Protocol, state: Any, capacity: Capacity) -> Member:
    """Room for the messages of a larger capacity, whose state it is."""
    host = contract.allocate_host(capacity, seed=1, registers=arrays.REGISTERS)
    return member._replace(
        host=grow(member.host, host),
        message=grow(member.message, _make_messages(capacity)),
        slots=grow(member.slots, _make_slots(capacity)),
        name=store.larger_names(member.name, capacity.slots),
        field=_fields_of(state, protocol, capacity.slots),
    )
