"""Logs that are read while they are written.

``_LinesTail`` follows events in lines of text, JSON or CSV: a file that is appended to, or a
directory of them. A line without its end is left for later. A directory is one log: each node's own
order is that in which its lines stand, so a node has all its lines in one file. Positions
(``local_seq``), where lines have them, rise at each node: one that does not is refused, since an
earlier row could still come. ``Naming`` numbers nodes and messages as they appear. A
message has its number from its broadcast on; a delivery that is read earlier has a label,
whose message is known later. Names are kept permanently, about 200 bytes each.

``_MemberTail`` follows the logs that the members of a live group write into a directory. A member
that starts later is awaited; one that joins adds a log, with the state that it begins with; a row
that is half written is left for later; a log that begins again has lost its earlier rows: a
UserError. The group has
ended when all members have, or some have and nothing has been written for a while: a member that
was killed leaves no mark.
"""

from __future__ import annotations

import io
import os
import re
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import EventKind, printable
from precedes.stores import Address, Place
from precedes.trace import member_log
from precedes.trace.arrays import repeated, strings, to_arrow
from precedes.trace.dialect import ONE_RUN, Dialect, Notes
from precedes.trace.formats import jsonl, tables
from precedes.trace.formats.text import BLOCK_BYTES, LINE_BYTES_MAX, Block
from precedes.trace.members import (
    Ends,
    are_of_one_group,
    has_begun,
    holds_member_logs,
    read_members,
)
from precedes.trace.opening import TEXT
from precedes.trace.rows import JUDGED, History
from precedes.trace.schema import EVENTS
from precedes.trace.sort.merge import histories
from precedes.trace.sort.naming import RUN_NUMBER
from precedes.trace.sort.pack import Packed, pack
from precedes.trace.source import BOM, GZIP_MAGIC, ZSTD_MAGIC

SHIFT: Final = 32
NO_MESSAGE: Final = -1

# This many bytes before the read position must be unchanged.
MARK_BYTES: Final = 256


class Rows(NamedTuple):
    """Rows of a log, each node's in its own order.

    A message is ``source << 32 | sequence``, NO_MESSAGE if a row has none, or -2 - label if its
    broadcast was not read so far.
    """

    node: NDArray[np.int32]
    kind: NDArray[np.int8]
    message: NDArray[np.int64]

    def at(self, index: NDArray[Any]) -> Rows:
        """The rows that an index selects."""
        return Rows(self.node[index], self.kind[index], self.message[index])

    def then(self, others: Rows) -> Rows:
        """These rows followed by others."""
        if not self.node.size:
            return others
        if not others.node.size:
            return self
        return Rows(
            np.concatenate((self.node, others.node)),
            np.concatenate((self.kind, others.kind)),
            np.concatenate((self.message, others.message)),
        )


NO_ROWS: Final = Rows(np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int64))


def _message_of(source: int, sequence: int) -> int:
    """The number of a message in ``Rows``."""
    return (source << SHIFT) | sequence


def label_of(message: int) -> str:
    """The label of a message without a name: its source and its sequence."""
    return f"{message >> SHIFT}:{message & (1 << SHIFT) - 1}"


class End(NamedTuple):
    """The end of a log: if undelivered messages are lost, and the nodes that crashed."""

    complete: bool
    crashed: list[int]


class _GrowingFile:
    """A file with a read position. One that shrinks or has other contents is a UserError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._mark = b""

    def read(self, limit_bytes: int) -> bytes:
        """The next bytes, up to a limit; empty if the file did not grow."""
        begin = self.offset - len(self._mark)
        try:
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                data = os.pread(descriptor, len(self._mark) + limit_bytes, begin)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            raise UserError(f"{self.path} is gone: a log that is followed must stay") from None
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror}") from None
        if len(data) < len(self._mark):
            raise UserError(f"{self.path} has become shorter: a log that is followed only grows")
        if not data.startswith(self._mark):
            raise UserError(f"{self.path} was replaced by another file: follow it from the start")
        return data[len(self._mark) :]

    def written_bytes(self) -> int:
        """Size of the file now; 0 if it cannot be determined, which the next ``read`` reports."""
        try:
            return os.path.getsize(self.path)
        except OSError:
            return 0

    def advance(self, data: bytes) -> None:
        """Consume the result of ``read`` up to here: the next call begins after it."""
        self.offset += len(data)
        self._mark = (self._mark + data[-MARK_BYTES:])[-MARK_BYTES:]

    def rewind(self) -> None:
        """Begin again."""
        self.offset, self._mark = 0, b""

    def pack(self) -> dict[str, Any]:
        """The read position, as plain values."""
        return {"offset": self.offset, "mark": self._mark.hex()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Restore the result of ``pack``."""
        self.offset, self._mark = int(about["offset"]), bytes.fromhex(about["mark"])


