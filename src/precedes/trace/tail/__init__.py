"""Logs that are read while they are written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Final

from precedes.errors import UserError
from precedes.stores import Address, Place
from precedes.trace.dialect import Dialect
from precedes.trace.members import holds_member_logs
from precedes.trace.tail.lines import SUFFIXES, LinesTail
from precedes.trace.tail.members import MemberTail
from precedes.trace.tail.rows import NO_ROWS, End, Rows, Tail, label_of, message_of

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

FORMATS: Final = ("auto", "members", "jsonl", "csv")
STOP_WITHIN_S: Final = 0.05


def open_tail(
    source: Place, format: str = "auto", *, dialect: Dialect | None = None
) -> Tail | None:
    """A log to follow; None for a directory in which there is nothing yet."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise UserError(f"cannot follow logs of format {format!r}: choose from {known}")
    address = Address.of(source)
    if not address.is_local:
        raise UserError(f"{address} cannot be followed: only files of this machine grow")
    path = address.local
    dialect = Dialect() if dialect is None else dialect
    if not path.exists():
        raise UserError(f"there is no log {path}: check the path")
    if not os.path.isdir(path):
        if format == "members":
            raise UserError(f"{path} is a file: name the directory of the members' logs")
        is_table = format == "csv" or (format == "auto" and path.suffix in SUFFIXES["csv"])
        return LinesTail(path, "csv" if is_table else "jsonl", dialect)
    if format == "members" or (format == "auto" and holds_member_logs(address)):
        return MemberTail(path)
    names = os.listdir(path)
    for one, suffixes in SUFFIXES.items():
        if format == one or (format == "auto" and any(name.endswith(suffixes) for name in names)):
            return LinesTail(path, one, dialect)
    return None


def ticks(every_s: float, is_stopped: Callable[[], bool]) -> Iterator[float]:
    """Seconds since the first call, again and again, with a pause in between, until stopped."""
    began_s = time.monotonic()
    while not is_stopped():
        yield (now_s := time.monotonic() - began_s)
        while (left_s := now_s + every_s - (time.monotonic() - began_s)) > 0 and not is_stopped():
            time.sleep(min(left_s, STOP_WITHIN_S))
