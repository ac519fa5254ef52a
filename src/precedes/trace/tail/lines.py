"""Follows events in lines of text, JSON or CSV: a file that is appended to, or a directory of them.

A line without its end is left for later. A directory is one log: each node's own order is that in
which its lines stand, so a node has all its lines in one file. Positions (``local_seq``), where
lines have them, rise at each node: one that does not is refused, since an earlier row could still
come.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import printable
from precedes.stores import Address
from precedes.trace.arrow_arrays import to_numpy
from precedes.trace.collect import BadCell, NamedRows, histories, rows_of
from precedes.trace.detect import TEXT
from precedes.trace.dialect import Dialect, Found
from precedes.trace.history import History
from precedes.trace.importers import csv_table, jsonl
from precedes.trace.importers.batches import BLOCK_BYTES, LINE_BYTES_MAX, Block
from precedes.trace.schema import EVENTS
from precedes.trace.source import BOM, GZIP_MAGIC, ZSTD_MAGIC
from precedes.trace.tail.naming import Naming
from precedes.trace.tail.rows import NO_ROWS, GrowingFile, Rows, Tail

SUFFIXES: Final = {"jsonl": (".jsonl",), "csv": (".csv", ".tsv")}
LINE_END: Final = re.compile(rb"\r\n|\r|\n")  # of a table; elsewhere a line ends with \n
FIRST_PLACE: Final = -(2**63)


class LinesTail(Tail):
    """Lines as a growing log; nodes and messages are numbered as they appear."""

    is_closed = False

    def __init__(self, path: Path, format: str, dialect: Dialect) -> None:
        self.title = str(path)
        self._path, self._format, self._dialect = path, format, dialect
        self.options = {
            "format": format,
            "columns": dict(dialect.columns),
            "kinds": dict(dialect.kinds),
            "delimiter": dialect.delimiter,
        }
        self._files: dict[str, _LinesFile] = {}
        self._naming = Naming()
        self._owner: dict[str, str] = {}  # node: the file that has its lines
        self._found = Found()  # whether rows have positions: all, or none

    @property
    def run_id(self) -> int | str:
        """The one run in it."""
        return self._naming.run_id

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return self._naming.labels

    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """New rows of all files; lines of nodes that rest stand between others, and come too."""
        self._find()
        rows = None
        for file in self._files.values():
            if block := file.read():
                rows = (rows or NO_ROWS).then(self._take(file, block))
        return rows

    def finish(self) -> Rows:
        """The last lines, if they lack their ends; half a line is a UserError, as in any log."""
        rows = NO_ROWS
        for file in self._files.values():
            if block := file.rest():
                rows = rows.then(self._take(file, block))
        return rows

    def written_bytes(self) -> int:
        """Size of all files now."""
        self._find()
        return sum(file.written_bytes() for file in self._files.values())

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
        found = Found()
        files = [self._files[name] for name in sorted(self._files)]
        batches = (batch for file in files for batch in file.past(found))
        (history,) = histories(batches, found, title=self.title)
        return history

    def node_in(self, history: History, node: int) -> int:
        """A node as a history numbers it: by its name."""
        assert history.node_names is not None
        return history.node_names.index(self.node_label(node))

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        files = {name: file.pack() for name, file in self._files.items()}
        more = {"owner": self._owner, "has_order": self._found.has_order}
        return {"files": files, "naming": self._naming.pack(), **more}

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        for name, place in about["files"].items():
            self._add(self._home() / name).unpack(place)
        self._naming.unpack(about["naming"])
        self.nodes = len(self._naming.names)
        self._owner, self._found.has_order = about["owner"], about["has_order"]

    def _home(self) -> Path:
        return self._path if os.path.isdir(self._path) else self._path.parent

    def _find(self) -> None:
        paths = [self._path]
        if os.path.isdir(self._path):
            try:
                paths = [path for path in self._path.iterdir() if self._is_followed(path)]
            except OSError as error:
                raise UserError(f"cannot read {self._path}: {error.strerror}") from None
        for path in sorted(paths):
            if path.name not in self._files:
                self._add(path)

    def _add(self, path: Path) -> _LinesFile:
        file = _LinesFile(path, self._format, self._dialect, self._found)
        self._files[path.name] = file
        return file

    def _is_followed(self, path: Path) -> bool:
        """Whether a path in the directory is part of the log; its rows must not go unnoticed."""
        suffixes = SUFFIXES[self._format]
        if path.name.endswith(suffixes):
            return True
        if path.is_dir() or path.name.startswith((".", "_")):
            return False
        raise UserError(
            f"{self._path} holds {path.name}, which does not end with {' or '.join(suffixes)}: "
            "rename it, or move it elsewhere"
        )

    def _take(self, file: _LinesFile, block: bytes) -> Rows:
        """The rows in some lines; they are read then."""
        table = file.events(block)
        self._naming.take_runs(table.column("run_id").unique().to_pylist(), self.title)
        found = file.rows(table)
        for name in found.names:
            if self._owner.setdefault(name, file.path.name) != file.path.name:
                raise UserError(
                    f"node {name} has lines in {self._owner[name]} and in {file.path.name}: "
                    "which come first is not known, so a node's lines must be in one file"
                )
        rows = self._naming.rows(found, file.where)
        self.nodes = len(self._naming.names)
        file.advance(block)
        return rows


class _LinesFile:
    """One file of lines."""

    def __init__(self, path: Path, format: str, dialect: Dialect, found: Found) -> None:
        self.path = path
        self.lines = 0
        self._format, self._dialect = format, dialect.at(Address.of(path))
        self._found = found  # of all files
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
            if self._format == "csv":
                end = self._whole_rows(data[:end])
            if end or len(data) < size:
                return data[:end]
            if size > LINE_BYTES_MAX:
                raise UserError(f"{self.path}, line {self.lines + 1} has more than {size:,} bytes")
            size *= 2

    def _whole_rows(self, lines: bytes) -> int:
        """How many bytes the header and the whole rows of some lines take."""
        begin = 0 if self._header else _first_line(lines)
        header = (self._header or lines[:begin]).decode(errors="replace")
        mark = csv_table.separator_of(header, self._dialect)
        return len(lines) if mark is None else begin + csv_table.whole_rows(lines[begin:], mark)

    def rest(self) -> bytes:
        """What stands behind the last whole line."""
        return self._file.read(LINE_BYTES_MAX)

    def written_bytes(self) -> int:
        """Size of the file now."""
        return self._file.written_bytes()

    def past(self, found: Found) -> Iterator[pa.RecordBatch]:
        """All that was read, as the batch audit reads it."""
        if self._file.offset:
            with self.path.open("rb") as file:
                text = io.BufferedReader(io.BytesIO(file.read(self._file.offset)))
            title = str(self.path)
            yield from TEXT[self._format](text, title=title, dialect=self._dialect, found=found)

    def advance(self, block: bytes) -> None:
        """These lines are read."""
        is_table = self._format == "csv"
        self.lines += len(LINE_END.findall(block)) if is_table else block.count(b"\n")
        self._file.advance(block)

    def rewind(self) -> None:
        """Read all again."""
        self.lines, self._last, self._header = 0, {}, b""
        self._file.rewind()

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        more = {"header": self._header.hex(), "last": self._last}
        return {"lines": self.lines, **more, **self._file.pack()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        self.lines, self._last = about["lines"], about["last"]
        self._header = bytes.fromhex(about["header"])
        self._file.unpack(about)

    def events(self, block: bytes) -> pa.Table:
        """The events of some whole lines; without positions, ``local_seq`` is the line of each."""
        if self._file.offset == 0:
            block = block.removeprefix(BOM)
        batches = self._jsonl(block) if self._format == "jsonl" else self._csv(block)
        return pa.Table.from_batches(batches, EVENTS).combine_chunks()

    def rows(self, events: pa.Table) -> NamedRows:
        """The same as rows; ``row`` is the position of each."""
        columns = {name: _one(events.column(name)) for name in EVENTS.names}
        place = to_numpy(columns["local_seq"])
        try:
            found = rows_of(**{name: columns[name] for name in ("node", "kind", "message")})
        except BadCell as bad:
            raise UserError(f"{self.where(place[bad.row])}: {bad.value} {bad.why}") from None
        found = found._replace(row=place[found.row])
        self._check_positions(found)
        return found

    def where(self, place: int) -> str:
        """What people call a row."""
        return f"{self.path}, {'local_seq' if self._found.has_order else 'line'} {place}"

    def _jsonl(self, block: bytes) -> list[pa.RecordBatch]:
        lines = Block(self.lines + 1, block)
        title, found = str(self.path), self._found
        return list(jsonl.block_batches(lines, title=title, dialect=self._dialect, found=found))

    def _csv(self, block: bytes) -> list[pa.RecordBatch]:
        title = f"{self.path}, behind line {self.lines - 1}" if self._header else str(self.path)
        if not self._header:
            end = _first_line(block)
            self._header, block = block[:end], block[end:]
        found = self._found
        found.rows = max(self.lines - 1, 0)
        reader: Any = io.BufferedReader(io.BytesIO(self._header + block))
        return list(csv_table.batches(reader, title=title, dialect=self._dialect, found=found))

    def _check_positions(self, found: NamedRows) -> None:
        """Rows of a node must come in its own order: an earlier one could still come."""
        order = np.argsort(found.node, kind="stable")
        node, place = found.node[order], found.row[order]
        first = np.diff(node, prepend=-1) > 0
        last = np.roll(place, 1)
        last[first] = [self._last.get(found.names[at], FIRST_PLACE) for at in node[first]]
        if (place <= last).any():
            at = int(np.argmax(place <= last))
            raise UserError(
                f"{self.path}: node {printable(found.names[node[at]])} has position {place[at]} "
                f"after {last[at]}: a log that is followed has each node's rows in their order"
            )
        for end in np.flatnonzero(np.roll(first, -1)):
            self._last[found.names[node[end]]] = int(place[end])


def _first_line(block: bytes) -> int:
    """Where the first line of a table ends."""
    end = LINE_END.search(block)
    return end.end() if end else len(block)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)