class Tail(ABC):
    """A log that is read while it is written.

    ``options`` are those that the rows depend on.
    """

    title: str
    options: Mapping[str, Any]
    is_closed: bool  # all nodes are known before the first row
    has_states: bool = False  # a node that appears later begins with a state
    nodes: int = 0  # number of known nodes

    @property
    def run_id(self) -> int | str:
        """The one run in it."""
        return 0

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return np.empty(0, np.int64)

    @abstractmethod
    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """Some new rows, or None if nothing new was written; nodes that are paused may be left out.

        Lines that are not judged are new too, so that there may be no rows.
        """

    def finish(self) -> Rows:
        """The remaining rows, when nothing more will be written."""
        return NO_ROWS

    @abstractmethod
    def written_bytes(self) -> int:
        """Size of the log now: it changes with every write."""

    def end(self) -> End:
        """The end of the log, if this is it; without an end mark, rows may be missing."""
        return End(False, [])

    def is_over(self, *, quiet_s: float) -> bool:
        """Return whether no more rows will come, after that time without a write."""
        return False

    def gone(self) -> list[int]:
        """Nodes that will have no more rows; a row of a crash or a leave implies it."""
        return []

    def node_label(self, node: int) -> str:
        """A node's name."""
        return str(node)

    def message_label(self, message: int) -> str:
        """The name of a message in ``Rows``."""
        return label_of(message)

    def size_bytes(self) -> int:
        """Memory of the names."""
        return 0

    @abstractmethod
    def rewind(self) -> None:
        """Start again from the beginning of the log."""

    @abstractmethod
    def history(self) -> History:
        """All rows so far, as the batch audit reads them."""

    def node_in(self, history: History, node: int) -> int:
        """The number of a node in that history."""
        return node

    @abstractmethod
    def pack(self) -> dict[str, Any]:
        """The state, as plain values."""

    @abstractmethod
    def unpack(self, about: dict[str, Any]) -> None:
        """Restore the result of ``pack``."""


NAME_BYTES: Final = 200
FIRST_LABEL: Final = -2


