"""Tables of events, with names of nodes and messages, as histories.

``from_arrow`` and ``from_pandas`` take a whole table that somebody has in memory, and tell
mistakes by column and row. ``history_of`` takes the rows of one run, in whatever order a shuffle
has left them, and tells mistakes by node and ``local_seq``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError, meant
from precedes.model import printable
from precedes.trace.arrow_arrays import nanoseconds, to_numpy
from precedes.trace.assemble import JUDGED, KINDS, named_history
from precedes.trace.dialect import refuse_receivers, refuse_twins
from precedes.trace.history import History
from precedes.trace.named_rows import BROADCAST_AGAIN, EMPTY, BadCell, NamedRows, rows_of

COLUMNS: Final = ("run_id", "node", "local_seq", "kind", "message (or source and seq)")
IGNORED: Final = sorted(set(KINDS) - set(JUDGED))  # kinds of which the audit knows nothing to say
CHOSEN: Final = ("run_id", "node", "local_seq", "kind", "message", "source", "seq")
INTEGERS: Final = ("local_seq", "seq")
OFFSETS_MAX: Final = 2**31 - 1  # bytes of text that a string column of Arrow's can hold


def from_arrow(table: Any) -> list[History]:
    """The histories in a table, one for each run, as ``load`` gives those in a log.

    The columns are ``node``, ``kind``, ``message`` (or ``source`` and ``seq``) and, if there are
    several runs, ``run_id``; others are ignored. ``local_seq`` orders the events of a node; without
    it their order is that of the rows. ``table`` is a pyarrow Table, or whatever offers its columns
    as an Arrow stream. Nobody knows whether the log goes on, so nothing counts as lost.
    """
    columns = table if isinstance(table, pa.Table) else pa.table(table)
    refuse_receivers(columns.column_names, title="the table")
    refuse_twins(columns.column_names, CHOSEN, title="the table")
    return _histories(columns.select([n for n in CHOSEN if n in columns.column_names]))


def from_pandas(frame: Any) -> list[History]:
    """``from_arrow`` for a pandas DataFrame; its index is ignored.

    A column may hold strings here and integers there, as in JSON lines: ``7`` is ``"7"``.
    """
    refuse_receivers(frame.columns, title="the table")
    refuse_twins(frame.columns, CHOSEN, title="the table")
    names = [name for name in CHOSEN if name in frame.columns]
    return _histories(pa.table({name: _column(frame[name], name) for name in names}))


def _column(series: Any, name: str) -> pa.Array:
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, OverflowError) as error:  # several types, or beyond 64 bits
        if isinstance(error, OverflowError) and name in INTEGERS:
            raise UserError(f"the column {name} holds numbers beyond 64 bits: renumber") from None
        return pa.array([_name(value, name, row) for row, value in enumerate(series)], pa.string())


def _name(value: object, column: str, row: int) -> str | None:
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    raise _error(row, f"the column {column} holds {value!r} instead of a string or an integer")


def _histories(table: pa.Table) -> list[History]:
    table = _with_names(table)
    found = []
    for run_id, rows, part in _runs(table):
        try:
            named = _rows(part)
        except BadCell as bad:
            raise _error(int(rows[bad.row]), _explained(bad)) from None
        order = np.arange(named.row.size)
        if "local_seq" in part.column_names:
            order, twice = _by_local_seq(part.column("local_seq"), named)
            if twice.size:
                again = sorted(rows[named.row[twice]].tolist())
                raise _error(again[-1], f"local_seq is as in row {again[0]}, at the same node")
        title = "the table" if run_id is None else f"run {printable(str(run_id))}"
        found.append(_history(named, order, run_id=0 if run_id is None else run_id, title=title))
    return found


def _with_names(table: pa.Table) -> pa.Table:
    """The columns node, kind and message, with run_id and local_seq if they are there, checked."""
    have = table.column_names
    wanted = ("node", "kind", *([] if "message" in have else ["source", "seq"]))
    missing = [name for name in wanted if name not in have]
    if missing:
        raise UserError(
            f"the table lacks {', '.join(missing)}: it needs node, kind and message (or source and "
            "seq)"
        )
    columns = {name: _checked(table.column(name), name) for name in have}
    for name in ("run_id", "local_seq"):
        if name in columns and columns[name].null_count:
            row = int(np.argmax(columns[name].is_null().to_numpy()))
            raise _error(row, f"the column {name} is empty")
    if "message" not in columns:
        columns["message"] = _pairs(columns["kind"], columns["source"], columns["seq"])
    kept = [name for name in columns if name not in ("source", "seq")]
    return pa.table({name: columns[name] for name in kept})


def _pairs(kind: pa.ChunkedArray, source: pa.ChunkedArray, seq: pa.ChunkedArray) -> pa.ChunkedArray:
    """source:seq as the name of a message; none if one is missing, or if a join names nothing."""
    import pyarrow.compute as pc

    pair = pc.binary_join_element_wise(source.cast(pa.string()), seq.cast(pa.string()), ":")
    nothing = pc.and_kleene(pc.equal(kind, "join"), pc.equal(seq, 0))
    return pc.if_else(pc.fill_null(nothing, False), pa.scalar(None, pa.string()), pair)


def _checked(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column as strings or integers; a UserError if it holds anything else."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    if pa.types.is_string_view(kind):  # as Polars has them
        kind = pa.large_string()
        column = column.cast(kind)
    if pa.types.is_null(kind):
        return column.cast(pa.int64() if name in INTEGERS else pa.string())
    if name == "local_seq" and pa.types.is_timestamp(kind):
        return nanoseconds(column)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_whole = pa.types.is_integer(kind)
    meant = {
        **dict.fromkeys(INTEGERS, ("whole numbers", is_whole)),
        "kind": ("strings", is_text),
    }
    instead, is_right = meant.get(name, ("strings or whole numbers", is_text or is_whole))
    if not is_right:
        raise UserError(f"the column {name} holds {kind} instead of {instead}: cast it")
    return column.cast(pa.large_string()) if column.nbytes > OFFSETS_MAX else column


def _runs(table: pa.Table) -> Iterator[tuple[int | str | None, NDArray[np.int64], pa.Table]]:
    """Each run's id, the numbers of its rows, and these; without ids, all rows are of one run."""
    if "run_id" not in table.column_names:
        yield None, np.arange(table.num_rows), table
        return
    coded = table.column("run_id").combine_chunks().dictionary_encode()
    ids = coded.dictionary.to_pylist()
    code = to_numpy(coded.indices)
    order = np.argsort(code, kind="stable")
    ends = np.cumsum(np.bincount(code, minlength=len(ids)))
    by_run = table if len(ids) == 1 else table.take(pa.array(order))
    for run_id, number in sorted(zip(ids, range(len(ids)), strict=True)):
        first, last = int(ends[number - 1]) if number else 0, int(ends[number])
        yield run_id, order[first:last], by_run.slice(first, last - first)


