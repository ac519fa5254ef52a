"""Messages in memory: slots with counted references, their names, payloads in chained blocks.

A packet names messages by source and sequence, a protocol by slots. ``name`` is a hash table with
at least twice as many places as there are slots; a name is entered at the first free place from
its own on, and removing one moves up those after it, so that no search meets a gap.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled, contract
from precedes.compiled import ZERO
from precedes.contract import Int64s
from precedes.live.member import arrays
from precedes.live.member.arrays import BLOCK_BYTES, Bytes, Member
from precedes.parts import pool
from precedes.parts.pool import NONE

# Columns of the table of names.
NAME: Final = 0  # 0: free
SLOT: Final = 1

# From the golden ratio (Knuth): consecutive numbers are spread evenly.
MULTIPLIER: Final = 0x61C88647  # of 31 bits: a product with 32 bits fits into 64
WORD: Final = 0xFFFFFFFF


# Slots --------------------------------------------------------------------------------------


@compiled.function(inline=False)
def has_slot(member: Member) -> bool:
    """Return whether there is a free slot."""
    return pool.has_rows(member.slots, 1)


@compiled.function(inline=False)
def new_message(member: Member, source: int, sequence: int) -> int:
    """A slot for a message of this name, with one reference and no payload; there is a free one."""
    slot = pool.take(member.slots)
    message = member.message[slot]
    message[arrays.REFERENCES] = 1
    message[arrays.FIRST_BLOCK] = NONE
    message[arrays.PAYLOAD_BYTES] = 0
    message[arrays.WAITING] = 0
    message[arrays.SINCE_NS] = member.host.now_ns()
    member.host.name[2 * slot + contract.SOURCE] = source
    member.host.name[2 * slot + contract.SEQUENCE] = sequence
    enter(member.name, name_of(source, sequence), slot)
    return slot


@compiled.function(inline=False)
def end_reference(member: Member, slot: int) -> None:
    """End one reference; the last one frees the slot.

    The payload is freed with the reference before, if the last one only keeps the fields.
    """
    message = member.message[slot]
    message[arrays.REFERENCES] -= 1
    if message[arrays.REFERENCES] > 1:
        return
    source, sequence = member.host.source_of(slot) + ZERO, member.host.sequence_of(slot) + ZERO
    if message[arrays.REFERENCES] == 0:
        _free_payload(member, slot)
        remove(member.name, name_of(source, sequence))
        pool.give_back(member.slots, slot)
    elif member.kept[source, sequence % member.kept.shape[1]] == slot:
        _free_payload(member, slot)


@compiled.function(inline=False)
def _free_payload(member: Member, slot: int) -> None:
    message = member.message[slot]
    block = message[arrays.FIRST_BLOCK]
    while block != NONE:
        following = member.blocks.link[block]
        pool.give_back(member.blocks, block)
        block = following
    message[arrays.FIRST_BLOCK] = NONE
    message[arrays.PAYLOAD_BYTES] = 0


@compiled.function(inline=False)
def keep_until_stable(member: Member, source: int, sequence: int, slot: int) -> None:
    """Keep the fields of a message, for ``happened_before``: one more reference."""
    place = sequence % member.kept.shape[1]
    if member.kept[source, place] != NONE:
        # At least a window older: stable, although this step has not forgotten it yet.
        end_reference(member, member.kept[source, place] + ZERO)
        member.known[source, arrays.FORGOTTEN] = sequence - member.kept.shape[1]
    member.kept[source, place] = slot
    member.message[slot, arrays.REFERENCES] += 1


@compiled.function(inline=False)
def forget_stable(member: Member, source: int) -> None:
    """Release the fields of messages of a source that all have consumed."""
    known = member.known[source]
    while known[arrays.FORGOTTEN] < known[arrays.STABLE]:
        known[arrays.FORGOTTEN] += 1
        place = known[arrays.FORGOTTEN] % member.kept.shape[1]
        if member.kept[source, place] != NONE:
            end_reference(member, member.kept[source, place] + ZERO)
            member.kept[source, place] = NONE


# Payloads -----------------------------------------------------------------------------------


@compiled.function(inline=False)
def has_blocks(member: Member, size_bytes: int) -> bool:
    """Return whether there is room for a payload of this size."""
    return pool.has_rows(member.blocks, (size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES)


@compiled.function(inline=False)
def keep_payload(member: Member, slot: int, source: Bytes, first: int, size_bytes: int) -> None:
    """Store the payload of a new message; the caller has checked ``has_blocks``."""
    registers = member.host.registers
    registers[arrays.LARGEST_BYTES] = max(registers[arrays.LARGEST_BYTES], size_bytes)
    member.message[slot, arrays.PAYLOAD_BYTES] = size_bytes
    last = NONE
    done = 0
    while done < size_bytes:
        block = pool.take(member.blocks)
        member.blocks.link[block] = NONE
        if last == NONE:
            member.message[slot, arrays.FIRST_BLOCK] = block
        else:
            member.blocks.link[last] = block
        count = min(size_bytes - done, BLOCK_BYTES)
        compiled.copy_bytes(source, first + done, member.block, BLOCK_BYTES * block, count)
        done += count
        last = block


@compiled.function(inline=False)
def copy_payload(member: Member, slot: int, target: Bytes, at: int) -> int:
    """Write a payload to where there is room for it; return where it ends."""
    left = member.message[slot, arrays.PAYLOAD_BYTES]
    block = member.message[slot, arrays.FIRST_BLOCK]
    while left > 0:
        count = min(left, BLOCK_BYTES)
        compiled.copy_bytes(member.block, BLOCK_BYTES * block, target, at, count)
        at += count
        left -= count
        block = member.blocks.link[block]
    return at


# Names --------------------------------------------------------------------------------------


def allocate_names(slots: int) -> Int64s:
    """A table for the names of that many messages."""
    places = 4
    while places < 2 * slots:
        places *= 2
    return np.zeros((places, 2), np.int64)


def larger_names(table: Int64s, slots: int) -> Int64s:
    """The same names in a table for more slots."""
    new = allocate_names(slots)
    for name, slot in table[table[:, NAME] != 0].tolist():
        enter(new, name, slot)
    return new


@compiled.function()
def name_of(source: int, sequence: int) -> int:
    """A message's name as one number above 0: sequences begin with 1."""
    return int(np.int64(source) << 32 | np.int64(sequence))


