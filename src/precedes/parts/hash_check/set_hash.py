"""A keyed hash of sets of messages, additive: adding or removing a message is one operation.

The hash of a set is the sum, modulo 2^62, of the hashes of its messages; that of one message is
its name (source, sequence), enciphered under a key of the group. Sums of hashes that anyone can
compute are easily forged, those of a cipher only with the key. The cipher is Speck with
blocks of 64 bits and a key of 128 (Beaulieu and others, 2013): additions, rotations and exclusive
ors of 32 bits, which give the same result in compiled code and plain Python. 62 bits let two
sums be added without an overflow.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.contract import Host, Int64s
from precedes.parts import pool

ROUNDS: Final = 27
BITS: Final = 62
WORD: Final = 0xFFFFFFFF
MASK: Final = (1 << BITS) - 1

# A message's name as one number.
SOURCE_SHIFT: Final = 32
SEQUENCE_MASK: Final = (1 << SOURCE_SHIFT) - 1

# Sums of a source's messages that are kept: all of the last FINE, of 131,072 every STRIDE-th.
FINE: Final = 1024
COARSE: Final = 2048
STRIDE: Final = 64


class Cache(NamedTuple):
    """Hashes of messages, by slot."""

    name: Int64s  # of the message that the hash belongs to, packed
    hash: Int64s


class Hasher(NamedTuple):
    """The key of the cipher, and the hash of the message in each slot after its first use."""

    key: Int64s
    cache: Cache


def allocate(*, seed: int, slots: int, bits: int = BITS) -> Hasher:
    """A hasher whose key all nodes with the same group seed share.

    Of a hash only the first ``bits`` are kept, so that sums collide as those of such a width do.
    """
    words = np.random.SeedSequence([seed, ROUNDS]).generate_state(4, np.uint32)
    return Hasher(
        key=round_keys([int(word) for word in words], bits=bits),
        cache=pool.columns(Cache, slots, dtype=np.int64),
    )


def round_keys(key: list[int], *, bits: int = BITS) -> Int64s:
    """The keys of the rounds, from four words, least significant first, and the mask of bits."""
    keys = np.zeros(ROUNDS + 1, np.int64)
    keys[0], keys[ROUNDS] = key[0], MASK ^ (MASK >> bits)
    more = list(key[1:])
    for i in range(ROUNDS - 1):
        rotated = (more[i] >> 8 | more[i] << 24) & WORD
        word = ((int(keys[i]) + rotated) & WORD) ^ i
        more.append(word)
        keys[i + 1] = (int(keys[i]) << 3 & WORD | int(keys[i]) >> 29) ^ word
    return keys


@compiled.function(inline=False)
def encipher(key: Int64s, high: int, low: int) -> int:
    """The lower 62 bits of the cipher of two words of 32 bits, masked."""
    x = high & WORD
    y = low & WORD
    for i in range(ROUNDS):
        x = ((((x >> 8) | (x << 24)) + y) & WORD) ^ key[i]
        y = (((y << 3) | (y >> 29)) & WORD) ^ x
    return (((x & (WORD >> 2)) << 32) | y) & key[ROUNDS]


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
    """The hash of the message in a slot; a slot that is reused has another name."""
    name = packed(host.source_of(slot), host.sequence_of(slot))
    if hasher.cache.name[slot] != name:
        hasher.cache.name[slot] = name
        hasher.cache.hash[slot] = encipher(hasher.key, name >> 32, name)
    return hasher.cache.hash[slot]


class Sums(NamedTuple):
    """The hash of the first messages of each source, for recent numbers of them."""

    fine: Int64s  # source, number modulo FINE -> hash
    coarse: Int64s  # source, number / STRIDE modulo COARSE -> hash
    last: Int64s  # source -> the largest number
    key: Int64s


def allocate_sums(*, sources: int, key: Int64s) -> Sums:
    """Sums over no messages."""
    return Sums(
        fine=np.zeros((sources, FINE), np.int64),
        coarse=np.zeros((sources, COARSE), np.int64),
        last=np.zeros(sources, np.int64),
        key=key,
    )


@compiled.function()
def extend(sums: Sums, source: int, sequence: int, hashed: int) -> None:
    """Count the next message of a source; hosted processes count each only once."""
    last = sums.last[source]
    if sequence == last + 1:
        total = plus(sums.fine[source, last & (FINE - 1)], hashed)
        sums.fine[source, sequence & (FINE - 1)] = total
        if sequence % STRIDE == 0:
            sums.coarse[source, (sequence // STRIDE) & (COARSE - 1)] = total
        sums.last[source] = sequence


@compiled.function()
def is_summed(sums: Sums, source: int, number: int) -> bool:
    """Return whether the hash of the first ``number`` messages of a source is still kept."""
    return 0 <= number <= sums.last[source] < number + STRIDE * (COARSE - 1)


@compiled.function()
def sum_of(sums: Sums, source: int, number: int) -> int:
    """The hash of the first ``number`` messages of a source."""
    if sums.last[source] - number < FINE:
        return sums.fine[source, number & (FINE - 1)]
    return _sum_from_coarse(sums, source, number)


@compiled.function(inline=False)
def _sum_from_coarse(sums: Sums, source: int, number: int) -> int:
    """``sum_of`` for a number that is no longer among the last ones."""
    at = number // STRIDE
    total = sums.coarse[source, at & (COARSE - 1)]
    for sequence in range(at * STRIDE + 1, number + 1):
        total = plus(total, encipher(sums.key, source, sequence))
    return total


@compiled.function()
def plus(one: int, other: int) -> int:
    """The hash of the union of two sets without a common member."""
    return (one + other) & MASK


@compiled.function()
def minus(one: int, other: int) -> int:
    """The hash of a set without some of its members."""
    return (one - other) & MASK