def history_of(table: pa.Table, *, run_id: int | str) -> History:
    """The history in columns node, local_seq, kind and message; rows in any order.

    ``node`` and ``message`` are names; a crash and a leave have no message, and a join need not
    have one. Nodes are in the order of their names, as numbers if all are whole numbers.
    """
    title = f"run {printable(str(run_id))}"
    for name in ("node", "local_seq"):
        if table.column(name).null_count:
            raise UserError(f"{title}: the column {name} has empty cells")
    try:
        rows = _rows(table)
    except BadCell as bad:
        raise UserError(f"{title}: {_explained_by_node(bad, table)}") from None
    order, twice = _by_local_seq(table.column("local_seq"), rows)
    if twice.size:
        raise UserError(f"{title}: two events of a node share a local_seq")
    return _history(rows, order, run_id=run_id, title=title)


def _rows(table: pa.Table) -> NamedRows:
    columns = {name: table.column(name).combine_chunks() for name in ("node", "kind", "message")}
    return rows_of(**columns)


def _by_local_seq(
    column: pa.ChunkedArray, rows: NamedRows
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each node's rows in its own order, and the first two that share a place in it, if any."""
    local_seq = column.to_numpy()[rows.row]
    order = np.lexsort((local_seq, rows.node))
    node, local_seq = rows.node[order], local_seq[order]
    same = np.flatnonzero((node[1:] == node[:-1]) & (local_seq[1:] == local_seq[:-1]))[:1]
    return order, order[np.concatenate((same, same + 1))]


def _history(
    rows: NamedRows, order: NDArray[np.int64], *, run_id: int | str, title: str
) -> History:
    return named_history(
        names=rows.names,
        node=rows.node[order],
        kind=rows.kind[order],
        labels=rows.labels,
        message=rows.message[order],
        run_id=run_id,
        origin=title,
    )


def _explained(bad: BadCell) -> str:
    if bad.why == EMPTY:
        return f"the column {bad.column} is empty"
    if bad.why == BROADCAST_AGAIN:
        return f"message {printable(str(bad.value))} is broadcast again"
    hint = meant(str(bad.value), KINDS)
    return f"unknown kind {bad.value!r}{hint}; known are {', '.join(KINDS)}"


def _explained_by_node(bad: BadCell, table: pa.Table) -> str:
    if bad.why == BROADCAST_AGAIN:
        return f"{printable(str(bad.value))} is broadcast twice"
    if bad.column != "kind":
        return f"the column {bad.column} has empty cells"
    where = printable(str(table.column("node")[bad.row]))
    wrong = "no kind" if bad.why == EMPTY else f"the unknown kind {bad.value!r}"
    return (
        f"node {where}, local_seq {table.column('local_seq')[bad.row]}: {wrong}; known are "
        f"{', '.join(KINDS)}"
    )


def _error(row: int, what: str) -> UserError:
    return UserError(f"the table, row {row}: {what}")
