"""Reads trace files into histories, whole columns at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.trace import schema
from precedes.trace.arrow_arrays import to_numpy
from precedes.trace.assemble import JUDGED, numbered_history
from precedes.trace.history import History
from precedes.trace.source import Log, Source, open_log

MAGIC: Final = b"PAR1"
INTEGERS: Final = ("run_id", "node", "local_seq", "source", "seq")


class _Columns(NamedTuple):
    """Rows of broadcasts, deliveries, crashes, joins and leaves, in the order of the file."""

    run_id: NDArray[np.int32]
    node: NDArray[np.int32]
    local_seq: NDArray[np.int64]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]
    kind: NDArray[np.int8]
    time_us: NDArray[np.int64]  # empty unless asked for

    def at(self, rows: NDArray[np.int64]) -> _Columns:
        """These rows, in this order."""
        return _Columns._make(column[rows] if column.size else column for column in self)


class _Sorted(NamedTuple):
    """The same in order of (run_id, node, local_seq), with runs and nodes as stretches."""

    stretch_run: NDArray[np.int32]
    stretch_node: NDArray[np.int32]
    stretch_rows: NDArray[np.int64]
    source: NDArray[np.int32]
    seq: NDArray[np.int32]
    kind: NDArray[np.int8]
    time_us: NDArray[np.int64]


def read_metadata(log: Log) -> dict[str, Any]:
    """What the writer said about a trace: schema_version, nodes, complete and its own keys."""
    with open_log(log) as source, opened_parquet(source) as file:
        return schema.decode_metadata(file.schema_arrow.metadata, path=source.title)


def read_trace(log: Log, *, times: bool = False) -> list[History]:
    """The histories in a trace, one for each run, in the order of their numbers.

    ``times`` also reads when things happened, which no verdict depends on.
    """
    with open_log(log) as source:
        return read_opened(source, times=times)


def read_opened(source: Source, *, times: bool = False) -> list[History]:
    """``read_trace`` for a log that is open."""
    title = source.title
    with opened_parquet(source) as file:
        metadata = schema.decode_metadata(file.schema_arrow.metadata, path=title)
        check_columns(title, file.schema_arrow, times=times)
        try:
            found = _in_order(_batches(title, file, times=times))
            if found is None:
                found = _put_in_order(title, list(_batches(title, file, times=times)))
        except (pa.ArrowException, OSError) as error:
            raise damaged(title, error) from None
    if found.stretch_node.size and int(found.stretch_node.max()) >= metadata["nodes"]:
        raise UserError(f"{title}: an event is at a node outside 0..{metadata['nodes'] - 1}")
    return _split(title, metadata, found)


@contextmanager
def opened_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """A log that must be a Parquet file."""
    if not source.opening.startswith(MAGIC):
        raise UserError(f"{source.title} is not a trace: it is not a Parquet file")
    with source.seekable() as file:
        try:
            found = pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise damaged(source.title, error) from None
        yield found


def damaged(title: str, error: Exception) -> UserError:
    """What to say of a file that pyarrow cannot read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    told: UserError | None = None
    if "://" in title:
        from precedes.stores.filesystems import failure

        told = failure(title, error)
    return told or UserError(f"{title} is cut short or damaged: record it again ({reason})")


def check_columns(title: str, table_schema: pa.Schema, *, times: bool) -> None:
    """Raise if a trace lacks a column, or has another type for it."""
    integers = (*INTEGERS, "time_us") if times else INTEGERS
    missing = [name for name in (*integers, "kind") if name not in table_schema.names]
    if missing:
        raise UserError(f"{title} lacks the column {', '.join(missing)}: record it again")
    for name in integers:
        if not pa.types.is_integer(table_schema.field(name).type):
            found = table_schema.field(name).type
            raise UserError(f"{title}: the column {name} holds {found} instead of integers")


def _batches(title: str, file: pq.ParquetFile, *, times: bool) -> Iterator[_Columns]:
    """The rows that matter, one batch a row group."""
    names = [*INTEGERS, "kind", *(["time_us"] if times else [])]
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=names)
        check_cells(title, table)
        columns = _Columns(
            run_id=integers(table, "run_id"),
            node=integers(table, "node"),
            local_seq=integers(table, "local_seq"),
            source=integers(table, "source"),
            seq=integers(table, "seq"),
            kind=kind_numbers(table.column("kind"), JUDGED),
            time_us=integers(table, "time_us") if times else np.empty(0, np.int64),
        )
        if columns.node.size and int(columns.node.min()) < 0:
            raise UserError(f"{title}: an event is at a negative node: record it again")
        kept = np.flatnonzero(columns.kind >= 0)
        yield columns if kept.size == columns.kind.size else columns.at(kept)


