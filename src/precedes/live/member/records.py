"""Reading and writing the records of a frame, compiled: what ``wire`` describes, byte by byte.

Readers return a position, or a negative reason for which the record is refused; nothing is read
beyond the end that they are given. Writers are called with room made sure of before.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import MESSAGE, NUMBER, REFERENCE, SEQUENCE, SOURCE, Int32s
from precedes.live.member import names, store
from precedes.live.member.arrays import (
    COUNT,
    ITEMS_MAX,
    NODES,
    NONE,
    PAYLOAD_BYTES,
    PAYLOAD_MAX,
    REFERENCES,
    WORDS,
    ZERO,
    Bytes,
    Member,
)

# Reasons for which input is refused: ``wire.REASONS`` has them in words.
SHORT: Final = -1
LONG: Final = -2
UNKNOWN_TAG: Final = -3
UNKNOWN_SOURCE: Final = -4
IMPOSSIBLE: Final = -5
MISROUTED: Final = -6
UNKNOWN_RECORD: Final = -7
# And for which the step must stop for a moment.
NO_SLOTS: Final = -16
NO_BLOCKS: Final = -17

HEADER_BYTES: Final = 3  # of a packet: kind of record, number of items
NAME_BYTES: Final = 6
NUMBER_BYTES: Final = 8
WORD_BYTES_MAX: Final = 5
SEQUENCE_MAX: Final = (1 << 30) - 1  # a billion messages of one member; a bit is left for a flag


@compiled.function(inline=False)
def read(data: Bytes, at: int, count: int) -> int:
    """A number of ``count`` bytes, the least significant first."""
    value = np.int64(0)
    for i in range(count):
        # An index without a sign is not looked at whether it is negative: the loop is one load.
        value |= np.int64(data[np.uint64(at + i)]) << (8 * i)
    return int(value)


@compiled.function(inline=False)
def write(data: Bytes, at: int, value: int, count: int) -> int:
    """Write a number in ``count`` bytes; where it ends."""
    for i in range(count):
        data[np.uint64(at + i)] = (value >> (8 * i)) & 0xFF
    return at + count


@compiled.function(inline=False)
def write_words(data: Bytes, at: int, row: Int32s) -> int:
    """Write a message field: how many words up to the last that is not 0, then the words.

    Each in groups of 7 bits, its sign in the lowest: a small count takes one byte.
    """
    used = row.size
    while used > 0 and row[used - 1] == 0:
        used -= 1
    at = write(data, at, used, 2)
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
def read_words(data: Bytes, at: int, end: int, row: Int32s) -> int:
    """Read a message field; the words that are not there are 0."""
    if at + 2 > end:
        return SHORT
    used = read(data, at, 2)
    at += 2
    if used > row.size:
        return LONG
    for i in range(used):
        word = np.int64(0)
        shift = 0
        while True:
            if at >= end:
                return SHORT
            if shift > 28:
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
    for i in range(used, row.size):
        row[i] = 0
    return at


@compiled.function(inline=False)
def words_bytes_max(member: Member) -> int:
    """The most that the fields of a message take."""
    total = 0
    for k in range(len(member.field)):
        total += 2 + WORD_BYTES_MAX * member.field[k].shape[1]
    return total


@compiled.function(inline=False)
def message_bytes_max(member: Member) -> int:
    """The most that a message takes in a packet of its own, its payload aside."""
    return HEADER_BYTES + 1 + NAME_BYTES + 4 + words_bytes_max(member)


@compiled.function(inline=False)
def item_bytes_max(member: Member, tag: int, value: int) -> int:
    """The most that an item takes."""
    kind = member.item_class[tag]
    if kind == MESSAGE:
        payload = member.message[WORDS * value + PAYLOAD_BYTES]
        return 1 + NAME_BYTES + 4 + payload + words_bytes_max(member)
    return 1 + (NAME_BYTES if kind == REFERENCE else NUMBER_BYTES)


@compiled.function(inline=False)
def write_item(member: Member, data: Bytes, at: int, tag: int, value: int) -> int:
    """Write an item; where it ends."""
    kind = member.item_class[tag]
    at = write(data, at, tag, 1)
    if kind == NUMBER:
        return write(data, at, value, NUMBER_BYTES)
    at = write(data, at, member.host.name[2 * value + SOURCE] + ZERO, 2)
    at = write(data, at, member.host.name[2 * value + SEQUENCE] + ZERO, 4)
    if kind == REFERENCE:
        return at
    for k in range(len(member.field)):
        at = write_words(data, at, member.field[k][value])
    at = write(data, at, member.message[WORDS * value + PAYLOAD_BYTES], 4)
    return store.copy_payload(member, value, data, at)


@compiled.function(inline=False)
def read_items(member: Member, at: int, end: int) -> int:
    """Read a packet, from its number of items on, into the inbox.

    Messages get slots, or one more reference if they are here already. If anything is refused,
    or there is no room, what was taken is given back and nothing has changed.
    """
    data = member.input
    if at + 2 > end:
        return SHORT
    count = read(data, at, 2)
    at += 2
    if count == 0 or count > member.setting[ITEMS_MAX]:
        return LONG
    member.host.registers[COUNT] = 0
    for i in range(count):
        at = _read_item(member, at, end, i)
        if at < 0:
            give_back(member, i)
            return at
    member.host.registers[COUNT] = count
    return at


@compiled.function(inline=False)
def read_one(member: Member, at: int, end: int) -> int:
    """Read a single item into the inbox."""
    member.host.registers[COUNT] = 0
    at = _read_item(member, at, end, 0)
    if at >= 0:
        member.host.registers[COUNT] = 1
    return at


@compiled.function(inline=False)
def give_back(member: Member, count: int) -> None:
    """End the references of the first items in the inbox."""
    for i in range(count):
        kind = member.item_class[member.inbox[2 * i]]
        if kind != NUMBER:
            store.end_reference(member, member.inbox[2 * i + 1])
    member.host.registers[COUNT] = 0


@compiled.function(inline=False)
def _read_item(member: Member, at: int, end: int, i: int) -> int:
    data = member.input
    if at >= end:
        return SHORT
    tag = np.int64(data[at])
    at += 1
    if tag >= member.item_class.size:
        return UNKNOWN_TAG
    kind = member.item_class[tag]
    member.inbox[2 * i] = tag
    if kind == NUMBER:
        if at + NUMBER_BYTES > end:
            return SHORT
        member.inbox[2 * i + 1] = read(data, at, NUMBER_BYTES)
        return at + NUMBER_BYTES
    if at + NAME_BYTES > end:
        return SHORT
    source = read(data, at, 2)
    sequence = read(data, at + 2, 4)
    if source >= member.setting[NODES] or sequence == 0 or sequence > SEQUENCE_MAX:
        return UNKNOWN_SOURCE
    return _read_message(member, at + NAME_BYTES, end, i, names.name_of(source, sequence))


@compiled.function(inline=False)
def _read_message(member: Member, at: int, end: int, i: int, name: int) -> int:
    """The rest of a message or of a reference to one."""
    slot = names.find(member.name, name)
    fresh = slot == NONE
    if not fresh:
        member.message[WORDS * slot + REFERENCES] += 1
    else:
        if not store.has_slot(member.message, member.host.registers):
            return NO_SLOTS
        slot = store.new_message(member, name >> 32, name & 0xFFFFFFFF)
    member.inbox[2 * i + 1] = slot
    if member.item_class[member.inbox[2 * i]] == REFERENCE:
        return at
    at = _read_content(member, at, end, slot, fresh)
    if at < 0:
        store.end_reference(member, slot)
    return at


@compiled.function(inline=False)
def _read_content(member: Member, at: int, end: int, slot: int, fresh: bool) -> int:
    """Fields and payload; of a message that is here already they are passed over."""
    data = member.input
    # A row that no message has: what is here already must not change.
    row = slot if fresh else member.field[0].shape[0] - 1
    for k in range(len(member.field)):
        at = read_words(data, at, end, member.field[k][row])
        if at < 0:
            return at
    if at + 4 > end:
        return SHORT
    size_bytes = read(data, at, 4)
    at += 4
    if size_bytes > member.setting[PAYLOAD_MAX]:
        return LONG
    if at + size_bytes > end:
        return SHORT
    if fresh:
        if not store.has_blocks(member.block_link, member.host.registers, size_bytes):
            return NO_BLOCKS
        store.keep_payload(member, slot, data, at, size_bytes)
    return at + size_bytes
