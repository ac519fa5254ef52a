"""Which messages a process has delivered: a count for each source, and what came beyond a gap.

Source: Rodrigues et al. 2018, Algorithm 2, rcv_base and rcv_win (lines 12-13 and 18-31). The count
starts at 0, before the first message, so that a first message out of order is no special case: the
printed lines leave the window unread until the first message has come, and deliver it twice.
"""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import Int32s
from precedes.parts.pool import NONE, Pool, free_row, take_row

# Words of a source in ``source[here, process]``.
BASE: Final = 0  # how many of its messages have been delivered without a gap
EARLY: Final = 1  # rows of those delivered beyond the gap
WORDS: Final = 2

# Words of an early message in the pool.
LINK: Final = 0
SEQUENCE: Final = 1


@compiled.function(inline=False)
def is_new(source: Int32s, pool: Pool, sequence: int) -> bool:
    """Whether the source's message has not been delivered; from now on it has.

    The caller has room for one row in the pool.
    """
    word = pool.row
    if sequence <= source[BASE]:
        return False
    row = source[EARLY]
    while row != NONE:
        if word[row + SEQUENCE] == sequence:
            return False
        row = word[row + LINK]
    if sequence > source[BASE] + 1:
        row = take_row(pool)
        word[row + LINK] = source[EARLY]
        word[row + SEQUENCE] = sequence
        source[EARLY] = row
        return True
    source[BASE] = sequence
    while source[EARLY] != NONE and _close_gap(source, pool):
        source[BASE] += 1
    return True


@compiled.function()
def _close_gap(source: Int32s, pool: Pool) -> bool:
    """Whether the message after those without a gap was early; its row is given back."""
    word = pool.row
    row, before = int(source[EARLY]), NONE
    while row != NONE and word[row + SEQUENCE] != source[BASE] + 1:
        before, row = row, int(word[row + LINK])
    if row == NONE:
        return False
    if before == NONE:
        source[EARLY] = word[row + LINK]
    else:
        word[before + LINK] = word[row + LINK]
    free_row(pool, row)
    return True


@compiled.function(inline=False)
def forget(source: Int32s, pool: Pool) -> None:
    """Give the rows of a source back that will not be asked for again."""
    while source[EARLY] != NONE:
        row = int(source[EARLY])
        source[EARLY] = pool.row[row + LINK]
        free_row(pool, row)
