"""Follows events in lines of text, JSON or CSV: a file that is appended to, or a directory of them.

A line without its end is left for later. A directory is one log: each node's own order is that in
which its lines stand, so a node has all its lines in one file. A table with a column of positions
has them rising at each node.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.trace.arrow_arrays import to_numpy
from precedes.trace.detect import load
from precedes.trace.dialect import Dialect, Found
from precedes.trace.history import History
from precedes.trace.importers import csv_table, jsonl
from precedes.trace.importers.lines import BLOCK_BYTES, LINE_BYTES_MAX, Block
from precedes.trace.named_rows import BadCell, NamedRows, rows_of
from precedes.trace.schema import EVENTS
from precedes.trace.tail.end import End
from precedes.trace.tail.file import GrowingFile
from precedes.trace.tail.naming import Naming
from precedes.trace.tail.rows import NO_ROWS, Rows
from precedes.trace.unpack import BOM, GZIP_MAGIC, ZSTD_MAGIC

SUFFIXES: Final = {"jsonl": ".jsonl", "csv": ".csv"}


class LinesTail:
    """Lines as a growing log; nodes and messages are numbered as they appear."""

    is_closed = False

    def __init__(self, path: Path, format: str, dialect: Dialect) -> None:
        self.title = str(path)
        self._path, self._format, self._dialect = path, format, dialect
        self._files: dict[str, _LinesFile] = {}
        self._naming = Naming()
        self._owner: dict[str, str] = {}  # node: the file that has its lines

    @property
    def nodes(self) -> int:
        """How many nodes have appeared."""
        return len(self._naming.names)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return self._naming.labels

    def read(self, *, resting: Collection[int] = ()) -> Rows:
        """New rows of all files; lines of nodes that rest stand between others, and come too."""
        self._find()
        rows = NO_ROWS
        for file in self._files.values():
            rows = rows.then(self._take(file, file.read()))
        return rows

    def finish(self) -> Rows:
        """A last line without its end, if it is whole."""
        rows = NO_ROWS
        for file in self._files.values():
            try:
                rows = rows.then(self._take(file, file.rest()))
            except UserError:
                continue  # half a line, of a writer that was interrupted
        return rows

    def end(self) -> End:
        """Whether lines are missing cannot be known."""
        return End(False, [])

    def is_over(self, *, quiet_s: float) -> bool:
        """Lines say nothing of their end."""
        return False

    def gone(self) -> list[int]:
        """Nodes without more rows: no line says so but a crash or a leave."""
        return []

    def node_label(self, node: int) -> str:
        """A node's name."""
        return self._naming.names[node]

    def message_label(self, message: int) -> str:
        """A message's name."""
        return self._naming.message_label(message)

    def size_bytes(self) -> int:
        """What names take."""
        return self._naming.size_bytes()

    def rewind(self) -> None:
        """Read all again."""
        self._naming.forget_messages()
        for file in self._files.values():
            file.rewind()

    def history(self) -> History:
        """What was read, as the batch audit reads it."""
        read = b""
        for file in self._files.values():
            past = file.past().removeprefix(BOM)
            read += b"\n" if read and not read.endswith(b"\n") else b""
            # The header of a table stands in each file.
            read += past.partition(b"\n")[2] if read and self._format == "csv" else past
        (history,) = load(io.BytesIO(read), format=self._format, dialect=self._dialect)
        return history

    def node_in(self, history: History, node: int) -> int:
        """A node as a history numbers it: by its name."""
        assert history.node_names is not None
        return history.node_names.index(self.node_label(node))

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        files = {name: file.pack() for name, file in self._files.items()}
        return {"files": files, "naming": self._naming.pack(), "owner": self._owner}

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        for name, place in about["files"].items():
            self._files[name] = _LinesFile(self._home() / name, self._format, self._dialect)
            self._files[name].unpack(place)
        self._naming.unpack(about["naming"])
        self._owner = about["owner"]

    def _home(self) -> Path:
        return self._path if os.path.isdir(self._path) else self._path.parent

    def _find(self) -> None:
        try:
            paths = [self._path]
            if os.path.isdir(self._path):
                paths = [
                    path
                    for path in self._path.iterdir()
                    if path.name.endswith(SUFFIXES[self._format])
                ]
        except OSError as error:
            raise UserError(f"cannot read {self._path}: {error.strerror}") from None
        for path in sorted(paths):
            if path.name not in self._files:
                self._files[path.name] = _LinesFile(path, self._format, self._dialect)

    def _take(self, file: _LinesFile, block: bytes) -> Rows:
        """The rows in some lines; they are read then."""
        rows = NO_ROWS
        if block:
            found = file.rows(block)
            for name in found.names:
                if self._owner.setdefault(name, file.path.name) != file.path.name:
                    raise UserError(
                        f"node {name} has lines in {self._owner[name]} and in {file.path.name}: "
                        "which come first is not known, so a node's lines must be in one file"
                    )
            rows = self._naming.rows(found, file.where)
            file.advance(block)
        return rows