class Naming:
    """The names so far."""

    def __init__(self) -> None:
        self.names: list[str] = []  # of nodes
        self._nodes: dict[str, int] = {}
        self._numbers: dict[str, int] = {}  # a message's number, or its label's
        self._sent: list[list[str]] = []  # node: names of its messages
        self._labels: list[str] = []
        self._label_message = array("q")
        self._run: str | None = None  # of the first row

    @property
    def run_id(self) -> int | str:
        """The run, a number if its id is one."""
        run = ONE_RUN if self._run is None else self._run
        return int(run) if RUN_NUMBER.fullmatch(run) else run

    def take_runs(self, runs: Iterable[str], where: str) -> None:
        """Record the run of some rows; a second one is a UserError."""
        for run in runs:
            if self._run is None:
                self._run = run
            if run != self._run:
                raise UserError(
                    f"{where} holds several runs, {printable(self._run)} and {printable(run)}: "
                    "one can be followed at a time"
                )

    def forget_messages(self) -> None:
        """Before all is read again: nodes keep their numbers."""
        self._numbers, self._labels, self._label_message = {}, [], array("q")
        self._sent = [[] for _ in self.names]

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return np.array(self._label_message, np.int64)

    def rows(self, block: Packed, where: Callable[[str, int], str]) -> Rows:
        """The same rows as numbers; ``where`` names a row by its node and position."""
        names = block.key_node.to_pylist()
        node = np.array([self._node(name) for name in names], np.int32)
        sizes = np.diff(block.bounds)
        labels = block.label.to_pylist()
        key = np.repeat(np.arange(node.size), sizes)
        place = block.low[key] + block.position.astype(np.int64)
        for at in block.sent[np.argsort(place[block.sent], kind="stable")].tolist():
            name = labels[block.message[at]]
            if not self._broadcast(int(node[key[at]]), name):
                here = where(names[key[at]], int(place[at]))
                raise UserError(f"{here}: message {printable(name)} is broadcast again")
        numbers = [self._number(name) for name in labels]
        message = np.array([*numbers, NO_MESSAGE], np.int64)[block.message]
        return Rows(node[key], block.kind, message)

    def _node(self, name: str) -> int:
        if name not in self._nodes:
            self._nodes[name] = len(self.names)
            self.names.append(name)
            self._sent.append([])
        return self._nodes[name]

    def _broadcast(self, node: int, name: str) -> bool:
        """Number a message; False if it was broadcast before."""
        number = self._numbers.get(name, NO_MESSAGE)
        if number >= 0:
            return False
        self._sent[node].append(name)
        message = _message_of(node, len(self._sent[node]))
        if number <= FIRST_LABEL:
            self._label_message[FIRST_LABEL - number] = message
        self._numbers[name] = message
        return True

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = FIRST_LABEL - len(self._labels)
            self._labels.append(name)
            self._label_message.append(NO_MESSAGE)
        return self._numbers[name]

    def message_label(self, message: int) -> str:
        """A message's name."""
        if message <= FIRST_LABEL:
            return self._labels[FIRST_LABEL - message]
        return self._sent[message >> SHIFT][(message & (1 << SHIFT) - 1) - 1]

    def size_bytes(self) -> int:
        """Approximate memory of the names."""
        return NAME_BYTES * len(self._numbers)

    def pack(self) -> dict[str, Any]:
        """All names, as plain values."""
        return {
            "run": self._run,
            "names": self.names,
            "sent": self._sent,
            "labels": self._labels,
            "label_message": list(self._label_message),
        }

    def unpack(self, about: dict[str, Any]) -> None:
        """Restore the result of ``pack``."""
        self.names, self._sent, self._run = about["names"], about["sent"], about["run"]
        self._labels = about["labels"]
        self._label_message = array("q", about["label_message"])
        self._nodes = {name: number for number, name in enumerate(self.names)}
        self._numbers = {name: FIRST_LABEL - at for at, name in enumerate(self._labels)}
        for node, names in enumerate(self._sent):
            self._numbers |= {name: _message_of(node, at + 1) for at, name in enumerate(names)}


SUFFIXES: Final = {"jsonl": (".jsonl",), "csv": (".csv", ".tsv")}
LINE_END: Final = re.compile(rb"\r\n|\r|\n")  # of a table; elsewhere a line ends with \n
FIRST_PLACE: Final = -(2**63)


class _LinesTail(Tail):
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
        self._files: dict[str, LinesFile] = {}
        self._naming = Naming()
        self._owner: dict[str, str] = {}  # node: the file that has its lines
        self._notes = Notes()  # whether rows have positions: all, or none

    @property
    def run_id(self) -> int | str:
        """The one run in it."""
        return self._naming.run_id

    @property
    def labels(self) -> NDArray[np.int64]:
        """The message of each label, or -1."""
        return self._naming.labels

    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """New rows of all files; lines of paused nodes between others are included."""
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
        """Memory of the names."""
        return self._naming.size_bytes()

    def rewind(self) -> None:
        """Start again from the beginning of the log."""
        self._naming.forget_messages()
        for file in self._files.values():
            file.rewind()

    def history(self) -> History:
        """All rows so far, as the batch audit reads them."""
        notes = Notes()
        files = [self._files[name] for name in sorted(self._files)]
        batches = (batch for file in files for batch in file.past(notes))
        (history,) = histories(batches, notes, title=self.title)
        return history

    def node_in(self, history: History, node: int) -> int:
        """The number of a node in a history: by its name."""
        assert history.node_names is not None
        return history.node_names.index(self.node_label(node))

    def pack(self) -> dict[str, Any]:
        """The state, as plain values."""
        files = {name: file.pack() for name, file in self._files.items()}
        more = {"owner": self._owner, "has_order": self._notes.has_order}
        return {"files": files, "naming": self._naming.pack(), **more}

    def unpack(self, about: dict[str, Any]) -> None:
        """Restore the result of ``pack``."""
        for name, place in about["files"].items():
            self._add(self._home() / name).unpack(place)
        self._naming.unpack(about["naming"])
        self.nodes = len(self._naming.names)
        self._owner, self._notes.has_order = about["owner"], about["has_order"]

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

    def _add(self, path: Path) -> LinesFile:
        file = LinesFile(path, self._format, self._dialect, self._notes)
        self._files[path.name] = file
        return file

    def _is_followed(self, path: Path) -> bool:
        """Return whether a path in the directory is part of the log; no row may be missed."""
        suffixes = SUFFIXES[self._format]
        if path.name.endswith(suffixes):
            return True
        if path.is_dir() or path.name.startswith((".", "_")):
            return False
        raise UserError(
            f"{self._path} holds {path.name}, which does not end with {' or '.join(suffixes)}: "
            "rename it, or move it elsewhere"
        )

    def _take(self, file: LinesFile, block: bytes) -> Rows:
        """The rows in some lines, which count as read."""
        table = file.events(block)
        self._naming.take_runs(table.column("run_id").unique().to_pylist(), self.title)
        rows = NO_ROWS
        if (packed := pack(table)) is not None:
            for name in packed.key_node.to_pylist():
                if self._owner.setdefault(name, file.path.name) != file.path.name:
                    raise UserError(
                        f"node {name} has lines in {self._owner[name]} and in {file.path.name}: "
                        "their order is unknown, so a node's lines must be in one file"
                    )
            file.check_positions(packed)
            rows = self._naming.rows(packed, file.where)
        self.nodes = len(self._naming.names)
        file.advance(block)
        return rows


