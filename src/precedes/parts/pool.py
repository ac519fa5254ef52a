"""Rows that a protocol allocates and frees, for all hosted processes, with a free list.

A record of a protocol is a row of a named tuple of columns, ``rows.slot[row]``. The columns are
strided views of one table, so that a record is contiguous in memory. A table is reserved:
address space, which takes memory as rows are first used, so that handlers never allocate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import numpy as np

from precedes import compiled
from precedes.errors import UserError
from precedes.machine import RESERVE

NONE: Final = -1

# Places in ``mark``.
FREE: Final = 0  # first of the free rows, which are linked by ``link``
HIGH: Final = 1  # rows ever used
COUNT: Final = 2  # rows in use
MARKS: Final = 3

ROWS_MAX: Final = (1 << 31) - 2  # what a link of 32 bits can name

Columns = TypeVar("Columns", bound=tuple[Any, ...])


def columns(kind: type[Columns], *shape: int, dtype: Any = np.int32) -> Columns:
    """A named tuple of zeroed arrays of this shape, views of one table.

    A table has at least two rows: the column of a single row would be contiguous, which is
    another type to compiled code.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    table = np.zeros((max(shape[0], 2), *shape[1:], len(names)), dtype)
    return kind(*(table[..., i] for i in range(len(names))))


def reserve(kind: type[Columns], size_bytes: int, dtype: Any = np.int32) -> Columns:
    """Free rows in ``size_bytes`` of address space.

    The fields of ``kind`` are columns, ``link`` among them, followed by ``mark``. UserError if
    there is less address space; ``take`` raises MemoryError when there are no rows left.
    """
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    row_bytes = (len(names) - 1) * np.dtype(dtype).itemsize
    rows = min(max(size_bytes // row_bytes, 2), ROWS_MAX)
    try:
        table = np.zeros((rows, len(names) - 1), dtype)
    except MemoryError:
        raise UserError(
            f"{size_bytes >> 20:,} MiB of address space cannot be reserved: set {RESERVE} to less"
        ) from None
    mark = np.array([NONE, 0, 0], np.int64)
    return kind(*(table[:, i] for i in range(len(names) - 1)), mark)  # type: ignore[call-arg]


def is_reserve(rows: Any) -> bool:
    """Return whether this is what ``reserve`` returns."""
    return {"link", "mark"} <= set(getattr(rows, "_fields", ()))


def check_end(state: Any) -> None:
    """Raise a UserError that names an exhausted reserve: for hosts after a MemoryError."""
    for name in _exhausted(state):
        raise UserError(
            f"all rows of {name!r} are in use: use fewer nodes or messages, or set "
            f"{RESERVE} to more"
        ) from None


def _exhausted(state: Any, name: str = "") -> Iterator[str]:
    """Names of the reserves of which all rows have been used."""
    if is_reserve(state):
        if state.mark[HIGH] == state.link.size:
            yield name
    elif isinstance(state, tuple):
        fields = getattr(state, "_fields", map(str, range(len(state))))
        for field, part in zip(fields, state, strict=True):
            yield from _exhausted(part, f"{name}.{field}".lstrip("."))


def used_bytes(rows: Any) -> int:
    """The memory that the rows of a reserve take so far."""
    return int(rows.mark[HIGH]) * int(rows.link.strides[0])


@compiled.function()
def has_rows(rows: Any, count: int) -> bool:
    """Return whether that many more rows can be taken: for hosts whose rows grow."""
    return rows.mark[COUNT] + count <= rows.link.size


@compiled.function()
def take(rows: Any) -> int:
    """Allocate a row, with the contents its last owner left in it; MemoryError if there is none."""
    mark = rows.mark
    row = mark[FREE]
    if row != NONE:
        mark[FREE] = rows.link[row]
    else:
        row = mark[HIGH]
        if row == rows.link.size:
            raise MemoryError
        mark[HIGH] = row + 1
    mark[COUNT] += 1
    return row


@compiled.function()
def give_back(rows: Any, row: int) -> None:
    """Free a row."""
    rows.link[row] = rows.mark[FREE]
    rows.mark[FREE] = row
    rows.mark[COUNT] -= 1
