"""Records: the contents of the body of a frame, with a writer and a reader for each kind.

Each begins with its kind in one byte; all numbers are little endian.

    PACKET   items (2), then each: tag (1) and, by its class,
             a message: source (2), sequence (4), its fields, payload length (4), payload
             a reference: source (2), sequence (4); a number, or the length of a
             record: 8 bytes
             a field: words (2), then each word in groups of 7 bits, the sign in the lowest bit
    UP       source (2), messages of it that were consumed (4), who has consumed the least (2)
    DOWN     source (2), messages of it that all have consumed (4), whether that is all (1)

Writers return where they end; their callers have checked the room. Readers of records of a
fixed size are called when all of it is there. Those of packets never read beyond the end that
they are given and trust no number: they return where they end, a reason below 0 for which the
record is refused, or STOP and a status.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled, contract
from precedes.compiled import ZERO
from precedes.contract import MESSAGE, NUMBER, REFERENCE, Int32s
from precedes.live.member import arrays, store
from precedes.live.member.arrays import Bytes, Member
from precedes.parts.pool import NONE

PACKET: Final = 1
UP: Final = 2
DOWN: Final = 3

# Sizes of the parts of records.
KIND_BYTES: Final = 1
MEMBER_BYTES: Final = 2
SEQUENCE_BYTES: Final = 4  # a sequence number, or how many messages of a member
NAME_BYTES: Final = MEMBER_BYTES + SEQUENCE_BYTES
COUNT_BYTES: Final = 2  # of items or words
LENGTH_BYTES: Final = 4
TAG_BYTES: Final = 1
FLAG_BYTES: Final = 1
NUMBER_BYTES: Final = 8
WORD_BYTES_MAX: Final = 5

SEQUENCE_MAX: Final = (1 << 30) - 1  # a billion messages of one member; a bit is left for a flag

# Reasons to refuse a record.
SHORT: Final = -1
LONG: Final = -2
UNKNOWN_TAG: Final = -3
UNKNOWN_SOURCE: Final = -4
IMPOSSIBLE: Final = -5
MISROUTED: Final = -6
UNKNOWN_RECORD: Final = -7
REASONS: Final = {
    -SHORT: "a record is cut short",
    -LONG: "a record is longer than allowed",
    -UNKNOWN_TAG: "an item has an unknown tag",
    -UNKNOWN_SOURCE: "a message names no member or no sequence number",
    -IMPOSSIBLE: "a clock or a count is impossible",
    -MISROUTED: "a message does not come by this member",
    -UNKNOWN_RECORD: "a record is of an unknown kind",
}
# The record is valid, but the step has to stop first: this and a status.
STOP: Final = -1000


def _read(data: Bytes, at: int, count: int) -> int:
    value = np.int64(0)
    for i in range(count):
        # Unsigned indices need no wrap-around test: this compiles to one load.
        value |= np.int64(data[np.uint64(at + i)]) << (8 * i)
    return int(value)


@compiled.function(inline=False, loop=_read)
def read(data: Bytes, at: int, count: int) -> int:
    """A number of ``count`` bytes, the least significant first; one of 8 bytes has a sign."""
    octets = data[at : at + count].tobytes()
    return int.from_bytes(octets, "little", signed=count == NUMBER_BYTES)


def _write(data: Bytes, at: int, value: int, count: int) -> int:
    for i in range(count):
        data[np.uint64(at + i)] = (value >> (8 * i)) & 0xFF
    return at + count


@compiled.function(inline=False, loop=_write)
def write(data: Bytes, at: int, value: int, count: int) -> int:
    """Write the last ``count`` bytes of a number."""
    remainder = int(value) & ((1 << 8 * count) - 1)
    data[at : at + count] = memoryview(remainder.to_bytes(count, "little"))
    return at + count


# UP -----------------------------------------------------------------------------------------

UP_BYTES: Final = KIND_BYTES + MEMBER_BYTES + SEQUENCE_BYTES + MEMBER_BYTES


@compiled.function(inline=False)
def write_up(data: Bytes, at: int, source: int, consumed: int, laggard: int) -> int:
    """The count of messages of a source that the sender and those behind it have consumed."""
    at = write(data, at, UP, KIND_BYTES)
    at = write(data, at, source, MEMBER_BYTES)
    at = write(data, at, consumed, SEQUENCE_BYTES)
    return write(data, at, laggard, MEMBER_BYTES)


@compiled.function(inline=False)
def read_up(data: Bytes, at: int) -> tuple[int, int, int]:
    """Source, how many messages of it are consumed, and the laggard."""
    at += KIND_BYTES
    source = read(data, at, MEMBER_BYTES)
    consumed = read(data, at + MEMBER_BYTES, SEQUENCE_BYTES)
    return source, consumed, read(data, at + MEMBER_BYTES + SEQUENCE_BYTES, MEMBER_BYTES)


# DOWN ---------------------------------------------------------------------------------------

DOWN_BYTES: Final = KIND_BYTES + MEMBER_BYTES + SEQUENCE_BYTES + FLAG_BYTES


@compiled.function(inline=False)
def write_down(data: Bytes, at: int, source: int, stable: int, finished: int) -> int:
    """The count of messages of a source that all have consumed, and whether it has finished."""
    at = write(data, at, DOWN, KIND_BYTES)
    at = write(data, at, source, MEMBER_BYTES)
    at = write(data, at, stable, SEQUENCE_BYTES)
    return write(data, at, finished, FLAG_BYTES)


@compiled.function(inline=False)
def read_down(data: Bytes, at: int) -> tuple[int, int, int]:
    """Source, how many messages of it are stable, and whether it has finished."""
    at += KIND_BYTES
    source = read(data, at, MEMBER_BYTES)
    stable = read(data, at + MEMBER_BYTES, SEQUENCE_BYTES)
    return source, stable, read(data, at + MEMBER_BYTES + SEQUENCE_BYTES, FLAG_BYTES)


# PACKET: its header, then its items -------------------------------------------------------

PACKET_BYTES: Final = KIND_BYTES + COUNT_BYTES


@compiled.function(inline=False)
def write_packet(data: Bytes, at: int, count: int) -> int:
    """The header of a packet; this many items follow."""
    return write(data, write(data, at, PACKET, KIND_BYTES), count, COUNT_BYTES)


@compiled.function(inline=False)
def read_packet(member: Member, at: int, end: int) -> int:
    """Read a packet with its items into the inbox.

    Messages get slots, or one more reference if they are here already. If anything is refused,
    or there is no room, all references are given back and nothing has changed.
    """
    if at + PACKET_BYTES > end:
        return SHORT
    count = read(member.input, at + KIND_BYTES, COUNT_BYTES)
    at += PACKET_BYTES
    if count == 0 or count > member.setting[arrays.ITEMS_MAX]:
        return LONG
    member.host.registers[arrays.COUNT] = 0
    for i in range(count):
        at = _read_item(member, at, end, i)
        if at < 0:
            give_back(member, i)
            return at
    member.host.registers[arrays.COUNT] = count
    return at


@compiled.function(inline=False)
def give_back(member: Member, count: int) -> None:
    """End the references of the first items in the inbox."""
    for i in range(count):
        kind = member.item_class[contract.tag_of(member.inbox, i)]
        if kind < NUMBER:
            store.end_reference(member, contract.value_of(member.inbox, i))
    member.host.registers[arrays.COUNT] = 0


# Items --------------------------------------------------------------------------------------


@compiled.function(inline=False)
def message_bytes_max(member: Member) -> int:
    """Maximum size of a packet of one message, without its payload."""
    return PACKET_BYTES + TAG_BYTES + NAME_BYTES + fields_bytes_max(member.field) + LENGTH_BYTES


@compiled.function(inline=False)
def item_bytes_max(member: Member, tag: int, value: int) -> int:
    """Maximum size of an item."""
    kind = member.item_class[tag]
    if kind == MESSAGE:
        payload_bytes = member.message[value, arrays.PAYLOAD_BYTES]
        return (
            TAG_BYTES + NAME_BYTES + fields_bytes_max(member.field) + LENGTH_BYTES + payload_bytes
        )
    return TAG_BYTES + (NAME_BYTES if kind == REFERENCE else NUMBER_BYTES)


@compiled.function(inline=False)
def write_item(member: Member, data: Bytes, at: int, tag: int, value: int) -> int:
    """An item of a packet: a message, a reference or a number, as its tag says."""
    kind = member.item_class[tag]
    at = write(data, at, tag, TAG_BYTES)
    if kind >= NUMBER:
        return write(data, at, value, NUMBER_BYTES)
    at = write(data, at, member.host.source_of(value) + ZERO, MEMBER_BYTES)
    at = write(data, at, member.host.sequence_of(value) + ZERO, SEQUENCE_BYTES)
    if kind == REFERENCE:
        return at
    for k in range(len(member.field)):
        at = write_field(data, at, member.field[k][value])
    payload_bytes = member.message[value, arrays.PAYLOAD_BYTES]
    at = write(data, at, payload_bytes, LENGTH_BYTES)
    return store.copy_payload(member, value, data, at)


@compiled.function(inline=False)
def _read_item(member: Member, at: int, end: int, i: int) -> int:
    """Read an item to the i-th place of the inbox."""
    data = member.input
    if at + TAG_BYTES > end:
        return SHORT
    tag = read(data, at, TAG_BYTES)
    at += TAG_BYTES
    if tag >= member.item_class.size:
        return UNKNOWN_TAG
    kind = member.item_class[tag]
    member.inbox[2 * i] = tag
    if kind >= NUMBER:
        if at + NUMBER_BYTES > end:
            return SHORT
        member.inbox[2 * i + 1] = read(data, at, NUMBER_BYTES)
        return at + NUMBER_BYTES
    if at + NAME_BYTES > end:
        return SHORT
    source = read(data, at, MEMBER_BYTES)
    sequence = read(data, at + MEMBER_BYTES, SEQUENCE_BYTES)
    if source >= member.setting[arrays.NODES] or sequence == 0 or sequence > SEQUENCE_MAX:
        return UNKNOWN_SOURCE
    return _read_message(member, at + NAME_BYTES, end, i, source, sequence)


@compiled.function(inline=False)
def _read_message(member: Member, at: int, end: int, i: int, source: int, sequence: int) -> int:
    """The rest of a message or of a reference to one."""
    slot = store.find(member.name, store.name_of(source, sequence))
    is_new = slot == NONE
    if not is_new:
        member.message[slot, arrays.REFERENCES] += 1
    else:
        if not store.has_slot(member):
            return STOP + arrays.GROW_SLOTS
        slot = store.new_message(member, source, sequence)
    member.inbox[2 * i + 1] = slot
    if member.item_class[contract.tag_of(member.inbox, i)] == REFERENCE:
        return at
    at = _read_content(member, at, end, slot, is_new)
    if at < 0:
        store.end_reference(member, slot)
    return at


@compiled.function(inline=False)
def _read_content(member: Member, at: int, end: int, slot: int, is_new: bool) -> int:
    """Fields and payload; those of a message that is here already are skipped."""
    data = member.input
    # The last row belongs to no message: a message that is here already must not change.
    row = slot if is_new else member.field[0].shape[0] - 1
    for k in range(len(member.field)):
        at = read_field(data, at, end, member.field[k][row])
        if at < 0:
            return at
    if at + LENGTH_BYTES > end:
        return SHORT
    size_bytes = read(data, at, LENGTH_BYTES)
    at += LENGTH_BYTES
    if size_bytes > member.setting[arrays.PAYLOAD_MAX]:
        return LONG
    if at + size_bytes > end:
        return SHORT
    if is_new:
        if not store.has_blocks(member, size_bytes):
            return STOP + arrays.GROW_BLOCKS
        store.keep_payload(member, slot, data, at, size_bytes)
    return at + size_bytes


# Fields of a message ------------------------------------------------------------------------


@compiled.function(inline=False)
def fields_bytes_max(fields: tuple[Int32s, ...]) -> int:
    """Maximum size of the fields of a message."""
    total = 0
    for k in range(len(fields)):
        total += COUNT_BYTES + WORD_BYTES_MAX * fields[k].shape[1]
    return total


def _used_words(row: Int32s) -> int:
    used = row.size
    while used > 0 and row[used - 1] == 0:
        used -= 1
    return used


@compiled.function(inline=False, loop=_used_words)
def used_words(row: Int32s) -> int:
    """The number of words up to the last that is not 0."""
    indices = row.nonzero()[0]
    return int(indices[-1]) + 1 if indices.size else 0


def _clear(row: Int32s, first: int) -> None:
    for i in range(first, row.size):
        row[i] = 0


@compiled.function(inline=False, loop=_clear)
def clear(row: Int32s, first: int) -> None:
    """Set the words from this one on to 0."""
    row[first:] = 0


@compiled.function(inline=False)
def write_field(data: Bytes, at: int, row: Int32s) -> int:
    """The number of words up to the last that is not 0, then these.

    Each in groups of 7 bits, its sign in the lowest: a small count takes one byte.
    """
    used = used_words(row)
    at = write(data, at, used, COUNT_BYTES)
    for i in range(used):
        word = np.int64(row[i])
        word = ((word << 1) ^ (word >> 63)) & 0xFFFFFFFF
        while word > 0x7F:
            data[at] = (word & 0x7F) | 0x80
            word >>= 7
            at += 1
        data[at] = word
        at += 1
    return at


@compiled.function(inline=False)
def read_field(data: Bytes, at: int, end: int, row: Int32s) -> int:
    """Read a field; missing words are 0."""
    if at + COUNT_BYTES > end:
        return SHORT
    used = read(data, at, COUNT_BYTES)
    at += COUNT_BYTES
    if used > row.size:
        return LONG
    for i in range(used):
        word = np.int64(0)
        shift = 0
        while True:
            if at >= end:
                return SHORT
            if shift > 7 * (WORD_BYTES_MAX - 1):
                return IMPOSSIBLE
            byte = np.int64(data[at])
            at += 1
            word |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if word > 0xFFFFFFFF:
            return IMPOSSIBLE
        row[i] = (word >> 1) ^ -(word & 1)
    clear(row, used)
    return at
