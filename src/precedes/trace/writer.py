"""Writes a run's events as one trace file, in bounded memory and all or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from precedes.errors import UserError
from precedes.files import own_directory
from precedes.model import NODES_MAX, Events
from precedes.stores import Address, Place
from precedes.stores.address import scratch_directory
from precedes.trace import schema
from precedes.trace.arrow_arrays import strings, to_arrow
from precedes.trace.spool import CHUNK_ROWS, Group, Spool

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


class TraceWriter:
    """Records one run; the file appears, complete, when ``close`` returns.

    As a context manager it closes at the end of the block, and aborts if the block raises.
    Until then everything is in a hidden folder beside the target, or in the temporary directory
    if the target is in a store. The folder goes away on ``close``, on ``abort``, when the writer is
    forgotten and when the process ends; one left by a killed process is removed by the next writer
    of the same target, or to any store.
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
        """Take the next events; the arrays may be reused as soon as this returns."""
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
                time_us=time_ns.astype(np.int64) // NANOSECONDS_PER_US,
                packet=packet.astype(np.int64, copy=False),
                source=source.astype(np.int32, copy=False),
                sequence=sequence.astype(np.int32, copy=False),
                kind=kind.astype(np.int8, copy=False),
                node=node.astype(np.uint16),
            )
        except OSError as error:
            self.abort()
            raise _user_error(self.path, error) from None
        except BaseException:
            self.abort()
            raise

    def close(self, complete: bool = True, **more_metadata: object) -> None:
        """Write the file and put it in place of whatever had its name."""
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
        """Give up what was recorded; does nothing after ``close``."""
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
    """A new directory beside the target; what dead writers left is removed first.

    All writers of a target share a folder, so that none has to look through the other files
    beside it, which may be many.
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
    # A forked child that ends must not take away what its parent is still writing.
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):  # others write the same target
            directory.parent.rmdir()


def _user_error(path: Address, error: OSError) -> UserError:
    reason = os.strerror(error.errno) if error.errno else str(error).splitlines()[0]
    hint = _HINTS.get(error.errno or 0, "choose another path")
    return UserError(f"cannot write the trace {path}: {reason}; {hint}")
