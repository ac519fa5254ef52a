"""Reads trace files into histories, whole columns at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.model import EventKind, UserError
from precedes.trace import schema
from precedes.trace.history import BROADCAST, DELIVER, History
from precedes.trace.message_index import index_messages

MAGIC: Final = b"PAR1"
CRASH: Final = int(EventKind.CRASH)
JOIN: Final = int(EventKind.JOIN)
LEAVE: Final = int(EventKind.LEAVE)
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


def is_trace(path: str | os.PathLike[str]) -> bool:
    """Whether this file begins as a trace does; it may still be damaged or not of precedes."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What the writer said about a trace: schema_version, nodes, complete and its own keys."""
    with _open(Path(path)) as file:
        return schema.decode_metadata(file.schema_arrow.metadata, path=str(path))


def read_trace(path: str | os.PathLike[str], *, times: bool = False) -> list[History]:
    """The histories in a trace, one for each run, in the order of their numbers.

    ``times`` also reads when things happened, which no verdict depends on.
    """
    path = Path(path)
    with _open(path) as file:
        metadata = schema.decode_metadata(file.schema_arrow.metadata, path=str(path))
        _check_columns(path, file.schema_arrow, times=times)
        try:
            found = _in_order(_batches(path, file, times=times))
            if found is None:
                found = _put_in_order(path, list(_batches(path, file, times=times)))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from None
    if found.stretch_node.size and int(found.stretch_node.max()) >= metadata["nodes"]:
        raise UserError(f"{path}: an event is at a node outside 0..{metadata['nodes'] - 1}")
    return _split(path, metadata, found)


def _open(path: Path) -> pq.ParquetFile:
    try:
        with path.open("rb") as file:
            opening = file.read(len(MAGIC))
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise UserError(f"there is no trace {path}: check the path") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a directory: name the trace files in it") from None
    except PermissionError:
        raise UserError(f"cannot read {path}: permission denied") from None
    except (pa.ArrowException, OSError) as error:
        if opening != MAGIC:
            raise UserError(f"{path} is not a trace: it is not a Parquet file") from None
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UserError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return UserError(f"{path} is cut short or damaged: record it again ({reason})")


def _check_columns(path: Path, table_schema: pa.Schema, *, times: bool) -> None:
    integers = (*INTEGERS, "time_us") if times else INTEGERS
    missing = [name for name in (*integers, "kind") if name not in table_schema.names]
    if missing:
        raise UserError(f"{path} lacks the column {', '.join(missing)}: record it again")
    for name in integers:
        if not pa.types.is_integer(table_schema.field(name).type):
            found = table_schema.field(name).type
            raise UserError(f"{path}: the column {name} holds {found} instead of integers")


def _batches(path: Path, file: pq.ParquetFile, *, times: bool) -> Iterator[_Columns]:
    """The rows that matter, one batch a row group."""
    names = [*INTEGERS, "kind", *(["time_us"] if times else [])]
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=names)
        for name in names:
            if table.column(name).null_count:
                raise UserError(f"{path}: the column {name} has empty cells: record it again")
        columns = _Columns(
            run_id=_integers(table, "run_id"),
            node=_integers(table, "node"),
            local_seq=_integers(table, "local_seq"),
            source=_integers(table, "source"),
            seq=_integers(table, "seq"),
            kind=_kinds(table),
            time_us=_integers(table, "time_us") if times else np.empty(0, np.int64),
        )
        if columns.node.size and int(columns.node.min()) < 0:
            raise UserError(f"{path}: an event is at a negative node: record it again")
        kept = np.flatnonzero(columns.kind >= 0)
        yield columns if kept.size == columns.kind.size else columns.at(kept)


def _integers(table: pa.Table, name: str) -> NDArray[Any]:
    # A cast refuses numbers that do not fit, where NumPy would wrap them round.
    column = table.column(name).cast(schema.SCHEMA.field(name).type)
    return np.asarray(column.to_numpy())


