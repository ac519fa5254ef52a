"""Rows that a protocol takes and gives back: one pool for all hosted processes, with a free list.

What a row means is its owner's business. A row is named by where its words begin.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.contract import Int32s

NONE: Final = -1

# Places in ``mark``.
FREE: Final = 0  # head of the list of free rows, linked by their first words
HIGH: Final = 1  # words ever used
COUNT: Final = 2  # rows in use
WORDS: Final = 3  # of a row


class Pool(NamedTuple):
    """The rows, and what is known of them."""

    row: NDArray[Any]  # integers of 32 or 64 bits
    mark: Int32s


def allocate_pool(*, rows: int, words: int, dtype: type[np.signedinteger[Any]] = np.int32) -> Pool:
    """Room for that many rows; a larger pool may take over the contents of a smaller one."""
    return Pool(row=np.zeros(words * rows, dtype), mark=np.array([NONE, 0, 0, words], np.int32))


@compiled.function()
def has_rows(pool: Pool, count: int) -> bool:
    """Whether that many more rows can be taken."""
    return pool.mark[WORDS] * (pool.mark[COUNT] + count) <= pool.row.size


@compiled.function()
def take_row(pool: Pool) -> int:
    """A row, with whatever its last owner left in it; the caller has asked ``has_rows``."""
    row = int(pool.mark[FREE])
    if row != NONE:
        pool.mark[FREE] = pool.row[row]
    else:
        row = int(pool.mark[HIGH])
        pool.mark[HIGH] = row + pool.mark[WORDS]
    pool.mark[COUNT] += 1
    return row


@compiled.function()
def free_row(pool: Pool, row: int) -> None:
    """The row is free."""
    pool.row[row] = pool.mark[FREE]
    pool.mark[FREE] = row
    pool.mark[COUNT] -= 1
