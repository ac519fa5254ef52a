"""Writes a run's events as one trace file, in bounded memory and all or nothing.

A run is recorded in order of time and stored in order of nodes. Each chunk is sorted by node
when it comes; merging then needs one contiguous piece of every chunk for each range of nodes,
so memory holds one chunk and one row group, however long the run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.files import own_directory
from precedes.model import NODES_MAX, Events
from precedes.stores import Address, Place
from precedes.stores.address import scratch_directory
from precedes.trace import arrays, schema
from precedes.trace.arrays import strings, to_arrow

# Readers skip and share work by row group; a million rows are some 4 MB of file.
GROUP_ROWS: Final = 1_000_000

NANOSECONDS_PER_US: Final = 1000

_HINTS: Final = {
    errno.ENOSPC: "free some space or choose another directory",
    errno.EDQUOT: "free some space or choose another directory",
    errno.EFBIG: "free some space or choose another directory",
    errno.EACCES: "choose a directory you may write to",
    errno.EPERM: "choose a directory you may write to",
    errno.EROFS: "choose a directory you may write to",
    errno.ENOENT: "create the directory first",
    errno.ENOTDIR: "its directory is a file: choose another",
    errno.EISDIR: "give the name of a file",
}

# About 25 MB of spooled events; fewer, larger chunks make the pieces of the merge longer.
CHUNK_ROWS: Final = 1 << 20


class TraceWriter:
    """Records one run; the file appears, complete, when ``close`` returns.

    As a context manager it closes at the end of the block, and aborts if the block raises.
    Until then everything is in a hidden folder next to the target, or in the temporary directory
    if the target is in a store. The folder is removed on ``close``, on ``abort``, when the writer
    is garbage-collected and when the process ends; one left by a killed process is removed by the
    next writer of the same target, or to any store.
    """

    def __init__(
        self,
        path: Place,
        *,
        nodes: int,
        metadata: dict[str, Any] | None = None,
        run_id: int = 0,
        chunk_rows: int = CHUNK_ROWS,
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self.path = Address.of(path)
        self._nodes = nodes
        self._metadata = {**(metadata or {}), "run_id": run_id}
        self._run_id = run_id
        self._group_rows = group_rows
        if not 1 <= nodes <= NODES_MAX:
            raise UserError(f"a trace has 1 to {NODES_MAX} nodes, not {nodes}")
        schema.encode_metadata(nodes=nodes, complete=True, more=self._metadata)
        try:
            self._directory = _make_directory(self.path)
        except OSError as error:
            raise _user_error(self.path, error) from None
        self._remove = weakref.finalize(self, _remove_directory, self._directory, os.getpid())
        self._spool: Spool | None = Spool(self._directory, nodes=nodes, chunk_rows=chunk_rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif self._spool is not None:
            self.close()

    def write(self, events: Events) -> None:
        """Append events; the arrays may be reused as soon as this returns."""
        spool = self._open_spool()
        time_ns, node, kind, source, sequence, packet = events
        if len({column.size for column in events}) != 1:
            self.abort()
            raise UserError("the columns given to a trace differ in length")
        if node.size == 0:
            return
        if int(node.min()) < 0 or int(node.max()) >= self._nodes:
            self.abort()
            raise UserError(f"an event is at a node outside 0..{self._nodes - 1}")
        if int(kind.min()) < 0 or int(kind.max()) >= len(schema.KIND_NAMES):
            self.abort()
            raise UserError(f"an event is of a kind outside 0..{len(schema.KIND_NAMES) - 1}")
        try:
            spool.add(
                time_ns.astype(np.int64) // NANOSECONDS_PER_US,
                packet.astype(np.int64, copy=False),
                source.astype(np.int32, copy=False),
                sequence.astype(np.int32, copy=False),
                kind.astype(np.int8, copy=False),
                node.astype(np.uint16),
            )
        except OSError as error:
            self.abort()
            raise _user_error(self.path, error) from None
        except BaseException:
            self.abort()
            raise

    def close(self, complete: bool = True, **more_metadata: object) -> None:
        """Write the file and replace the target with it."""
        spool = self._open_spool()
        try:
            metadata = schema.encode_metadata(
                nodes=self._nodes, complete=complete, more={**self._metadata, **more_metadata}
            )
            temporary = self._directory / "trace.parquet"
            self._write_file(spool, temporary, schema.SCHEMA.with_metadata(metadata))
            self.path.put_file(temporary)
        except OSError as error:
            raise _user_error(self.path, error) from None
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the recorded events; does nothing after ``close``."""
        self._spool = None
        self._remove()

    def _open_spool(self) -> Spool:
        if self._spool is None:
            raise UserError(f"the trace {self.path} is closed: make another writer")
        return self._spool

    def _write_file(self, spool: Spool, path: Path, table_schema: pa.Schema) -> None:
        # The file is opened here so that its errors carry an errno, and is closed whatever
        # happens; the Parquet writer is closed only when all went well, because closing it
        # after an error would write, and fail, again.
        with path.open("wb") as file:
            writer = pq.ParquetWriter(
                file,
                table_schema,
                compression="zstd",
                compression_level=schema.COMPRESSION_LEVEL,
                use_dictionary=list(schema.DICTIONARY_COLUMNS),
                column_encoding=dict.fromkeys(schema.DELTA_COLUMNS, "DELTA_BINARY_PACKED"),
            )
            try:
                for group in spool.groups(group_rows=self._group_rows):
                    table = self._table(group, table_schema)
                    writer.write_table(table, row_group_size=table.num_rows)
                writer.close()
            finally:
                writer.is_open = False

    def _table(self, group: Group, table_schema: pa.Schema) -> pa.Table:
        kinds = strings(schema.KIND_NAMES)
        columns = [
            to_arrow(np.full(group.node.size, self._run_id, np.int32)),
            to_arrow(group.node),
            to_arrow(group.local_seq),
            to_arrow(group.time_us),
            pa.DictionaryArray.from_arrays(to_arrow(group.kind), kinds),
            to_arrow(group.source),
            to_arrow(group.sequence),
            to_arrow(group.packet, null=group.packet < 0),
        ]
        return pa.Table.from_arrays(columns, schema=table_schema)