def _kinds(table: pa.Table) -> NDArray[np.int8]:
    """Kinds as numbers; -1 for those that no history keeps, also of a later version."""
    wanted = {"broadcast": BROADCAST, "deliver": DELIVER, "crash": CRASH}
    wanted |= {"join": JOIN, "leave": LEAVE}
    parts = []
    for chunk in table.column("kind").chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = coded.dictionary.to_pylist()
        number = np.array([wanted.get(name, -1) for name in names] or [-1], np.int8)
        parts.append(number[coded.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate([np.empty(0, np.int8), *parts])


def _in_order(batches: Iterator[_Columns]) -> _Sorted | None:
    """The batches joined, or None as soon as a row stands before an earlier one."""
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


def _put_in_order(path: Path, batches: list[_Columns]) -> _Sorted:
    """The batches joined and sorted."""
    joined = _Columns(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))
    order = np.lexsort((joined.local_seq, joined.node, joined.run_id))
    ordered = joined.at(order)
    found = _in_order(iter([ordered]))
    if found is None:
        raise UserError(f"{path}: two events of a node share a local_seq: record it again")
    return found


def _split(path: Path, metadata: dict[str, Any], found: _Sorted) -> list[History]:
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
        histories.append(_history(path, metadata, int(run_id), offsets, part))
    return histories


class _Members(NamedTuple):
    """What a trace says about its nodes."""

    crashed: NDArray[np.int32]
    join_node: NDArray[np.int32]
    join_row: NDArray[np.int64]
    departed: NDArray[np.int32]

    @classmethod
    def none(cls) -> _Members:
        """Nobody crashes, joins or leaves."""
        node = np.empty(0, np.int32)
        return cls(node, node, np.empty(0, np.int64), node)


def _members(
    rows: NDArray[np.int64], kind: NDArray[np.int8], offsets: NDArray[np.int64]
) -> _Members:
    """Crashes, joins and leaves, at rows that are about nodes and not about messages."""
    node = (np.searchsorted(offsets, rows, side="right") - 1).astype(np.int32)
    # Rows of the node itself that stand before, without those about nodes.
    first = np.searchsorted(rows, offsets[node])
    own = rows - offsets[node] - (np.arange(rows.size) - first)
    joins = kind == JOIN
    last = {int(n): int(k) for n, k in zip(node[kind != CRASH], kind[kind != CRASH], strict=True)}
    departed = sorted(n for n, k in last.items() if k == LEAVE)
    return _Members(
        crashed=np.unique(node[kind == CRASH]),
        join_node=node[joins],
        join_row=own[joins],
        departed=np.array(departed, np.int32),
    )


def _history(
    path: Path, metadata: dict[str, Any], run_id: int, offsets: NDArray[np.int64], part: _Sorted
) -> History:
    source, seq, kind, time_us = part.source, part.seq, part.kind, part.time_us
    about_nodes = (kind == CRASH) | (kind == JOIN) | (kind == LEAVE)
    members = _Members.none()
    if about_nodes.any():
        rows = np.flatnonzero(about_nodes)
        members = _members(rows, kind[rows], offsets)
        offsets = offsets - np.searchsorted(rows, offsets)
        source, seq, kind = source[~about_nodes], seq[~about_nodes], kind[~about_nodes]
        time_us = time_us[~about_nodes] if time_us.size else time_us
    index = index_messages(offsets, kind, source, seq, title=str(path))
    return History(
        nodes=metadata["nodes"],
        offsets=offsets,
        kind=kind,
        message=index.message,
        message_source=index.source,
        message_sequence=index.sequence,
        message_names=index.names,
        phantom_names=index.phantom_names,
        complete=metadata["complete"],
        crashed=members.crashed,
        join_node=members.join_node,
        join_row=members.join_row,
        departed=members.departed,
        time_us=time_us if time_us.size else None,
        run_id=run_id,
        origin=str(path),
    )
