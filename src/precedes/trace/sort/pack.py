"""Packs rows with names into blocks: grouped by node, with numbers local to the block.

A block takes 9 bytes a row (position in its node's order as an offset, kind, message), and its
names once each. Positions further apart than 2**32 take 8 bytes instead of 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.arrays import flags, nanoseconds, strings, to_arrow, to_numpy
from precedes.trace.dialect import refuse_receivers, refuse_twins
from precedes.trace.rows import BROADCAST, CRASH, JOIN, JUDGED, KINDS, LEAVE, NO_MESSAGE

# Rows of a block, as far as batches allow: about 100 bytes a row are held while one is packed.
BLOCK_ROWS: Final = 1 << 20

COLUMNS: Final = ("run_id", "node", "local_seq", "kind", "message (or source and seq)")
READ: Final = ("run_id", "node", "local_seq", "kind", "message", "source", "seq")
WHOLE: Final = ("local_seq", "seq")  # columns of whole numbers
RADIX_KEYS: Final = 1 << 16  # up to this many keys NumPy's stable sort is a radix sort
NEAR: Final = 1 << 32


class Packed(NamedTuple):
    """Rows of keys ``bounds[k]`` to ``bounds[k + 1]``, in no order; a key is a node of a run."""

    runs: pa.Array  # ids
    key_run: NDArray[np.int32]  # key: position in ``runs``
    key_node: pa.Array  # key: name of the node
    bounds: NDArray[np.int64]
    low: NDArray[np.int64]  # key: smallest position
    high: NDArray[np.int64]  # key: largest position
    position: NDArray[Any]  # row: its position in the node's order, beyond ``low``
    kind: NDArray[np.int8]  # row
    message: NDArray[np.int32]  # row: position in ``label``, or NO_MESSAGE
    label_run: NDArray[np.int32]  # message: position in ``runs``
    label: pa.Array  # message
    sent: NDArray[np.int64]  # the rows that are broadcasts


def checked_columns(schema: pa.Schema, *, title: str = "the table of events") -> list[str]:
    """The columns to read of a table with these; a UserError if one is missing or unusable."""
    names = set(schema.names)
    refuse_receivers(names, title=title)
    wanted = ["node", "local_seq", "kind", *([] if "message" in names else ["source", "seq"])]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UserError(f"{title} lacks {', '.join(missing)}: it needs {', '.join(COLUMNS)}")
    chosen = [name for name in READ if name in wanted or name in names & {"run_id", "message"}]
    refuse_twins(schema.names, chosen, title=title)
    for name in chosen:
        _check_type(name, schema.field(name).type, title)
    return chosen


def _check_type(name: str, kind: pa.DataType, title: str) -> None:
    shown = kind
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_null(kind):
        return
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    is_text = any(is_kind(kind) for is_kind in texts)
    is_whole = pa.types.is_integer(kind)
    instead, is_right = "strings or whole numbers", is_text or is_whole
    if name in WHOLE:
        instead, is_right = "whole numbers", is_whole
        if name == "local_seq":
            instead, is_right = "whole numbers or times", is_whole or pa.types.is_timestamp(shown)
    elif name == "kind":
        instead, is_right = "strings", is_text
    elif name == "run_id":
        instead = "whole numbers or strings"
    if not is_right:
        raise UserError(f"{title}: the column {name} holds {shown} instead of {instead}: cast it")


def tables_of(
    batches: Iterator[pa.RecordBatch], *, block_rows: int = BLOCK_ROWS
) -> Iterator[pa.Table]:
    """Batches joined, or cut, to tables of ``block_rows`` rows.

    Where columns or their types change, as between files of several writers, a table ends.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        at = 0
        if waiting and not batch.schema.equals(waiting[0].schema):
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
        while at < batch.num_rows:
            part = batch.slice(at, block_rows - rows)
            waiting.append(part)
            rows += part.num_rows
            at += part.num_rows
            if rows == block_rows:
                yield pa.Table.from_batches(waiting)
                waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def pack(table: pa.Table) -> Packed | None:
    """A block of the rows that the audit judges, or None if there are none.

    The columns are those of ``checked_columns``. Invalid rows are a UserError.
    """
    kinds = _kinds(table)
    kept = None if kinds.min(initial=0) >= 0 else np.flatnonzero(kinds >= 0)
    chosen = _Chosen(table, kept)
    kinds = chosen.of(kinds)
    if kinds.size == 0:
        return None
    run = _coded(chosen, "run_id") if "run_id" in table.column_names else _one_run(kinds.size)
    node = _coded(chosen, "node")
    local_seq = _local_seq(chosen)
    message = _messages(chosen, kinds)
    key_run, key_node, key = _paired(run, node)
    label_run, label, message_code = _paired(run, message)
    order, bounds = _grouped(key, key_run.size)
    if order is not None:
        kinds, local_seq, message_code = kinds[order], local_seq[order], message_code[order]
    low = np.minimum.reduceat(local_seq, bounds[:-1])
    high = np.maximum.reduceat(local_seq, bounds[:-1])
    position = local_seq - np.repeat(low, np.diff(bounds))
    # Subtracted as Python's integers: positions may lie at both ends of int64.
    far = max((int(b) - int(a) for a, b in zip(low, high, strict=True)), default=0) >= NEAR
    return Packed(
        runs=run.values,
        key_run=key_run,
        key_node=key_node,
        bounds=bounds,
        low=low,
        high=high,
        position=position.view(np.uint64) if far else position.astype(np.uint32),
        kind=kinds,
        message=message_code,
        label_run=label_run,
        label=label,
        sent=np.flatnonzero(kinds == BROADCAST),
    )


