"""Reads trace files: run by run, by row groups that stay on disk, or whole, as histories.

A file in order has its rows by run, node and local_seq, as the writer leaves them. An index
lists each node's rows in each group; where the statistics of a group name one node the group is
not opened for it. The order of runs and nodes is checked by the index, that of a node's rows when
they are read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import schema
from precedes.trace.arrays import strings, to_arrow, to_numpy
from precedes.trace.rows import (
    CHUNK_ROWS,
    JUDGED,
    Chunk,
    History,
    NoOrder,
    Rows,
    cut_chunks,
    numbered_history,
)
from precedes.trace.source import Log, Source, open_log, title_of

MAGIC: Final = b"PAR1"
INTEGERS: Final = ("run_id", "node", "local_seq", "source", "seq")


def read_metadata(log: Log) -> dict[str, Any]:
    """The metadata of a trace: schema_version, nodes, complete and the writer's own keys."""
    with open_log(log) as source, opened_parquet(source) as file:
        return schema.decode_metadata(file.schema_arrow.metadata, path=source.title)


def read_trace(log: Log, *, times: bool = False) -> list[History]:
    """The histories in a trace, one for each run, in the order of their numbers.

    ``times`` also reads the times, which no verdict depends on.
    """
    with open_log(log) as source:
        return read_opened(source, times=times)


def read_opened(source: Source, *, times: bool = False) -> list[History]:
    """``read_trace`` for a log that is open."""
    title = source.title
    with opened_parquet(source) as file:
        metadata = schema.decode_metadata(file.schema_arrow.metadata, path=title)
        check_columns(title, file.schema_arrow, times=times)
        groups = _OpenGroups(title, file, threads=True)
        try:
            try:
                runs = _runs(groups, _index(groups), metadata, title=title)
                return [run.history(times=times) for run in runs]
            except NoOrder:
                table = _sorted(groups, times=times)
                runs = _runs(
                    _Whole(table), _pieces(0, table, table.num_rows), metadata, title=title
                )
                return [run.history(times=times) for run in runs]
        except (pa.ArrowException, OSError) as error:
            raise damaged(title, error) from None


def trace_rows(address: str) -> list[TraceRows]:
    """The runs of a trace file, in the order of their numbers; a trace without rows is one run.

    Raises ``NoOrder`` if they are not ordered by run and node.
    """
    groups = _Groups(address, version=_version(address))
    with open_log(address) as source, opened_parquet(source) as file:
        metadata = schema.decode_metadata(file.schema_arrow.metadata, path=source.title)
        check_columns(source.title, file.schema_arrow, times=False)
        pieces = _index(_OpenGroups(source.title, file))
        return _runs(groups, pieces, metadata, title=source.title)


@contextmanager
def opened_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """A log that must be a Parquet file."""
    if not source.opening.startswith(MAGIC):
        raise UserError(f"{source.title} is not a trace: it is not a Parquet file")
    with source.seekable() as file:
        try:
            parquet = pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise damaged(source.title, error) from None
        yield parquet


