"""Finding the slot of a message by its name: a hash table in an array.

A packet names messages by source and sequence, a protocol by slots. The table has at least twice
as many places as there are slots; a name is entered at the first free place from its own on, and
taking one out moves those behind it up, so that no search meets a gap.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from precedes import compiled
from precedes.contract import Int64s

NONE: Final = -1
NAME: Final = 0  # 0: free
SLOT: Final = 1

# From the golden ratio (Knuth): consecutive numbers are spread evenly.
MULTIPLIER: Final = 0x61C88647  # of 31 bits: a product with 32 bits fits into 64
WORD: Final = 0xFFFFFFFF


def allocate(slots: int) -> Int64s:
    """A table for the names of that many messages."""
    places = 4
    while places < 2 * slots:
        places *= 2
    return np.zeros((places, 2), np.int64)


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
def take_out(table: Int64s, name: int) -> None:
    """Take a name out that the table has."""
    mask = table.shape[0] - 1
    at = _place(table, name)
    while table[at, NAME] != name:
        at = (at + 1) & mask
    after = (at + 1) & mask
    while table[after, NAME] != 0:
        home = _place(table, table[after, NAME])
        # It may fill the gap if its own place is not between the gap and where it stands.
        if (after - home) & mask >= (after - at) & mask:
            table[at, NAME] = table[after, NAME]
            table[at, SLOT] = table[after, SLOT]
            at = after
        after = (after + 1) & mask
    table[at, NAME] = 0


def larger(table: Int64s, slots: int) -> Int64s:
    """The same names in a table for more slots."""
    new = allocate(slots)
    for name, slot in table[table[:, NAME] != 0].tolist():
        enter(new, name, slot)
    return new
