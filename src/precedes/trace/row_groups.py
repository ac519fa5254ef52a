"""The runs of a trace file, read by row groups: what lies on disk stays there.

A file in order has its rows by run, node and local_seq, as the writer leaves them. An index says
which rows of which group are a node's; where the statistics of a group name one node the group is
not opened for it. The order of runs and nodes is checked by the index, that of a node's rows when
they are read first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import schema
from precedes.trace.assemble import JUDGED
from precedes.trace.reader import (
    check_cells,
    check_columns,
    damaged,
    integers,
    kind_numbers,
    opened_parquet,
    read_trace,
)
from precedes.trace.rows import CHUNK_ROWS, Chunk, HistoryRows, NoOrder, Rows, cut_chunks
from precedes.trace.sorting import LARGE_ROWS, sort_log
from precedes.trace.source import open_log, title_of


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


class _Groups:
    """The row groups of a trace file, for all its runs.

    The one that was read last is kept: small runs, and the nodes that a witness speaks of, share
    one with those that are read next.
    """

    def __init__(self, address: str, *, version: str) -> None:
        self.address = address
        self._version = version
        self._kept: tuple[int, pa.Table] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": None}

    def tables(self, groups: Sequence[int], names: list[str]) -> Iterator[pa.Table]:
        """These columns, or more, of each of these groups."""
        title = title_of(self.address)
        if _version(self.address) != self._version:
            raise UserError(f"{title} has changed while it was read: audit it again")
        with ExitStack() as stack:
            file: pq.ParquetFile | None = None
            for group in groups:
                kept = self._kept
                if kept is None or kept[0] != group or not {*names} <= {*kept[1].column_names}:
                    if file is None:
                        source = stack.enter_context(open_log(self.address))
                        file = stack.enter_context(opened_parquet(source))
                    kept = self._kept = group, _read(title, file, group, names)
                yield kept[1]


class TraceRows(Rows):
    """One run of a trace file."""

    def __init__(
        self, groups: _Groups, *, metadata: dict[str, Any], run_id: int, pieces: _Pieces
    ) -> None:
        self._groups = groups
        self.address = groups.address
        self.origin = title_of(self.address)
        self.nodes = metadata["nodes"]
        self.complete = metadata["complete"]
        self.run_id = run_id
        self._pieces = pieces
        self.counts = np.bincount(pieces.node, weights=pieces.rows, minlength=self.nodes).astype(
            np.int64
        )

    def chunks(
        self, first: int, last: int, *, chunk_rows: int = CHUNK_ROWS, check: bool = False
    ) -> Iterator[Chunk]:
        """See ``Rows``."""
        low, high = np.searchsorted(self._pieces.node, (first, last)).tolist()
        if low == high:
            return
        pieces = self._pieces.between(low, high)
        names = ["kind", "source", "seq", *(["local_seq"] if check else [])]
        before: tuple[int, int] | None = None
        groups = np.unique(pieces.group).tolist()
        for group, table in zip(groups, self._groups.tables(groups, names), strict=True):
            a, b = np.searchsorted(pieces.group, (group, group + 1)).tolist()
            inside = pieces.between(a, b)
            start = int(inside.start[0])
            offsets = np.append(inside.start, inside.start[-1] + inside.rows[-1]) - start
            rows = table.slice(start, int(offsets[-1]))
            if check:
                before = _check_order(inside.node, offsets, rows, before)
            yield from _chunks(inside.node, offsets, rows, chunk_rows)

    def gathered(self) -> Rows:
        """See ``Rows``."""
        found: Rows
        if int(self.counts.sum()) >= LARGE_ROWS:
            (found,) = (r for r in sort_log(self.address, "precedes") if r.run_id == self.run_id)
        else:
            (history,) = (h for h in read_trace(self.address) if h.run_id == self.run_id)
            found = HistoryRows(history)
        found.complete = self.complete
        return found


def _version(address: str) -> str:
    """What changes with the content of a file."""
    try:
        return Address.of(address).version()
    except FileNotFoundError:
        return "gone"


def _read(title: str, file: pq.ParquetFile, group: int, names: list[str]) -> pa.Table:
    try:
        table = file.read_row_group(group, columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise damaged(title, error) from None
    check_cells(title, table)
    return table


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
    # Arrow's arrays are read-only, which compiled code takes for another type.
    kind = kind_numbers(table.column("kind"), JUDGED)
    source, seq = integers(table, "source").copy(), integers(table, "seq").copy()

    def rows(start: int, stop: int) -> tuple[NDArray[Any], ...]:
        return kind[start:stop], source[start:stop], seq[start:stop]

    yield from cut_chunks(first, np.concatenate(([0], np.cumsum(counts))), chunk_rows, rows)


def trace_rows(address: str) -> list[TraceRows]:
    """The runs of a trace file, in the order of their numbers; a trace without rows is one run.

    Raises ``NoOrder`` if they do not stand by run and node.
    """
    version = _version(address)
    with open_log(address) as source, opened_parquet(source) as file:
        title = source.title
        metadata = schema.decode_metadata(file.schema_arrow.metadata, path=title)
        check_columns(title, file.schema_arrow, times=False)
        pieces = _index(title, file)
    if pieces.node.size and int(pieces.node.min()) < 0:
        raise UserError(f"{title}: an event is at a negative node: record it again")
    if pieces.node.size and int(pieces.node.max()) >= metadata["nodes"]:
        raise UserError(f"{title}: an event is at a node outside 0..{metadata['nodes'] - 1}")
    key = pieces.run * (1 << 32) + pieces.node
    if np.any(key[1:] < key[:-1]):
        raise NoOrder("nodes do not rise")
    runs = np.unique(pieces.run) if pieces.run.size else np.array([metadata["run_id"]])
    groups = _Groups(address, version=version)
    found = []
    for run_id in runs.tolist():
        first, last = np.searchsorted(pieces.run, (run_id, run_id + 1)).tolist()
        part = pieces.between(first, last)
        found.append(TraceRows(groups, metadata=metadata, run_id=run_id, pieces=part))
    return found


def _index(title: str, file: pq.ParquetFile) -> _Pieces:
    """Which rows are whose."""
    columns = {file.schema.column(i).path: i for i in range(len(file.schema))}
    found: list[tuple[NDArray[np.int64], ...]] = []
    for group in range(file.num_row_groups):
        described = file.metadata.row_group(group)
        rows = described.num_rows
        if rows == 0:
            continue
        single = [_single(described.column(columns[name])) for name in ("run_id", "node")]
        names = [n for n, value in zip(("run_id", "node"), single, strict=True) if value is None]
        table = _read(title, file, group, names) if names else None
        run, node = (
            np.full(1, value) if value is not None else integers(table, name)
            for name, value in zip(("run_id", "node"), single, strict=True)
        )
        cuts = [np.zeros(1, np.int64)]
        cuts += [np.flatnonzero(c[1:] != c[:-1]) + 1 for c in (run, node)]
        start = np.unique(np.concatenate(cuts))
        found.append(
            (
                run[start if run.size > 1 else np.zeros_like(start)].astype(np.int64),
                node[start if node.size > 1 else np.zeros_like(start)].astype(np.int64),
                np.full(start.size, group),
                start,
                np.diff(start, append=rows),
            )
        )
    if not found:
        return _Pieces(*(np.empty(0, np.int64) for _ in range(5)))
    return _Pieces(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _single(column: Any) -> int | None:
    """The one value of a column, if its statistics say that there is one."""
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
        return None
    return int(statistics.min) if statistics.min == statistics.max else None