def damaged(title: str, error: Exception) -> UserError:
    """The error for a file that pyarrow cannot read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    store_error: UserError | None = None
    if "://" in title:
        from precedes.stores.filesystems import failure

        store_error = failure(title, error)
    return store_error or UserError(f"{title} is cut short or damaged: record it again ({reason})")


def check_columns(title: str, table_schema: pa.Schema, *, times: bool) -> None:
    """Raise if a trace lacks a column, or has another type for it."""
    integers = (*INTEGERS, "time_us") if times else INTEGERS
    missing = [name for name in (*integers, "kind") if name not in table_schema.names]
    if missing:
        raise UserError(f"{title} lacks the column {', '.join(missing)}: record it again")
    for name in integers:
        if not pa.types.is_integer(table_schema.field(name).type):
            column_type = table_schema.field(name).type
            raise UserError(f"{title}: the column {name} holds {column_type} instead of integers")


def check_cells(title: str, table: pa.Table) -> None:
    """Raise if a cell is empty."""
    for name in table.column_names:
        if table.column(name).null_count:
            raise UserError(f"{title}: the column {name} has empty cells: record it again")


def integers(table: pa.Table, name: str) -> NDArray[Any]:
    """A column of numbers; it may be a view, which is read-only."""
    # A cast refuses numbers that do not fit; NumPy would wrap them around.
    return to_numpy(table.column(name).cast(schema.SCHEMA.field(name).type))


def kind_numbers(column: pa.ChunkedArray, numbers: Mapping[str, int]) -> NDArray[np.int8]:
    """Kinds as numbers; -1 for unknown ones, such as kinds of later versions."""
    parts = [np.empty(0, np.int8)]
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        names = coded.dictionary.to_pylist()
        number = np.array([numbers.get(name, -1) for name in names] or [-1], np.int8)
        parts.append(number[to_numpy(coded.indices)])
    return np.concatenate(parts)


class _Pieces(NamedTuple):
    """Stretches of rows of one node in one row group, in the order of the file."""

    run: NDArray[np.int64]
    node: NDArray[np.int64]
    group: NDArray[np.int64]
    start: NDArray[np.int64]  # the first row in the group
    rows: NDArray[np.int64]

    def between(self, first: int, last: int) -> _Pieces:
        """The pieces from one index to another."""
        return _Pieces(*(column[first:last] for column in self))


class _Tables(Protocol):
    """The place of the row groups of a trace."""

    def tables(self, groups: Sequence[int], names: list[str]) -> Iterator[pa.Table]:
        """These columns, or more, of each of these groups."""


class _Whole(NamedTuple):
    """A table in memory as one row group."""

    table: pa.Table

    def tables(self, groups: Sequence[int], names: list[str]) -> Iterator[pa.Table]:
        """See ``_Tables``."""
        yield from [self.table] * len(groups)


class _OpenGroups(NamedTuple):
    """The row groups of an open file."""

    title: str
    file: pq.ParquetFile
    threads: bool = False

    def tables(self, groups: Sequence[int], names: list[str]) -> Iterator[pa.Table]:
        """See ``_Tables``."""
        for group in groups:
            try:
                table = self.file.read_row_group(group, columns=names, use_threads=self.threads)
                check_cells(self.title, table)
                for name in set(INTEGERS).intersection(names):
                    # Refuses numbers that do not fit, and copies nothing of the usual type.
                    table.column(name).cast(schema.SCHEMA.field(name).type)
            except (pa.ArrowException, OSError) as error:
                raise damaged(self.title, error) from None
            yield table


class _Groups:
    """The row groups of a trace file, for all its runs.

    The last one that was read is cached: small runs, and the nodes that a witness names, share
    one with those that are read next.
    """

    def __init__(self, address: str, *, version: str) -> None:
        self.address = address
        self._version = version
        self._kept: tuple[int, pa.Table] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": None}

    def tables(self, groups: Sequence[int], names: list[str]) -> Iterator[pa.Table]:
        """See ``_Tables``."""
        title = title_of(self.address)
        if _version(self.address) != self._version:
            raise UserError(f"{title} has changed while it was read: audit it again")
        with ExitStack() as stack:
            opened: _OpenGroups | None = None
            for group in groups:
                kept = self._kept
                if kept is None or kept[0] != group or not {*names} <= {*kept[1].column_names}:
                    if opened is None:
                        source = stack.enter_context(open_log(self.address))
                        opened = _OpenGroups(title, stack.enter_context(opened_parquet(source)))
                    kept = self._kept = group, next(opened.tables([group], names))
                yield kept[1]


class TraceRows(Rows):
    """One run of a trace file."""

    has_end = True

    def __init__(
        self, tables: _Tables, pieces: _Pieces, *, nodes: int, complete: bool, run_id: int
    ) -> None:
        self._tables = tables
        self._pieces = pieces
        self.nodes, self.complete, self.run_id = nodes, complete, run_id
        self.counts = np.bincount(pieces.node, weights=pieces.rows, minlength=nodes).astype(
            np.int64
        )

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``."""
        names = ["kind", "source", "seq", *(["local_seq"] if check else [])]
        for nodes, offsets, rows in self._stretches(first, last, names):
            yield from _chunks(nodes, offsets, rows, chunk_rows)

    def _stretches(
        self, first: int, last: int, names: list[str]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], pa.Table]]:
        """By row group: nodes, where the rows of each begin, and these; ``local_seq`` must rise."""
        low, high = np.searchsorted(self._pieces.node, (first, last)).tolist()
        pieces = self._pieces.between(low, high)
        before: tuple[int, int] | None = None
        groups = np.unique(pieces.group).tolist()
        for group, table in zip(groups, self._tables.tables(groups, names), strict=True):
            inside = pieces.between(*np.searchsorted(pieces.group, (group, group + 1)).tolist())
            start = int(inside.start[0])
            offsets = np.append(inside.start, inside.start[-1] + inside.rows[-1]) - start
            rows = table.slice(start, int(offsets[-1]))
            if "local_seq" in names:
                before = _check_order(inside.node, offsets, rows, before)
            yield inside.node, offsets, rows

    def history(self, *, times: bool) -> History:
        """All of it in memory; ``times`` too, which no verdict depends on."""
        names = ["kind", "source", "seq", "local_seq", *(["time_us"] if times else [])]
        counts = np.zeros(self.nodes, np.int64)
        types = (np.int8, np.int32, np.int32, np.int64)
        parts: list[list[NDArray[Any]]] = [[np.empty(0, dtype) for dtype in types]]
        for nodes, offsets, table in self._stretches(0, self.nodes, names):
            kind = kind_numbers(table.column("kind"), JUDGED)
            time_us = integers(table, "time_us") if times else parts[0][3]
            columns = [kind, integers(table, "source"), integers(table, "seq"), time_us]
            is_kept = kind >= 0
            if not is_kept.all():
                columns = [column[is_kept] if column.size else column for column in columns]
            counts[nodes] += np.diff(np.concatenate(([0], np.cumsum(is_kept)))[offsets])
            parts.append(columns)
        kind, source, seq, time_us = (np.concatenate(part) for part in zip(*parts, strict=True))
        return numbered_history(
            nodes=self.nodes,
            offsets=np.concatenate(([0], np.cumsum(counts))),
            kind=kind,
            source=source,
            seq=seq,
            title=self.origin,
            complete=self.complete,
            has_end=True,
            time_us=time_us if time_us.size else None,
            run_id=self.run_id,
            origin=self.origin,
        )


