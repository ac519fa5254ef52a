"""A keyed hash of sets of messages, additive: adding or removing a message is one operation.

The hash of a set is the sum, modulo 2^62, of the hashes of its messages; that of one message is
its name (source, sequence), enciphered under a key of the group. Sums of hashes that anyone can
compute are easily forged, those of a cipher only by who knows the key. The cipher is Speck with
blocks of 64 bits and a key of 128 (Beaulieu and others, 2013): additions, rotations and exclusive
ors of 32 bits, which compiled code and plain Python do alike. 62 bits let two sums be added
without an overflow.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Host, Int64s, sequence_of, source_of

ROUNDS: Final = 27
WORD: Final = 0xFFFFFFFF
MASK: Final = (1 << 62) - 1

# A message's name as one number.
SOURCE_SHIFT: Final = 32
SEQUENCE_MASK: Final = (1 << SOURCE_SHIFT) - 1

# Columns of ``cache``.
NAME: Final = 0  # of the message that the hash belongs to, packed
HASH: Final = 1


class Hasher(NamedTuple):
    """The rounds' keys, and the hash of the message in each slot once it has been asked for."""

    key: Int64s
    cache: Int64s


def allocate(*, seed: int, slots: int) -> Hasher:
    """A hasher whose key all nodes that know the group's seed have in common."""
    words = np.random.SeedSequence([seed, ROUNDS]).generate_state(4, np.uint32)
    return Hasher(
        key=round_keys([int(word) for word in words]), cache=np.zeros((slots, 2), np.int64)
    )


def round_keys(key: list[int]) -> Int64s:
    """The keys of the rounds, from four words, the least significant first."""
    found = np.zeros(ROUNDS, np.int64)
    found[0] = key[0]
    more = list(key[1:])
    for i in range(ROUNDS - 1):
        rotated = (more[i] >> 8 | more[i] << 24) & WORD
        word = ((int(found[i]) + rotated) & WORD) ^ i
        more.append(word)
        found[i + 1] = (int(found[i]) << 3 & WORD | int(found[i]) >> 29) ^ word
    return found


@compiled.function(inline=False)
def encipher(key: Int64s, high: int, low: int) -> int:
    """The lower 62 bits of the cipher of two words of 32 bits."""
    x = high & WORD
    y = low & WORD
    for i in range(ROUNDS):
        x = ((((x >> 8) | (x << 24)) + y) & WORD) ^ key[i]
        y = (((y << 3) | (y >> 29)) & WORD) ^ x
    return ((x & (WORD >> 2)) << 32) | y


@compiled.function()
def packed(source: int, sequence: int) -> int:
    """A message's name as one number; 48 bits are enough for both."""
    return int(np.int64(source) << SOURCE_SHIFT | np.int64(sequence))


@compiled.function()
def source_in(name: int) -> int:
    """The source in a packed name."""
    return name >> SOURCE_SHIFT


@compiled.function()
def sequence_in(name: int) -> int:
    """The sequence number in a packed name."""
    return name & SEQUENCE_MASK


@compiled.function()
def hash_of(hasher: Hasher, slot: int, host: Host) -> int:
    """The hash of the message in a slot; a message that has the slot after it has another name."""
    name = packed(source_of(host, slot), sequence_of(host, slot))
    if hasher.cache[slot, NAME] != name:
        hasher.cache[slot, NAME] = name
        hasher.cache[slot, HASH] = encipher(hasher.key, name >> 32, name)
    return hasher.cache[slot, HASH]


@compiled.function()
def plus(one: int, other: int) -> int:
    """The hash of the union of two sets without a common member."""
    return (one + other) & MASK


@compiled.function()
def minus(one: int, other: int) -> int:
    """The hash of a set without some of its members."""
    return (one - other) & MASK
