"""Gathers the common rows of a log, whatever its format, into histories: one a run.

Columns of names become rows of numbers on the way (``rows_of``). What is wrong with a cell is
raised as a ``BadCell``: only the reader of a format knows what people call its row.

Memory holds the numbers of all rows (17 bytes each) and the names; logs beyond that are judged
from blocks on disk.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.arrow_arrays import to_arrow, to_numpy
from precedes.trace.blocks.pack import tables_of
from precedes.trace.dialect import Found
from precedes.trace.history import History, named_history
from precedes.trace.rows import BROADCAST, CRASH, JOIN, JUDGED, KINDS, LEAVE, NO_MESSAGE

NEVER: Final = -(2**63)

# Rows at a time: to tell the runs in them apart takes some time for each run.
SPLIT_ROWS: Final = 1 << 20

# Ids that are numbers to people, and are written in one way only.
RUN_NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")

EMPTY: Final = "is empty"
UNKNOWN_KIND: Final = "is of no known kind"
BROADCAST_AGAIN: Final = "is broadcast again"


def histories(
    batches: Iterable[pa.RecordBatch], found: Found, *, title: str, complete: bool = False
) -> list[History]:
    """The runs in batches of ``EVENTS``, in the order of their ids; without any, an empty one.

    Ids that are all whole numbers are numbers. Rows of a node may come in any order; two with the
    same ``local_seq`` are refused.
    """
    runs: dict[str, _Run] = {}
    for table in tables_of(iter(batches), block_rows=SPLIT_ROWS):
        for run_id, rows in _by_run(table.combine_chunks().to_batches()[0]):
            run = runs.setdefault(run_id, _Run(title, found))
            run.add(rows)
    for run_id in found.skipped:
        runs.setdefault(run_id, _Run(title, found))
    if not runs:
        runs["0"] = _Run(title, found)
    whole = all(RUN_NUMBER.fullmatch(run_id) for run_id in runs)
    ordered = sorted(runs, key=int) if whole else sorted(runs)
    return [
        runs[run_id].history(
            run_id=int(run_id) if whole else run_id,
            complete=complete,
            skipped=found.skipped[run_id],
            notes=tuple(found.notes.get(run_id, ())),
        )
        for run_id in ordered
    ]


def _by_run(batch: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
    coded = batch.column("run_id").dictionary_encode()
    names = coded.dictionary.to_pylist()
    if len(names) == 1:
        yield names[0], batch
        return
    code = to_numpy(coded.indices)
    order = np.argsort(code, kind="stable")
    by_run = batch.take(to_arrow(order))
    bounds = np.searchsorted(code[order], np.arange(len(names) + 1))
    for name, (first, last) in zip(names, itertools.pairwise(bounds.tolist()), strict=True):
        yield name, by_run.slice(first, last - first)


class _Run:
    """The rows of one run so far, as numbers."""

    def __init__(self, title: str, found: Found) -> None:
        self._title = title
        self._found = found
        self._nodes: dict[str, int] = {}
        self._messages: dict[str, int] = {}
        self._node = array("i")
        self._kind = array("b")
        self._message = array("i")
        self._local_seq = array("q")
        self._sent_at = array("q")  # message -> local_seq of its broadcast, or NEVER
        self._sent_by = array("i")

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        local_seq = to_numpy(batch.column("local_seq"))
        columns = {name: batch.column(name) for name in ("node", "kind", "message")}
        try:
            rows = rows_of(**columns)
        except BadCell as bad:
            raise self._again(batch, bad) from None
        node = np.array([_number(self._nodes, name) for name in rows.names], np.int32)
        message = [_number(self._messages, label) for label in rows.labels]
        numbers = np.array([*message, NO_MESSAGE], np.int32)
        added = len(self._messages) - len(self._sent_at)
        self._sent_at.extend([NEVER] * added)
        self._sent_by.extend([-1] * added)
        self._note_broadcasts(rows, node[rows.node], numbers[rows.message], local_seq)
        self._node.frombytes(node[rows.node].tobytes())
        self._kind.frombytes(rows.kind.tobytes())
        self._message.frombytes(numbers[rows.message].tobytes())
        self._local_seq.frombytes(local_seq[rows.row].astype(np.int64).tobytes())

    def _note_broadcasts(
        self,
        rows: NamedRows,
        node: NDArray[np.int32],
        message: NDArray[np.int32],
        local_seq: NDArray[np.int64],
    ) -> None:
        sent = np.flatnonzero(rows.kind == BROADCAST)
        if sent.size == 0:
            return
        sent_at = np.frombuffer(self._sent_at, np.int64)
        sent_by = np.frombuffer(self._sent_by, np.int32)
        twice = np.flatnonzero(sent_at[message[sent]] != NEVER)
        if twice.size:
            at = sent[twice[0]]
            number = int(message[at])
            names = list(self._nodes)
            first = self._place(names[sent_by[number]], int(sent_at[number]))
            here = self._place(names[node[at]], int(local_seq[rows.row[at]]))
            raise self._error(here, list(self._messages)[number], first)
        sent_at[message[sent]] = local_seq[rows.row[sent]]
        sent_by[message[sent]] = node[sent]

    def _again(self, batch: pa.RecordBatch, bad: BadCell) -> UserError:
        """A message that is broadcast twice in a batch; nothing else can be wrong with one."""
        rows = zip(*(batch.column(name).to_pylist() for name in _PLACED), strict=True)
        first = here = ""
        for row, (node, local_seq, kind, message) in enumerate(rows):
            if kind == "broadcast" and message == bad.value and not first:
                first = self._place(node, local_seq)
            if row == bad.row:
                here = self._place(node, local_seq)
        number = self._messages.get(str(bad.value))
        if number is not None and self._sent_at[number] != NEVER:
            earlier = list(self._nodes)[self._sent_by[number]]
            first = self._place(earlier, self._sent_at[number])
        return self._error(here, str(bad.value), first)

    def _place(self, node: str, local_seq: int) -> str:
        return self._found.place(printable(node), local_seq)

    def _error(self, place: str, label: str, first: str) -> UserError:
        return UserError(
            f"{self._title}, {place}: message {printable(label)} is broadcast again; the first "
            f"time is {first}"
        )

    def history(
        self, *, run_id: int | str, complete: bool, skipped: int, notes: tuple[str, ...]
    ) -> History:
        """All that was taken, each node's rows in its own order."""
        node = np.frombuffer(self._node, np.int32)
        kind = np.frombuffer(self._kind, np.int8)
        message = np.frombuffer(self._message, np.int32)
        order = self._order(node, np.frombuffer(self._local_seq, np.int64))
        return named_history(
            names=list(self._nodes),
            node=node[order],
            kind=kind[order],
            labels=list(self._messages),
            message=message[order],
            complete=complete,
            run_id=run_id,
            origin=self._title,
            skipped=skipped,
            notes=notes,
        )

    def _order(self, node: NDArray[np.int32], local_seq: NDArray[np.int64]) -> NDArray[np.int64]:
        """How to put the rows of a node together, and in its order."""
        order = np.argsort(node, kind="stable")
        by_node, by_seq = node[order], local_seq[order]
        same = by_node[1:] == by_node[:-1]
        if not np.any(same & (by_seq[1:] <= by_seq[:-1])):
            return order
        order = np.lexsort((local_seq, node))
        by_node, by_seq = node[order], local_seq[order]
        twice = np.flatnonzero((by_node[1:] == by_node[:-1]) & (by_seq[1:] == by_seq[:-1]))
        if twice.size:
            name = list(self._nodes)[by_node[twice[0]]]
            raise UserError(
                f"{self._title}: two events of node {printable(name)} share the local_seq "
                f"{by_seq[twice[0]]}: each needs a place of its own"
            )
        return order


_PLACED: Final = ("node", "local_seq", "kind", "message")


def _number(table: dict[str, int], name: str) -> int:
    return table.setdefault(name, len(table))


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