class _LinesFile:
    """One file of lines."""

    def __init__(self, path: Path, format: str, dialect: Dialect) -> None:
        self.path = path
        self.lines = 0
        self.run_id: str | None = None
        self._format, self._dialect = format, dialect
        self._file = GrowingFile(path)
        self._header = b""  # of a table
        self._last: dict[str, int] = {}  # node: the position of its last row

    def read(self) -> bytes:
        """Whole lines that were added, about a block of them."""
        size = BLOCK_BYTES
        while True:
            data = self._file.read(size)
            if self._file.offset == 0 and data.startswith((GZIP_MAGIC, ZSTD_MAGIC)):
                raise UserError(f"{self.path} is compressed: only plain lines can be followed")
            end = data.rfind(b"\n") + 1
            while self._format == "csv" and data.count(b'"', 0, end) % 2:
                end = data.rfind(b"\n", 0, end - 1) + 1  # an end of line inside a cell
            if end or len(data) < size:
                return data[:end]
            if size > LINE_BYTES_MAX:
                raise UserError(f"{self.path}, line {self.lines + 1} has more than {size:,} bytes")
            size *= 2

    def rest(self) -> bytes:
        """What stands behind the last whole line."""
        return self._file.read(LINE_BYTES_MAX)

    def past(self) -> bytes:
        """All lines that were read; of a table without its header."""
        with self.path.open("rb") as file:
            return file.read(self._file.offset)

    def advance(self, block: bytes) -> None:
        """These lines are read."""
        self.lines += block.count(b"\n")
        self._file.advance(block)

    def rewind(self) -> None:
        """Read all again."""
        self.lines, self._last, self._header = 0, {}, b""
        self._file.rewind()

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        more = {"header": self._header.hex(), "last": self._last, "run_id": self.run_id}
        return {"lines": self.lines, **more, **self._file.pack()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        self.lines, self.run_id = about["lines"], about["run_id"]
        self._header, self._last = bytes.fromhex(about["header"]), about["last"]
        self._file.unpack(about)

    def rows(self, block: bytes) -> NamedRows:
        """The rows of some whole lines; ``row`` is the line of each."""
        if self._file.offset == 0:
            block = block.removeprefix(BOM)
        batches = self._jsonl(block) if self._format == "jsonl" else self._csv(block)
        table = pa.Table.from_batches(batches, EVENTS).combine_chunks()
        columns = {name: _one(table.column(name)) for name in EVENTS.names}
        self._check_run(columns["run_id"])
        place = to_numpy(columns["local_seq"])
        try:
            found = rows_of(**{name: columns[name] for name in ("node", "kind", "message")})
        except BadCell as bad:
            raise UserError(f"{self.where(place[bad.row])}: {bad.value} {bad.why}") from None
        return found._replace(row=place[found.row])

    def where(self, place: int) -> str:
        """What people call a row."""
        return f"{self.path}, {'position' if self._last else 'line'} {place}"

    def _jsonl(self, block: bytes) -> list[pa.RecordBatch]:
        lines = Block(self.lines + 1, block)
        title, found = str(self.path), Found()
        batches = list(jsonl.block_batches(lines, title=title, dialect=self._dialect, found=found))
        if found.has_order:
            for batch in batches:
                self._check_positions(batch)
        return batches

    def _csv(self, block: bytes) -> list[pa.RecordBatch]:
        if not self._header:
            end = block.find(b"\n") + 1
            self._header, block = block[:end], block[end:]
            text, title = self._header + block, str(self.path)
        else:
            text, title = self._header + block, f"{self.path}, behind line {self.lines}"
        reader: Any = io.BufferedReader(io.BytesIO(text))
        found = Found()
        batches = list(csv_table.batches(reader, title=title, dialect=self._dialect, found=found))
        name = self._dialect.columns.get("local_seq", "local_seq")
        if name.encode() in self._header:
            for batch in batches:
                self._check_positions(batch)
        return batches

    def _check_positions(self, batch: pa.RecordBatch) -> None:
        """Rows of a node must come in its own order: an earlier one could still come."""
        for node, place in zip(
            batch.column("node").to_pylist(), batch.column("local_seq").to_pylist(), strict=True
        ):
            if self._last.get(node, place - 1) >= place:
                raise UserError(
                    f"{self.path}: node {node} has position {place} after {self._last[node]}: a "
                    "table that is followed has each node's rows in their order"
                )
            self._last[node] = place

    def _check_run(self, run_id: pa.Array) -> None:
        runs = run_id.unique().to_pylist()
        self.run_id = self.run_id if self.run_id is not None else (runs or [None])[0]
        if any(run != self.run_id for run in runs):
            raise UserError(f"{self.path} holds several runs: one can be followed at a time")


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