class LinesFile:
    """A file of lines that is appended to."""

    def __init__(self, path: Path, format: str, dialect: Dialect, notes: Notes) -> None:
        self.path = path
        self.lines = 0
        self._format, self._dialect = format, dialect.at(Address.of(path))
        self._notes = notes  # of all files
        self._file = _GrowingFile(path)
        self._header = b""  # of a table
        self._last: dict[str, int] = {}  # node: the position of its last row

    @property
    def offset(self) -> int:
        """The place in the file up to which it was read."""
        return self._file.offset

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
        """The number of bytes of the header and the whole rows in some lines."""
        begin = 0 if self._header else _first_line(lines)
        header = (self._header or lines[:begin]).decode(errors="replace")
        mark = tables.separator_of(header, self._dialect)
        return len(lines) if mark is None else begin + tables.whole_rows(lines[begin:], mark)

    def rest(self) -> bytes:
        """The bytes after the last whole line."""
        return self._file.read(LINE_BYTES_MAX)

    def written_bytes(self) -> int:
        """Size of the file now."""
        return self._file.written_bytes()

    def past(self, notes: Notes) -> Iterator[pa.RecordBatch]:
        """All rows so far, as the batch audit reads them."""
        if self._file.offset:
            with self.path.open("rb") as file:
                text = io.BufferedReader(io.BytesIO(file.read(self._file.offset)))
            title = str(self.path)
            yield from TEXT[self._format](text, title=title, dialect=self._dialect, notes=notes)

    def advance(self, block: bytes) -> None:
        """Mark these lines as read."""
        is_table = self._format == "csv"
        if is_table and not self._header:
            self._header = block[: _first_line(block)]
        self.lines += len(LINE_END.findall(block)) if is_table else block.count(b"\n")
        self._file.advance(block)

    def rewind(self) -> None:
        """Start again from the beginning of the file."""
        self.lines, self._last, self._header = 0, {}, b""
        self._file.rewind()

    def pack(self) -> dict[str, Any]:
        """The state, as plain values."""
        more = {"header": self._header.hex(), "last": self._last}
        return {"lines": self.lines, **more, **self._file.pack()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Restore the result of ``pack``."""
        self.lines, self._last = about["lines"], about["last"]
        self._header = bytes.fromhex(about["header"])
        self._file.unpack(about)

    def events(self, block: bytes) -> pa.Table:
        """The events of some whole lines; without positions, ``local_seq`` is the line of each."""
        if self._file.offset == 0:
            block = block.removeprefix(BOM)
        batches = self._jsonl(block) if self._format == "jsonl" else self._csv(block)
        return pa.Table.from_batches(batches, EVENTS)

    def where(self, node: str, place: int) -> str:
        """The place of a row for people."""
        return f"{self.path}, {'local_seq' if self._notes.has_order else 'line'} {place}"

    def _jsonl(self, block: bytes) -> list[pa.RecordBatch]:
        lines = Block(self.lines + 1, block)
        title, notes = str(self.path), self._notes
        return list(jsonl.block_batches(lines, title=title, dialect=self._dialect, notes=notes))

    def _csv(self, block: bytes) -> list[pa.RecordBatch]:
        title = f"{self.path}, behind line {self.lines - 1}" if self._header else str(self.path)
        notes = self._notes
        notes.rows = max(self.lines - 1, 0)
        reader: Any = io.BufferedReader(io.BytesIO(self._header + block))
        return list(tables.csv_batches(reader, title=title, dialect=self._dialect, notes=notes))

    def check_positions(self, rows: Packed) -> None:
        """Check that positions rise at each node: an earlier one could still come."""
        for key, name in enumerate(rows.key_node.to_pylist()):
            position = rows.position[rows.bounds[key] : rows.bounds[key + 1]].astype(np.int64)
            place = np.append(self._last.get(name, FIRST_PLACE), rows.low[key] + position)
            wrong = np.flatnonzero(place[1:] <= place[:-1])
            if wrong.size:
                before, at = place[wrong[0] : wrong[0] + 2]
                raise UserError(
                    f"{self.path}: node {printable(name)} has position {at} after {before}: a log "
                    "that is followed has each node's rows in their order"
                )
            self._last[name] = int(place[-1])


def _first_line(block: bytes) -> int:
    """The end of the first line of a table."""
    end = LINE_END.search(block)
    return end.end() if end else len(block)


READ_BYTES: Final = member_log.ROW_BYTES << 17  # of a member at a time
QUIET_S: Final = 10.0  # without a row, after a member has ended: the others were killed
JUDGED_KINDS: Final = np.array(sorted(JUDGED.values()), np.int8)


class _MemberTail(Tail):
    """All members' logs as one growing log; the nodes are the members."""

    has_states = True

    def __init__(self, directory: Path) -> None:
        self.title = str(directory)
        self.options = {"format": "members"}
        self._directory = directory
        self._files: dict[int, _GrowingFile] = {}
        self._about: dict[int, dict[str, Any]] = {}
        self._status: dict[int, int] = {}
        self._sent: dict[int, int] = {}
        self._lines: dict[int, list[member_log.ViewLine]] = {}
        self._lines_bytes: dict[int, int] = {}
        self._ends: Ends | None = None  # by the lines so far
        self._events: dict[int, int] = {}  # that were read
        self._joins: dict[int, int] = {}  # rows of states that were added to them
        self._find()

    @property
    def is_closed(self) -> bool:  # type: ignore[override]
        """Return whether nobody can join: logs of such groups name no life."""
        return bool(self._about) and not any("life" in about for about in self._about.values())

    def read(self, *, resting: Collection[int] = ()) -> Rows | None:
        """New rows of all members that are not paused."""
        self._find()
        before = self._read_bytes()
        logs = {m: self._read_of(m) for m in sorted(self._files) if m not in resting}
        # A state's line is written before the rows after it, and after the lines of all views
        # whose members it counts: read in this order, none is missing.
        self._read_lines()
        rows = [self._rows(member, log) for member, log in logs.items()]
        if self._read_bytes() == before:
            return None
        return Rows(*map(np.concatenate, zip(NO_ROWS, *rows, strict=True)))

    def _read_bytes(self) -> int:
        return sum(file.offset for file in self._files.values()) + sum(self._lines_bytes.values())

    def _read_lines(self) -> None:
        """Read the lines about views again where there are new ones."""
        for member, file in self._files.items():
            size = member_log.views_bytes(file.path)
            if size != self._lines_bytes.get(member, 0):
                self._lines[member] = member_log.view_lines(file.path) or []
                self._lines_bytes[member] = size
                self._ends = None

    def written_bytes(self) -> int:
        """Size of all members' logs now."""
        self._find()
        files = self._files.values()
        return sum(file.written_bytes() + member_log.views_bytes(file.path) for file in files)

    def end(self) -> End:
        """The end of the log, if this is it."""
        ended = {m for m, status in self._status.items() if status == member_log.ENDED}
        ended = {m for m in ended if has_begun(self._lines.get(m, ()))}
        return End(bool(ended), [m for m in range(self.nodes) if m not in ended])

    def is_over(self, *, quiet_s: float) -> bool:
        """Return whether no more rows will come, after this time without one."""
        status = [self._status.get(member, member_log.OPEN) for member in range(self.nodes)]
        if member_log.OPEN in status:
            return member_log.ENDED in status and quiet_s >= QUIET_S
        return bool(status)

    def gone(self) -> list[int]:
        """Members that will write no more rows."""
        return [m for m, status in self._status.items() if status != member_log.OPEN]

    def rewind(self) -> None:
        """Start again from the beginning of the logs."""
        self._sent, self._events, self._joins = {}, {}, {}
        for file in self._files.values():
            file.rewind()

    def history(self) -> History:
        """All rows as the batch audit reads them, including those written since the last read."""
        return read_members(self._directory)

    def pack(self) -> dict[str, Any]:
        """The state, as plain values."""
        return {
            "nodes": self.nodes,
            "files": {str(member): file.pack() for member, file in self._files.items()},
            "sent": {str(member): count for member, count in self._sent.items()},
            "events": {str(member): count for member, count in self._events.items()},
            "joins": {str(member): count for member, count in self._joins.items()},
            "started": {str(m): about["started_unix_ns"] for m, about in self._about.items()},
        }

    def unpack(self, about: dict[str, Any]) -> None:
        """Restore the result of ``pack``."""
        self._find()
        for name, place in about["files"].items():
            member = int(name)
            if self._about.get(member, {}).get("started_unix_ns") != about["started"][name]:
                raise UserError(f"{self.title} is not the log that was followed: start over")
            self._files[member].unpack(place)
        self._sent, self._events, self._joins = (
            {int(member): count for member, count in about.get(name, {}).items()}
            for name in ("sent", "events", "joins")
        )

    def _find(self) -> None:
        """Look for members that have begun their logs."""
        try:
            paths = sorted(p for p in self._directory.iterdir() if member_log.is_member_log(p))
        except OSError as error:
            raise UserError(f"cannot read {self._directory}: {error.strerror}") from None
        known = {file.path for file in self._files.values()}
        for path in paths:
            if path not in known and (header := member_log.read_header(path)) is not None:
                self._add(path, header)

    def _add(self, path: Path, about: dict[str, Any]) -> None:
        member = about["member"]
        if member in self._files:
            raise UserError(f"{self._directory} holds two logs of member {member}")
        first = next(iter(self._about.values()), about)
        if not are_of_one_group(first, about):
            raise UserError(f"{self._directory} holds logs of different groups: {path}")
        self.nodes = max(self.nodes, about["members"])
        self._files[member] = _GrowingFile(path)
        self._about[member] = about

    def _read_of(self, member: int) -> member_log.DecodedRows:
        file = self._files[member]
        now = member_log.read_header(file.path)
        if now is None or now["started_unix_ns"] != self._about[member]["started_unix_ns"]:
            raise UserError(
                f"{file.path} was started again: member {member} was restarted, and its earlier "
                "rows are lost; follow the logs from the start"
            )
        # The mark follows the last row: read in this order, it proves that no row is missing.
        self._status[member] = now["status"]
        if now["status"] == member_log.BROKEN:
            raise UserError(
                f"{file.path} lacks events: the member could not write them, so nothing more can "
                "be judged"
            )
        if file.offset == 0:
            file.advance(file.read(member_log.HEADER_BYTES))
        data = file.read(READ_BYTES)
        data = data[: len(data) // member_log.ROW_BYTES * member_log.ROW_BYTES]
        file.advance(data)
        return member_log.decode_rows(data, file.path)

    def _rows(self, member: int, log: member_log.DecodedRows) -> Rows:
        first = self._events.get(member, 0)
        self._events[member] = first + log.kind.size
        states = [line for line in self._lines.get(member, ()) if line.kind == "state"]
        if states:
            self._ends = self._ends or Ends(x for lines in self._lines.values() for x in lines)
            joins = self._ends.joins(states)
            # Those at the end may be followed by events of the next call, or by nothing.
            due = joins.between(0, self._events[member] + 1).after(self._joins.get(member, 0))
            self._joins[member] = self._joins.get(member, 0) + due.row.size
            log = member_log.with_joins(log, due._replace(row=due.row - first))
        judged = np.isin(log.kind, JUDGED_KINDS)
        kind = log.kind[judged]
        sequence = log.sequence[judged].astype(np.int64)
        message = (log.source[judged].astype(np.int64) << SHIFT) | sequence
        bare = ((kind != EventKind.BROADCAST) & (kind != EventKind.DELIVER)) & (sequence == 0)
        message[bare | (kind == EventKind.CRASH) | (kind == EventKind.LEAVE)] = NO_MESSAGE
        sent = message[kind == EventKind.BROADCAST]
        next_one = _message_of(member, self._sent.get(member, 0) + 1)
        self._sent[member] = self._sent.get(member, 0) + sent.size
        if not np.array_equal(sent, next_one + np.arange(sent.size)):
            raise UserError(
                f"{self._files[member].path} is damaged: member {member}'s broadcasts are not "
                "numbered one by one"
            )
        return Rows(np.full(kind.size, member, np.int32), kind, message)


class MemberFile:
    """The log of one member while it is written, as common rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _GrowingFile(path)
        self._member = -1  # not known before the first ``read``
        self._events = 0  # before the place up to which it was read

    @property
    def offset(self) -> int:
        """The place in the file up to which it was read."""
        return self._file.offset

    def read(self) -> bytes:
        """Whole rows that were added; the first time, the header."""
        about = member_log.read_header(self.path)
        if about is None:
            return b""
        if about["status"] == member_log.BROKEN:
            raise UserError(f"{self.path} lacks events: the member could not write them")
        self._member = about["member"]
        if self.offset == 0:
            return self._file.read(member_log.HEADER_BYTES)
        lines = member_log.view_lines(self.path) or ()
        if any(line.kind == "state" for line in lines):
            raise UserError(
                f"{self.path} begins with a state, which depends on other logs: audit the whole "
                "directory as one log"
            )
        data = self._file.read(READ_BYTES)
        return data[: len(data) // member_log.ROW_BYTES * member_log.ROW_BYTES]

    def events(self, block: bytes) -> pa.Table:
        """The events in a block of ``read``, numbered from 0."""
        if self.offset == 0:
            return EVENTS.empty_table()
        log, judged = self._judged(block)
        names = strings([kind.name.lower() for kind in EventKind])
        count = int(judged.sum())
        columns = {
            "node": repeated(str(self._member), count),
            "local_seq": to_arrow(self._events + np.arange(count)),
            "time_us": to_arrow(log.time_ns[judged] // 1000),
            "kind": names.take(to_arrow(log.kind[judged])),
            "source": to_arrow(log.source[judged]),
            "seq": to_arrow(log.sequence[judged]),
        }
        return pa.Table.from_batches([tables.events_of(columns, Dialect(), first=0)], EVENTS)

    def advance(self, block: bytes) -> None:
        """Mark a block of ``read`` as read."""
        if self.offset:
            self._events += int(self._judged(block)[1].sum())
        self._file.advance(block)

    def _judged(self, block: bytes) -> tuple[member_log.DecodedRows, NDArray[np.bool_]]:
        log = member_log.decode_rows(block, self.path)
        return log, np.isin(log.kind, JUDGED_KINDS)

    def pack(self) -> dict[str, Any]:
        """The position as plain values."""
        return {"events": self._events, **self._file.pack()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Continue from a packed position."""
        self._events = int(about["events"])
        self._file.unpack(about)


FORMATS: Final = ("auto", "members", "jsonl", "csv")
STOP_WITHIN_S: Final = 0.05


def open_tail(
    source: Place, format: str = "auto", *, dialect: Dialect | None = None
) -> Tail | None:
    """A log to follow; None for a directory without any yet."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise UserError(f"cannot follow logs of format {format!r}: choose from {known}")
    address = Address.of(source)
    if not address.is_local:
        raise UserError(f"{address} cannot be followed: only files of this machine grow")
    path = address.local
    dialect = Dialect() if dialect is None else dialect
    if not path.exists():
        raise UserError(f"there is no log {path}: check the path")
    if not os.path.isdir(path):
        if format == "members":
            raise UserError(f"{path} is a file: name the directory of the members' logs")
        is_table = format == "csv" or (format == "auto" and path.suffix in SUFFIXES["csv"])
        return _LinesTail(path, "csv" if is_table else "jsonl", dialect)
    if format == "members" or (format == "auto" and holds_member_logs(address)):
        return _MemberTail(path)
    names = os.listdir(path)
    for one, suffixes in SUFFIXES.items():
        if format == one or (format == "auto" and any(name.endswith(suffixes) for name in names)):
            return _LinesTail(path, one, dialect)
    return None


def ticks(every_s: float, is_stopped: Callable[[], bool]) -> Iterator[float]:
    """Seconds since the first call, repeatedly, with a pause in between, until stopped."""
    began_s = time.monotonic()
    while not is_stopped():
        yield (now_s := time.monotonic() - began_s)
        while (left_s := now_s + every_s - (time.monotonic() - began_s)) > 0 and not is_stopped():
            time.sleep(min(left_s, STOP_WITHIN_S))
