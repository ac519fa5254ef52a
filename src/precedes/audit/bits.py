"""Sets of places as words of 64 bits, for compiled and for interpreted code."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

WORD: Final = 6  # a word holds 2 ** WORD places
INSIDE: Final = 63
NONE: Final = np.uint64(0)
ONE: Final = np.uint64(1)
BYTE: Final = np.uint64(8)
LOW_BYTE: Final = np.uint64(255)


def words_for(places: int) -> int:
    """How many words hold so many places."""
    return (places >> WORD) + 1


@compiled.function()
def bit(place: int) -> np.uint64:
    """The bit of a place in its word."""
    return ONE << np.uint64(place & INSIDE)


@compiled.function()
def has_bit(words: NDArray[np.uint64], at: int) -> bool:
    """Whether a place is in the set."""
    return bool(words[at >> WORD] & bit(at) != NONE)


@compiled.function()
def lowest(word: np.uint64) -> int:
    """The position of the lowest bit of a word that has one."""
    at = 0
    while word & LOW_BYTE == NONE:
        word = word >> BYTE
        at += 8
    while word & ONE == NONE:
        word = word >> ONE
        at += 1
    return at