@compiled.function()
def _place(table: Int64s, name: int) -> int:
    mixed = ((name >> 32) * 0x85EBCA6B + name) & WORD
    return ((mixed * MULTIPLIER) & WORD) >> 7 & (table.shape[0] - 1)


@compiled.function(inline=False)
def find(table: Int64s, name: int) -> int:
    """The slot of a message, or NONE."""
    at = _place(table, name)
    while table[at, NAME] != 0:
        if table[at, NAME] == name:
            return table[at, SLOT]
        at = (at + 1) & (table.shape[0] - 1)
    return NONE


@compiled.function(inline=False)
def enter(table: Int64s, name: int, slot: int) -> None:
    """Enter a name that the table does not have."""
    at = _place(table, name)
    while table[at, NAME] != 0:
        at = (at + 1) & (table.shape[0] - 1)
    table[at, NAME] = name
    table[at, SLOT] = slot


@compiled.function(inline=False)
def remove(table: Int64s, name: int) -> None:
    """Remove a name that the table has."""
    mask = table.shape[0] - 1
    at = _place(table, name)
    while table[at, NAME] != name:
        at = (at + 1) & mask
    after = (at + 1) & mask
    while table[after, NAME] != 0:
        home = _place(table, table[after, NAME])
        # It may fill the gap if its own place is not between the gap and its current one.
        if (after - home) & mask >= (after - at) & mask:
            table[at, NAME] = table[after, NAME]
            table[at, SLOT] = table[after, SLOT]
            at = after
        after = (after + 1) & mask
    table[at, NAME] = 0
