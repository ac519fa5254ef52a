"""Finds names in a table of any size that lies on disk: by a hash, which is then compared.

The hash is 64 bits wide and does not depend on the process. Of two names that share one the table
is made anew with another salt, so that whatever is found is certain.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.trace.arrays import split_texts
from precedes.trace.arrow_arrays import flags, to_arrow

WORD_BYTES: Final = 8
PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
SALTS: Final = 64  # names that meet under so many were made for it, or the sort below is broken
MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(WORD_BYTES + 1)], np.uint64)


class LabelIndex(NamedTuple):
    """Names, told apart by a group, with where to find each."""

    group: NDArray[np.int32]
    label: pa.Array
    digest: NDArray[np.uint64]  # sorted
    place: NDArray[np.int64]  # of the name with this digest
    salt: int


class Twice(Exception):
    """A name that is in a table twice: the places of both."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first
        self.second = second


def index_labels(group: NDArray[np.int32], label: pa.Array) -> LabelIndex:
    """An index of these names; raises ``Twice`` for the first that repeats an earlier one."""
    for salt in range(SALTS):
        digest = digests(group, label, salt=salt)
        place = np.argsort(digest, kind="stable")
        digest = digest[place]
        meet = np.flatnonzero(digest[1:] == digest[:-1])
        if meet.size == 0:
            return LabelIndex(group, label, digest, place, salt)
        first, second = place[meet], place[meet + 1]
        same = _equal(group, label, first, group, label, second)
        if same.any():
            earliest = int(np.argmin(np.where(same, second, np.iinfo(np.int64).max)))
            raise Twice(int(first[earliest]), int(second[earliest]))
    raise AssertionError(f"different names have equal digests under {SALTS} salts")


def find(index: LabelIndex, group: NDArray[np.int32], label: pa.Array) -> NDArray[np.int64]:
    """Where each of these names is in the table, or -1."""
    if index.digest.size == 0:
        return np.full(group.size, -1, np.int64)
    wanted = digests(group, label, salt=index.salt)
    at = np.minimum(np.searchsorted(index.digest, wanted), index.digest.size - 1)
    place = index.place[at]
    found = np.flatnonzero(index.digest[at] == wanted)
    sure = _equal(index.group, index.label, place[found], group, label, found)
    result = np.full(group.size, -1, np.int64)
    result[found[sure]] = place[found[sure]]
    return result


def _equal(
    group_a: NDArray[np.int32],
    label_a: pa.Array,
    a: NDArray[np.int64],
    group_b: NDArray[np.int32],
    label_b: pa.Array,
    b: NDArray[np.int64],
) -> NDArray[np.bool_]:
    same = pc.equal(label_a.take(to_arrow(a)), label_b.take(to_arrow(b)))
    whole: NDArray[np.bool_] = flags(same)
    return whole & (group_a[a] == group_b[b])


def digests(group: NDArray[np.int32], label: pa.Array, *, salt: int) -> NDArray[np.uint64]:
    """A hash of each name and its group."""
    offsets, data = split_texts(label)
    begin, length = offsets[:-1], np.diff(offsets)
    padded = np.concatenate((data, np.zeros(WORD_BYTES, np.uint8)))
    # Every eight bytes of the text, wherever they begin.
    words = np.ndarray((padded.size - WORD_BYTES + 1,), "<u8", padded, strides=(1,))
    found = _mixed((group.astype(np.uint64) << np.uint64(32)) + length.astype(np.uint64))
    found ^= _mixed(np.full(1, salt + 1, np.uint64))
    rows = np.arange(length.size)
    at = 0
    while rows.size:
        rows = rows[length[rows] > at]
        left = np.minimum(length[rows] - at, WORD_BYTES)
        found[rows] = _mixed(found[rows] ^ (words[begin[rows] + at] & MASKS[left]))
        at += WORD_BYTES
    return found


def _mixed(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    word = (word + PRIME) * PRIME
    word ^= word >> np.uint64(29)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    return word ^ (word >> np.uint64(32))