class _Coded(NamedTuple):
    """A column as its distinct values and each row's position in them, -1 for none."""

    values: pa.Array
    codes: NDArray[np.int32]


def _one_run(rows: int) -> _Coded:
    return _Coded(strings(["0"]).cast(pa.large_string()), np.zeros(rows, np.int32))


def run_title(run_id: int | str) -> str:
    """The title of a run in messages and reports."""
    return f"run {printable(str(run_id))}"


class _Chosen(NamedTuple):
    """Some rows of a table."""

    table: pa.Table
    rows: NDArray[np.int64] | None  # None: all

    def of(self, column: NDArray[Any]) -> NDArray[Any]:
        """The cells of these rows."""
        return column if self.rows is None else column[self.rows]

    def empty(self, name: str, wrong: NDArray[np.bool_]) -> UserError:
        """The error that a column is empty in the first of the invalid rows."""
        if name == "run_id":
            return UserError("the column run_id has empty cells")
        row = int(np.argmax(wrong))
        title = _title(self.table, row if self.rows is None else int(self.rows[row]))
        return UserError(f"{title}: the column {name} has empty cells")


def _title(table: pa.Table, row: int) -> str:
    run = table.column("run_id")[row] if "run_id" in table.column_names else 0
    return run_title(str(run))


def _kinds(table: pa.Table) -> NDArray[np.int8]:
    """Kinds as numbers, -1 for those that the audit ignores."""
    values, codes = _factorised(table.column("kind"))
    names = [*values.to_pylist(), None]
    unknown = [number for number, name in enumerate(names) if name not in KINDS]
    lookup = np.array([JUDGED.get(name, -1) for name in names], np.int8)
    if len(unknown) > 1 or codes.min(initial=0) < 0:
        wrong = np.flatnonzero(np.isin(codes, [*unknown[:-1], NO_MESSAGE]))
        if wrong.size:
            row = int(wrong[0])
            name = names[codes[row]]
            raise UserError(
                f"{_title(table, row)}: node {printable(str(table.column('node')[row]))}, "
                f"local_seq {table.column('local_seq')[row]}: "
                f"{'no kind' if name is None else f'the unknown kind {name!r}'}; known are "
                f"{', '.join(KINDS)}"
            )
    return lookup[codes]


def _coded(chosen: _Chosen, name: str) -> _Coded:
    """A column without empty cells, its values as strings."""
    values, codes = _factorised(chosen.table.column(name))
    codes = chosen.of(codes)
    if codes.min(initial=0) < 0:
        raise chosen.empty(name, codes < 0)
    return _used(values, codes)


def _used(values: pa.Array, codes: NDArray[np.int32]) -> _Coded:
    """The values that occur, and the codes for them."""
    used = np.zeros(len(values) + 1, np.bool_)
    used[codes] = True
    if not used[:-1].all():
        number = (np.cumsum(used) - 1).astype(np.int32)
        number[-1] = NO_MESSAGE
        values, codes = values.take(to_arrow(np.flatnonzero(used[:-1]))), number[codes]
    return _Coded(values.cast(pa.large_string()), codes)