def _version(address: str) -> str:
    """A version that changes with the content of a file."""
    try:
        return Address.of(address).version()
    except FileNotFoundError:
        return "gone"


def _check_order(
    nodes: NDArray[np.int64],
    offsets: NDArray[np.int64],
    table: pa.Table,
    before: tuple[int, int] | None,
) -> tuple[int, int]:
    """Raise if local_seq does not rise within a node; return where the rows end."""
    local_seq = integers(table, "local_seq")
    rises = local_seq[1:] > local_seq[:-1]
    rises[offsets[1:-1] - 1] = True
    first = (int(nodes[0]), int(local_seq[0]))
    if not rises.all() or (before is not None and before >= first):
        raise NoOrder("local_seq does not rise")
    return int(nodes[-1]), int(local_seq[-1])


def _chunks(
    nodes: NDArray[np.int64], offsets: NDArray[np.int64], table: pa.Table, chunk_rows: int
) -> Iterator[Chunk]:
    """Cut the rows of a group; nodes without rows get empty bounds."""
    first = int(nodes[0])
    counts = np.zeros(int(nodes[-1]) - first + 1, np.int64)
    counts[nodes - first] = np.diff(offsets)
    # Arrow's arrays are read-only, which compiled code treats as another type.
    kind = kind_numbers(table.column("kind"), JUDGED)
    source, seq = integers(table, "source").copy(), integers(table, "seq").copy()

    def rows(start: int, stop: int) -> tuple[NDArray[Any], ...]:
        return kind[start:stop], source[start:stop], seq[start:stop]

    yield from cut_chunks(first, np.concatenate(([0], np.cumsum(counts))), chunk_rows, rows)


