"""Columns of names, as tables and JSON lines hold them, become rows of numbers.

What is wrong with a cell is raised as a ``BadCell``: only the reader of a format knows what people
call its row.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.trace.arrow_arrays import to_numpy
from precedes.trace.assemble import CRASH, JOIN, JUDGED, KINDS, LEAVE, NO_MESSAGE
from precedes.trace.history import BROADCAST

EMPTY: Final = "is empty"
UNKNOWN_KIND: Final = "is of no known kind"
BROADCAST_AGAIN: Final = "is broadcast again"


class BadCell(Exception):
    """A cell that no history can be made of: its column, its row from 0, its value and why."""

    def __init__(self, column: str, row: int, value: object, why: str) -> None:
        super().__init__(f"{column} of row {row} {why}: {value!r}")
        self.column = column
        self.row = row
        self.value = value
        self.why = why


class NamedRows(NamedTuple):
    """The rows that the audit judges, in the order of the table."""

    row: NDArray[np.int64]  # where it stands in the table
    names: list[str]  # of nodes
    node: NDArray[np.int32]  # position in ``names``
    kind: NDArray[np.int8]
    labels: list[str]  # of messages
    message: NDArray[np.int32]  # position in ``labels``, or NO_MESSAGE


def rows_of(*, node: pa.Array, kind: pa.Array, message: pa.Array) -> NamedRows:
    """The judged rows of these columns; names are strings or integers.

    A crash and a leave have no message, and a join need not have one.
    """
    kinds = _kinds(kind)
    row = np.flatnonzero(kinds >= 0)
    kinds = kinds[row]
    nodes, node_codes = _factorise(node)
    node_codes = node_codes[row]
    empty = _empty(nodes, node_codes)
    if empty.any():
        raise BadCell("node", int(row[np.argmax(empty)]), None, EMPTY)
    messages, message_codes = _factorise(message)
    message_codes = message_codes[row]
    bare = (kinds == CRASH) | (kinds == LEAVE)
    empty = _empty(messages, message_codes) & ~bare
    owed = empty & (kinds != JOIN)
    if owed.any():
        raise BadCell("message", int(row[np.argmax(owed)]), None, EMPTY)
    _check_broadcasts(row, kinds, messages, message_codes)
    names, node_codes = _used(nodes, node_codes)
    named = ~(bare | empty)
    codes = np.full(row.size, NO_MESSAGE, np.int32)
    labels, codes[named] = _used(messages, message_codes[named])
    return NamedRows(row, names, node_codes, kinds, labels, codes)


def _kinds(column: pa.Array) -> NDArray[np.int8]:
    """Kinds as numbers, -1 for those that the audit ignores."""
    found, codes = _factorise(column)
    unknown = [number for number, name in enumerate(found) if name not in KINDS]
    if unknown:
        row = int(np.flatnonzero(np.isin(codes, unknown))[0])
        name = found[codes[row]]
        raise BadCell("kind", row, name, EMPTY if name is None else UNKNOWN_KIND)
    return np.array([JUDGED.get(name, -1) for name in found] or [-1], np.int8)[codes]


def _factorise(column: pa.Array) -> tuple[list[Any], NDArray[np.int32]]:
    """The distinct values, None among them, and for each row the position of its own."""
    coded = column.dictionary_encode(null_encoding="encode")
    return coded.dictionary.to_pylist(), to_numpy(coded.indices)


def _empty(values: list[Any], codes: NDArray[np.int32]) -> NDArray[np.bool_]:
    return codes == (values.index(None) if None in values else -1)


def _used(values: list[Any], codes: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
    """The values that occur, as names, and the codes for them."""
    used = np.bincount(codes, minlength=len(values)) > 0
    position = (np.cumsum(used) - 1).astype(np.int32)
    return [str(values[code]) for code in np.flatnonzero(used)], position[codes]


def _check_broadcasts(
    row: NDArray[np.int64], kind: NDArray[np.int8], values: list[Any], codes: NDArray[np.int32]
) -> None:
    at = np.flatnonzero(kind == BROADCAST)
    _, first = np.unique(codes[at], return_index=True)
    if first.size < at.size:
        again = at[np.setdiff1d(np.arange(at.size), first)[0]]
        raise BadCell("message", int(row[again]), values[codes[again]], BROADCAST_AGAIN)