def _factorised(column: pa.ChunkedArray, *, distinct: bool = True) -> _Coded:
    """The values of a column, each once if they must be ``distinct``, and the codes of the rows."""
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    if pa.types.is_dictionary(whole.type):
        # A foreign dictionary may contain a value twice, or null.
        own = whole.dictionary
        if own.null_count or (distinct and len(pc.unique(own)) < len(own)):
            whole = whole.cast(whole.type.value_type).dictionary_encode()
    else:
        if pa.types.is_string_view(whole.type):
            whole = whole.cast(pa.large_string())
        whole = whole.dictionary_encode()
    return _Coded(whole.dictionary, _codes(whole))


def _codes(coded: pa.DictionaryArray) -> NDArray[np.int32]:
    indices = coded.indices.cast(pa.int32())
    return to_numpy(indices.fill_null(NO_MESSAGE) if indices.null_count else indices)


def _local_seq(chosen: _Chosen) -> NDArray[np.int64]:
    column = chosen.table.column("local_seq")
    if column.null_count:
        empty = chosen.of(flags(column.is_null()))
        if empty.any():
            raise chosen.empty("local_seq", empty)
    try:
        if pa.types.is_timestamp(column.type):
            column = nanoseconds(column)
        column = column.cast(pa.int64())
        column = column.fill_null(0) if column.null_count else column
        local_seq: NDArray[np.int64] = chosen.of(to_numpy(column))
    except pa.ArrowInvalid:
        raise UserError("the column local_seq holds numbers beyond 64 bits: renumber") from None
    return local_seq


def _messages(chosen: _Chosen, kinds: NDArray[np.int8]) -> _Coded:
    """The messages of the rows; a crash and a leave have none, and a join need not have one."""
    table = chosen.table
    if "message" in table.column_names:
        values, codes = _factorised(table.column("message"), distinct=False)
        codes = chosen.of(codes)
    else:
        values, codes = _pairs(chosen, kinds)
    bare = (kinds == CRASH) | (kinds == LEAVE)
    owed = (codes < 0) & ~bare & (kinds != JOIN)
    if owed.any():
        raise chosen.empty("message", owed)
    return _used(values, np.where(bare, np.int32(NO_MESSAGE), codes) if bare.any() else codes)


def _pairs(chosen: _Chosen, kinds: NDArray[np.int8]) -> _Coded:
    """source:seq as the name of a message; none if one is missing, or if a join names nothing."""
    source, seq = (_factorised(chosen.table.column(name)) for name in ("source", "seq"))
    at_source, at_seq = chosen.of(source.codes), chosen.of(seq.codes)
    empty = (at_source < 0) | (at_seq < 0)
    nothing = np.flatnonzero(to_numpy(seq.values.cast(pa.int64())) == 0)
    empty |= (kinds == JOIN) & np.isin(at_seq, nothing)
    pair, codes = _distinct(at_source.astype(np.int64) * len(seq.values) + at_seq, empty)
    at_source, at_seq = np.divmod(pair, max(len(seq.values), 1))
    labels = pc.binary_join_element_wise(
        source.values.cast(pa.large_string()).take(to_arrow(at_source)),
        seq.values.cast(pa.large_string()).take(to_arrow(at_seq)),
        pa.scalar(":", pa.large_string()),
    )
    return _Coded(labels, codes)


def _distinct(
    numbers: NDArray[np.int64], empty: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The distinct numbers, and each row's position in them, -1 for the empty ones."""
    coded = to_arrow(numbers, null=empty if empty.any() else None).dictionary_encode()
    return to_numpy(coded.dictionary), _codes(coded)


def _paired(run: _Coded, name: _Coded) -> tuple[NDArray[np.int32], pa.Array, NDArray[np.int32]]:
    """Names distinguished by run: the run of each, the names, and the codes of the rows."""
    if len(run.values) == 1:
        return np.zeros(len(name.values), np.int32), name.values, name.codes
    pairs = run.codes.astype(np.int64) * len(name.values) + name.codes
    pair, codes = _distinct(pairs, name.codes < 0)
    at_run, at_name = np.divmod(pair, max(len(name.values), 1))
    return at_run.astype(np.int32), name.values.take(to_arrow(at_name)), codes


def _grouped(
    key: NDArray[np.int32], keys: int
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """The rows in the order of keys, None if they are, and where the rows of each key begin."""
    bounds = np.zeros(keys + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=keys), out=bounds[1:])
    if np.all(key[1:] >= key[:-1]):
        return None, bounds
    narrow = key.astype(np.uint16) if keys <= RADIX_KEYS else key
    return np.argsort(narrow, kind="stable"), bounds
