"""Messages in memory: slots with counted references, payloads in chained blocks."""

from __future__ import annotations

from precedes import compiled
from precedes.contract import NOW_NS, SEQUENCE, SOURCE, Int32s, Int64s
from precedes.live.member import names
from precedes.live.member.arrays import (
    BLOCK_BYTES,
    BLOCK_FREE,
    BLOCK_HIGH,
    BLOCKS_USED,
    FIRST_BLOCK,
    LARGEST_BYTES,
    LINK,
    NAMES_USED,
    NONE,
    PAYLOAD_BYTES,
    REFERENCES,
    SINCE_NS,
    SLOT_FREE,
    SLOT_HIGH,
    WAITING,
    WORDS,
    Bytes,
    Member,
)


@compiled.function(inline=False)
def blocks_for(size_bytes: int) -> int:
    """How many blocks a payload takes."""
    return (size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES


@compiled.function(inline=False)
def has_blocks(link: Int32s, registers: Int64s, size_bytes: int) -> bool:
    """Whether there is room for a payload of this size."""
    return registers[BLOCKS_USED] + blocks_for(size_bytes) <= link.size


@compiled.function(inline=False)
def has_slot(message: Int64s, registers: Int64s) -> bool:
    """Whether there is a free slot."""
    return registers[SLOT_FREE] != NONE or WORDS * registers[SLOT_HIGH] < message.size


@compiled.function(inline=False)
def new_message(member: Member, source: int, sequence: int) -> int:
    """A slot for a message of this name, with one reference and no payload; there is a free one."""
    registers = member.host.registers
    message = member.message
    slot = registers[SLOT_FREE]
    if slot != NONE:
        registers[SLOT_FREE] = message[WORDS * slot + LINK]
    else:
        slot = registers[SLOT_HIGH]
        registers[SLOT_HIGH] = slot + 1
    at = WORDS * slot
    message[at + REFERENCES] = 1
    message[at + FIRST_BLOCK] = NONE
    message[at + PAYLOAD_BYTES] = 0
    message[at + WAITING] = 0
    message[at + SINCE_NS] = registers[NOW_NS]
    member.host.name[2 * slot + SOURCE] = source
    member.host.name[2 * slot + SEQUENCE] = sequence
    names.enter(member.name, names.name_of(source, sequence), slot)
    registers[NAMES_USED] += 1
    return slot


@compiled.function(inline=False)
def end_reference(member: Member, slot: int) -> None:
    """One reference less; the last one frees the slot and its payload."""
    registers = member.host.registers
    message = member.message
    at = WORDS * slot
    message[at + REFERENCES] -= 1
    if message[at + REFERENCES] > 0:
        return
    block = message[at + FIRST_BLOCK]
    while block != NONE:
        following = member.block_link[block]
        member.block_link[block] = registers[BLOCK_FREE]
        registers[BLOCK_FREE] = block
        registers[BLOCKS_USED] -= 1
        block = following
    name = names.name_of(member.host.name[2 * slot + SOURCE], member.host.name[2 * slot + SEQUENCE])
    names.take_out(member.name, name)
    registers[NAMES_USED] -= 1
    message[at + LINK] = registers[SLOT_FREE]
    registers[SLOT_FREE] = slot


@compiled.function(inline=False)
def keep_payload(member: Member, slot: int, source: Bytes, first: int, size_bytes: int) -> None:
    """Store the payload of a new message; the caller has asked ``has_blocks``."""
    registers = member.host.registers
    registers[LARGEST_BYTES] = max(registers[LARGEST_BYTES], size_bytes)
    member.message[WORDS * slot + PAYLOAD_BYTES] = size_bytes
    last = NONE
    done = 0
    while done < size_bytes:
        block = registers[BLOCK_FREE]
        if block != NONE:
            registers[BLOCK_FREE] = member.block_link[block]
        else:
            block = registers[BLOCK_HIGH]
            registers[BLOCK_HIGH] = block + 1
        registers[BLOCKS_USED] += 1
        member.block_link[block] = NONE
        if last == NONE:
            member.message[WORDS * slot + FIRST_BLOCK] = block
        else:
            member.block_link[last] = block
        count = min(size_bytes - done, BLOCK_BYTES)
        compiled.copy_bytes(source, first + done, member.block, BLOCK_BYTES * block, count)
        done += count
        last = block


@compiled.function(inline=False)
def copy_payload(member: Member, slot: int, target: Bytes, at: int) -> int:
    """Write a payload to where there is room for it; where it ends."""
    left = member.message[WORDS * slot + PAYLOAD_BYTES]
    block = member.message[WORDS * slot + FIRST_BLOCK]
    while left > 0:
        count = min(left, BLOCK_BYTES)
        compiled.copy_bytes(member.block, BLOCK_BYTES * block, target, at, count)
        at += count
        left -= count
        block = member.block_link[block]
    return at