def _make_directory(address: Address) -> Path:
    """A new directory next to the target; those of dead writers are removed first.

    All writers of a target share a folder, so that none has to scan the other files
    next to it, which may be many.
    """
    if address.is_folder():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not address.is_local:
        folder = scratch_directory() / address.name
        folder.mkdir()
        return folder
    path = address.local
    folder = path.with_name(f".{path.name}.tmp")
    while True:
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # a writer that finished has removed it
            return own_directory(folder)


def _remove_directory(directory: Path, owner: int) -> None:
    # A forked child that ends must not remove files that its parent is still writing.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # others write the same target
            directory.parent.rmdir()


def _user_error(path: Address, error: OSError) -> UserError:
    reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
    hint = _HINTS.get(error.errno or 0, "choose another path")
    return UserError(f"cannot write the trace {path}: {reason}; {hint}")


class Chunk(NamedTuple):
    """Events sorted by node, each node's in order of time; arrays or views of a file."""

    bounds: NDArray[np.int64]  # node p's rows are bounds[p] to bounds[p + 1]
    time_us: NDArray[np.int64]
    packet: NDArray[np.int64]  # -1 for none; empty if there is none at all
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    kind: NDArray[np.int8]


class Group(NamedTuple):
    """Rows of the trace, sorted by (node, local_seq)."""

    node: NDArray[np.int32]
    local_seq: NDArray[np.int64]
    time_us: NDArray[np.int64]
    packet: NDArray[np.int64]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    kind: NDArray[np.int8]


