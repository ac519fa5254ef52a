"""What a step returns, and what ``node`` then has to do."""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.contract import DONE, FULL

FINISHED: Final = 0
GROW_SLOTS: Final = 1
GROW_BLOCKS: Final = 2
GROW_STATE: Final = 3
FLUSH: Final = 4  # some output is full: take it and call again
OVERFLOW: Final = 5  # a handler asked for more effects than it declared
NEITHER: Final = 6  # a handler returned neither DONE nor FULL

# A reader of records returns a position or a reason; a status as well, this far below both.
REFUSED: Final = -1000


@compiled.function(inline=False)
def after_handler(status: int) -> int:
    """What to do when a handler has returned."""
    if status == DONE:
        return FINISHED
    return GROW_STATE if status == FULL else NEITHER
