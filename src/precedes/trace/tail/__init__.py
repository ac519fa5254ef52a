"""Logs that are read while they are written."""

from precedes.trace.tail.end import End
from precedes.trace.tail.open import FORMATS, Tail, open_tail, ticks
from precedes.trace.tail.rows import NO_ROWS, Rows, label_of, message_of

__all__ = [
    "FORMATS",
    "NO_ROWS",
    "End",
    "Rows",
    "Tail",
    "label_of",
    "message_of",
    "open_tail",
    "ticks",
]