class Spool:
    """Takes events in order of time and returns them in order of nodes."""

    def __init__(self, directory: Path, *, nodes: int, chunk_rows: int = CHUNK_ROWS) -> None:
        self._directory = directory
        self._nodes = nodes
        self._chunk_rows = chunk_rows
        self._waiting: list[tuple[NDArray[Any], ...]] = []
        self._waiting_rows = 0
        self._chunks: list[Chunk] = []

    def add(self, *columns: NDArray[Any]) -> None:
        """Add a copy of events: columns as in ``Chunk``, then nodes; full chunks go to disk."""
        node = columns[-1]
        at = 0
        while at < node.size:
            count = min(self._chunk_rows - self._waiting_rows, node.size - at)
            self._waiting.append(tuple(column[at : at + count].copy() for column in columns))
            self._waiting_rows += count
            at += count
            if self._waiting_rows == self._chunk_rows:
                self._chunks.append(self._store(self._sorted()))

    def groups(self, *, group_rows: int) -> Iterator[Group]:
        """All the events, in groups of about ``group_rows`` rows."""
        if self._waiting_rows:
            self._chunks.append(self._sorted())
        totals = np.zeros(self._nodes, np.int64)
        for chunk in self._chunks:
            totals += np.diff(chunk.bounds)
        ends = np.cumsum(totals)
        first = 0
        while first < self._nodes:
            before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, before + group_rows, side="right"))
            last = max(last, first + 1)
            if last == first + 1:
                yield from self._one_node(first, group_rows)
            elif ends[last - 1] > before:
                yield self._several_nodes(first, last)
            first = last

    def _sorted(self) -> Chunk:
        """The buffered events as one chunk."""
        columns = [np.concatenate(parts) for parts in zip(*self._waiting, strict=True)]
        self._waiting = []
        self._waiting_rows = 0
        node = columns.pop()
        # Nodes fit 16 bits, for which NumPy's stable sort is a radix sort.
        order = np.argsort(node, kind="stable")
        bounds = np.zeros(self._nodes + 1, np.int64)
        np.cumsum(np.bincount(node, minlength=self._nodes), out=bounds[1:])
        if int(columns[1].max()) < 0:
            columns[1] = columns[1][:0]
        return Chunk(bounds, *(column[order] if column.size else column for column in columns))

    def _store(self, chunk: Chunk) -> Chunk:
        """The same chunk as views of a file."""
        path = self._directory / f"chunk-{len(self._chunks):06d}"
        arrays.save(path, chunk._asdict())
        return Chunk(**arrays.mapped(path)[0])

    def _several_nodes(self, first: int, last: int) -> Group:
        """One group of all the rows of nodes ``first`` up to and without ``last``."""
        pieces = [_piece(chunk, first, last) for chunk in self._chunks]
        columns = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        node = columns[0]
        if len(pieces) > 1:
            order = np.argsort(node, kind="stable")
            columns = [column[order] for column in columns]
            node = columns[0]
        starts = np.searchsorted(node, np.arange(first, last, dtype=np.uint16))
        local_seq = np.arange(node.size) - starts[node - np.uint16(first)]
        return Group(node.astype(np.int32), local_seq, *columns[1:])

    def _one_node(self, node: int, group_rows: int) -> Iterator[Group]:
        """The rows of one node, which may be more than a group holds."""
        waiting: list[tuple[NDArray[Any], ...]] = []
        rows = 0
        done = 0
        for i, chunk in enumerate(self._chunks):
            piece = _piece(chunk, node, node + 1)
            waiting.append(piece)
            rows += piece[0].size
            if rows >= group_rows or (rows > 0 and i == len(self._chunks) - 1):
                columns = [np.concatenate(parts) for parts in zip(*waiting, strict=True)]
                local_seq = np.arange(done, done + rows)
                yield Group(columns[0].astype(np.int32), local_seq, *columns[1:])
                waiting = []
                done += rows
                rows = 0


def _piece(chunk: Chunk, first: int, last: int) -> tuple[NDArray[Any], ...]:
    bounds = chunk.bounds[first : last + 1]
    nodes = np.arange(first, last, dtype=np.uint16)
    rows = slice(int(bounds[0]), int(bounds[-1]))
    if chunk.packet.size == 0:
        chunk = chunk._replace(packet=np.broadcast_to(np.int64(-1), chunk.time_us.shape))
    return (np.repeat(nodes, np.diff(bounds)), *(column[rows] for column in chunk[1:]))