def check_cells(title: str, table: pa.Table) -> None:
    """Raise if a cell is empty."""
    for name in table.column_names:
        if table.column(name).null_count:
            raise UserError(f"{title}: the column {name} has empty cells: record it again")


def integers(table: pa.Table, name: str) -> NDArray[Any]:
    """A column of numbers; it may be a view, which cannot be written to."""
    # A cast refuses numbers that do not fit; NumPy would wrap them around.
    return to_numpy(table.column(name).cast(schema.SCHEMA.field(name).type))


def kind_numbers(column: pa.ChunkedArray, numbers: Mapping[str, int]) -> NDArray[np.int8]:
    """Kinds as numbers; -1 for those without one, such as kinds of later versions."""
    parts = [np.empty(0, np.int8)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = coded.dictionary.to_pylist()
        number = np.array([numbers.get(name, -1) for name in names] or [-1], np.int8)
        parts.append(number[to_numpy(coded.indices)])
    return np.concatenate(parts)


def _in_order(batches: Iterator[_Columns]) -> _Sorted | None:
    """The batches joined, or None as soon as a row is out of order."""
    stretches: list[tuple[NDArray[Any], ...]] = []
    rows: list[tuple[NDArray[Any], ...]] = []
    before: tuple[int, int, int] | None = None
    for batch in batches:
        if batch.node.size == 0:
            continue
        run, node, local_seq = batch.run_id, batch.node, batch.local_seq
        new = np.concatenate(([True], (run[1:] != run[:-1]) | (node[1:] != node[:-1])))
        rising = (run[1:] > run[:-1]) | ((run[1:] == run[:-1]) & (node[1:] > node[:-1]))
        rising |= ~new[1:] & (local_seq[1:] > local_seq[:-1])
        first = (int(run[0]), int(node[0]), int(local_seq[0]))
        if not rising.all() or (before is not None and before >= first):
            return None
        before = (int(run[-1]), int(node[-1]), int(local_seq[-1]))
        starts = np.flatnonzero(new)
        stretches.append((run[starts], node[starts], np.diff(starts, append=node.size)))
        rows.append((batch.source, batch.seq, batch.kind, batch.time_us))
    if not rows:
        none = np.empty(0, np.int32)
        wide = np.empty(0, np.int64)
        return _Sorted(none, none, wide, none, none, np.empty(0, np.int8), wide)
    joined = [np.concatenate(parts) for parts in zip(*stretches, strict=True)]
    joined += [np.concatenate(parts) for parts in zip(*rows, strict=True)]
    return _Sorted(*joined)


def _put_in_order(title: str, batches: list[_Columns]) -> _Sorted:
    """The batches joined and sorted."""
    joined = _Columns(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))
    order = np.lexsort((joined.local_seq, joined.node, joined.run_id))
    ordered = joined.at(order)
    found = _in_order(iter([ordered]))
    if found is None:
        raise UserError(f"{title}: two events of a node share a local_seq: record it again")
    return found


def _split(title: str, metadata: dict[str, Any], found: _Sorted) -> list[History]:
    """One history for each run; a trace without rows is one run without events."""
    row_ends = np.cumsum(found.stretch_rows)
    runs = np.unique(found.stretch_run) if row_ends.size else np.array([metadata["run_id"]])
    histories = []
    for run_id in runs:
        first, last = np.searchsorted(found.stretch_run, (run_id, run_id + 1))
        counts = np.zeros(metadata["nodes"], np.int64)
        np.add.at(counts, found.stretch_node[first:last], found.stretch_rows[first:last])
        row_end = int(row_ends[last - 1]) if last > first else 0
        rows = slice(row_end - int(counts.sum()), row_end)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        part = found._replace(
            source=found.source[rows],
            seq=found.seq[rows],
            kind=found.kind[rows],
            time_us=found.time_us[rows],
        )
        histories.append(_history(title, metadata, int(run_id), offsets, part))
    return histories


def _history(
    title: str, metadata: dict[str, Any], run_id: int, offsets: NDArray[np.int64], part: _Sorted
) -> History:
    return numbered_history(
        nodes=metadata["nodes"],
        offsets=offsets,
        kind=part.kind,
        source=part.source,
        seq=part.seq,
        title=title,
        complete=metadata["complete"],
        time_us=part.time_us if part.time_us.size else None,
        run_id=run_id,
        origin=title,
    )