def _runs(
    tables: _Tables, pieces: _Pieces, metadata: dict[str, Any], *, title: str
) -> list[TraceRows]:
    """The runs of an index; raises ``NoOrder`` if it does not rise."""
    nodes = metadata["nodes"]
    if pieces.node.size and int(pieces.node.min()) < 0:
        raise UserError(f"{title}: an event is at a negative node: record it again")
    if pieces.node.size and int(pieces.node.max()) >= nodes:
        raise UserError(f"{title}: an event is at a node outside 0..{nodes - 1}")
    _check_rising(pieces)
    runs = np.unique(pieces.run) if pieces.run.size else np.array([metadata["run_id"]])
    run_rows = []
    for run_id in runs.tolist():
        part = pieces.between(*np.searchsorted(pieces.run, (run_id, run_id + 1)).tolist())
        run = TraceRows(tables, part, nodes=nodes, complete=metadata["complete"], run_id=run_id)
        run.origin = title
        run.address = getattr(tables, "address", None)
        run_rows.append(run)
    return run_rows


def _check_rising(pieces: _Pieces) -> None:
    key = pieces.run * (1 << 32) + pieces.node
    if np.any(key[1:] < key[:-1]):
        raise NoOrder("nodes do not rise")


def _index(groups: _OpenGroups) -> _Pieces:
    """The runs and nodes that rows belong to."""
    file = groups.file
    columns = {file.schema.column(i).path: i for i in range(len(file.schema))}
    pieces = [_Pieces(*(np.empty(0, np.int64) for _ in range(5)))]
    for group in range(file.num_row_groups):
        described = file.metadata.row_group(group)
        if described.num_rows:
            single = {n: _single(described.column(columns[n])) for n in ("run_id", "node")}
            names = [name for name, value in single.items() if value is None]
            table = next(groups.tables([group], names)) if names else None
            pieces.append(_pieces(group, table, described.num_rows, single))
            _check_rising(pieces[-1])
    return _Pieces(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def _pieces(
    group: int, table: pa.Table | None, rows: int, single: Mapping[str, int | None] | None = None
) -> _Pieces:
    """The pieces of a row group; ``single`` has the columns that hold one value."""
    values = [(name, (single or {}).get(name)) for name in ("run_id", "node")]
    run, node = (
        integers(table, name) if value is None else np.full(1, value) for name, value in values
    )
    cuts = [np.flatnonzero(column[1:] != column[:-1]) + 1 for column in (run, node)]
    start = np.unique(np.concatenate([np.arange(min(rows, 1)), *cuts]))
    return _Pieces(
        run=run[start if run.size > 1 else np.zeros_like(start)].astype(np.int64),
        node=node[start if node.size > 1 else np.zeros_like(start)].astype(np.int64),
        group=np.full(start.size, group),
        start=start,
        rows=np.diff(start, append=rows),
    )


def _single(column: Any) -> int | None:
    """The one value of a column, if its statistics say that there is one."""
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
        return None
    return int(statistics.min) if statistics.min == statistics.max else None


def _sorted(groups: _OpenGroups, *, times: bool) -> pa.Table:
    """The rows that are judged in order of run, node and ``local_seq``."""
    names = [*INTEGERS, *(["time_us"] if times else [])]
    parts = []
    for table in groups.tables(range(groups.file.num_row_groups), [*names, "kind"]):
        kind = kind_numbers(table.column("kind"), JUDGED)
        kept = np.flatnonzero(kind >= 0)
        parts.append([kind[kept], *(integers(table, name)[kept] for name in names)])
    columns = [np.concatenate(part) for part in zip(*parts, strict=True)]
    parts.clear()
    order = np.lexsort(columns[3:0:-1])
    for at, column in enumerate(columns):
        columns[at] = column[order]
    kind, *columns = columns
    if np.all([column[1:] == column[:-1] for column in columns[:3]], axis=0).any():
        raise UserError(f"{groups.title}: two events of a node share a local_seq: record it again")
    numbers = {name: to_arrow(column) for name, column in zip(names, columns, strict=True)}
    kinds = strings(schema.KIND_NAMES)
    return pa.table({**numbers, "kind": pa.DictionaryArray.from_arrays(to_arrow(kind), kinds)})
