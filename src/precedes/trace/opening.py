"""Opens a log of any format as runs to read piece by piece.

A trace in order stays on disk and is read by row groups, and so do the logs of a live group's
members; any other log is read into memory first, or, if it is large, sorted on disk.
"""

from __future__ import annotations

import os
from typing import TypeGuard

from precedes.stores import Address, Place
from precedes.trace.detect import is_members, load
from precedes.trace.dialect import Dialect
from precedes.trace.members import MemberRows
from precedes.trace.reader import MAGIC, opened_parquet, read_metadata
from precedes.trace.row_groups import trace_rows
from precedes.trace.rows import HistoryRows, NoOrder, Rows
from precedes.trace.schema import METADATA_KEY
from precedes.trace.sorting import LARGE_ROWS, row_count, sort_log
from precedes.trace.source import STANDARD_INPUT, Log, open_log


def open_rows(log: Log, format: str = "auto", *, dialect: Dialect | None = None) -> list[Rows]:
    """The runs of a log, as ``load`` finds them; ``dialect.complete`` holds for traces too."""
    found: list[Rows] = []
    if isinstance(log, str | os.PathLike) and is_members(log, format):
        found.append(MemberRows(log))
    elif format in ("auto", "precedes") and isinstance(log, str | os.PathLike) and is_trace(log):
        try:
            found += trace_rows(str(Address.of(log)))
        except NoOrder:
            found.clear()
    if not found and _is_large(log, format):
        found += sort_log(log, format, dialect=dialect)
        if format in ("auto", "precedes") and is_trace(log):
            for rows in found:
                rows.complete = read_metadata(log)["complete"]
    if not found:
        found += [HistoryRows(history) for history in load(log, format, dialect=dialect)]
    if dialect is not None and dialect.complete:
        for rows in found:
            rows.complete = True
    return found


def _is_large(log: Log, format: str) -> TypeGuard[Place]:
    if not isinstance(log, str | os.PathLike):
        return False
    return row_count(Address.of(log), format) >= LARGE_ROWS


def is_trace(log: str | os.PathLike[str]) -> bool:
    """Whether a log is a trace; what can be read only once is not looked at."""
    if str(log) == str(STANDARD_INPUT) or not Address.of(log).is_file():
        return False
    with open_log(log) as source:
        if not source.opening.startswith(MAGIC):
            return False
        with opened_parquet(source) as file:
            return METADATA_KEY in (file.schema_arrow.metadata or {})
