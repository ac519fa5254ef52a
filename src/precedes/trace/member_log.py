"""The log of one member of a live group: its writer, cheap enough to be always on, and its reader.

A header of 1024 bytes (``prcdlog1``, status, length of a JSON text, the text), then rows of 16
bytes: nanoseconds since the member started, and in one little endian word the kind (8 bits), the
source (24) and the sequence (32), as the member's step leaves them. An unfinished row at the end is
that of a killed member. A row of the kind ``VIEW`` is not an event: its source is a member that
leaves the writer's view from then on, maybe the writer, and its sequence is 1 if that one left, or
0.

A log is that of one life of a process: the member's number is its uid less 1, and a process that
starts again, or joins again, opens another log under another number. ``members`` in the header is
the number of members known at that time; logs of higher numbers may be added. ``name`` and ``life``
(hexadecimal) are those of the member; older logs lack them.

The views themselves are JSON lines in a file next to it (``member-0000.views``), one for each view
that the member installs, one for the view that it leaves with, and one for the state that it begins
with if it joins a running group:

- ``rows``: events in the log before it, without rows of the kind ``VIEW``.
- ``kind``: ``view``; ``leave``; ``learning``, a view that the member installs before it has the
  state of the group; or ``state``. ``epoch`` and ``group`` (hexadecimal) of the view.
- ``uid`` of the writer. ``entries``: uid, name and life (hexadecimal) of each member, by position.
- ``counts``: for each uid of this epoch or the one before, how many of its messages count as
  delivered when this epoch begins; null where views end no epoch, and for a member that left
  without the last messages. The source of a row is its sender's uid less 1. In a ``state``: how
  many of its messages the state contains, for each uid of that epoch; of uids that ended earlier it
  contains all that count. Rows after it are of the messages beyond it.

An unfinished line at the end is that of a killed member.

Rows reach the operating system before an own message is sent, so that a member that is killed
leaves a log in which every message that others may have delivered is broadcast, after all that it
may depend on. The status is written again at the end, in place: a full disk cannot prevent it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import struct
import time
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.model import NODES_MAX, EventKind
from precedes.stores import Address, Place

MAGIC: Final = b"prcdlog1"
STATUS_AT: Final = len(MAGIC)
LENGTH_AT: Final = STATUS_AT + 1
TEXT_AT: Final = LENGTH_AT + 2
HEADER_BYTES: Final = 1024
ROW_BYTES: Final = 16
KIND_SHIFT: Final = 56
SOURCE_SHIFT: Final = 32
SEQUENCES: Final = 1 << 31
SUFFIX: Final = ".events"
VIEWS_SUFFIX: Final = ".views"

VIEW: Final = 64  # outside the range of the kinds of events, which are only ever appended to

OPEN: Final = 0  # running, or killed
ENDED: Final = 1  # all deliverable messages were delivered
LEFT: Final = 2  # ended before the others, or excluded
BROKEN: Final = 3  # rows are missing: the disk was full

VIEW_KINDS: Final = ("view", "leave", "learning", "state")

# Rows are buffered up to this size unless an own message is sent: until then no other member can
# depend on the deliveries of this one.
WAITING_BYTES_MAX: Final = 1 << 16


def log_path(directory: str | os.PathLike[str], member: int) -> Path:
    """The path of a member's log."""
    return Address.of(directory).local / f"member-{member:04d}{SUFFIX}"


def is_member_log(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is the log of one member."""
    return str(path).endswith(SUFFIX)


def view_row(time_ns: int, member: int, *, left: bool) -> bytes:
    """The row that removes a member from the view."""
    return struct.pack("<qq", time_ns, VIEW << KIND_SHIFT | member << SOURCE_SHIFT | left)


class LogWriter:
    """Appends rows; a failure stops it, is recorded in the file, and stops nothing else."""

    def __init__(self, directory: str, *, member: int, members: int, about: dict[str, Any]) -> None:
        self.path = log_path(directory, member)
        self.failure: str | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._events = 0
        header = {
            "member": member,
            "members": members,
            "started_unix_ns": time.time_ns(),
            **about,
        }
        text = json.dumps(header, sort_keys=True).encode()
        start = MAGIC + bytes([OPEN]) + len(text).to_bytes(2, "little") + text
        if len(start) > HEADER_BYTES:
            raise UserError("the name and the parameters of the group are too long for a trace")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
            os.write(self._file, start.ljust(HEADER_BYTES, b"\0"))
            views = self.path.with_suffix(VIEWS_SUFFIX)
            self._views = os.open(views, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        except OSError as error:
            raise UserError(f"cannot write the trace {self.path}: {error.strerror}") from None

    def append(self, rows: list[bytes], *, at_once: bool) -> bool:
        """Append rows, ``at_once`` or when there are more; as ``write``.

        Each item has rows of events, or is a ``view_row``.
        """
        for data in rows:
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if data and data[-1] != VIEW:  # the kind of its last row
                self._events += len(data) // ROW_BYTES
        return self.write() if at_once or self._waiting_bytes > WAITING_BYTES_MAX else True

    def write(self) -> bool:
        """Write the buffered rows; False when writing has just failed (see ``failure``)."""
        if not self._waiting:
            return True
        rows = b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        return self._write(self._file, rows)

    def append_view(self, entry: dict[str, Any]) -> bool:
        """Write the buffered rows, then a line about a view; as ``write``."""
        if not self.write():
            return False
        line = json.dumps({"rows": self._events, **entry})
        return self._write(self._views, line.encode() + b"\n")

    def _write(self, file: int, data: bytes) -> bool:
        if self.failure is not None:
            return True
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError as error:
            self.failure = error.strerror or str(error)
            self._set_status(BROKEN)
            return False
        return True

    def close(self, status: int) -> None:
        """End the log."""
        if self._file < 0:
            return
        self.write()
        if self.failure is None:
            self._set_status(status)
        for file in (self._file, self._views):
            with contextlib.suppress(OSError):
                os.close(file)
        self._file = -1

    def _set_status(self, status: int) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._file, bytes([status]), STATUS_AT)


class Views(NamedTuple):
    """Changes of a member's view, a column each: who left it, and when."""

    time_ns: NDArray[np.int64]
    member: NDArray[np.int32]
    left: NDArray[np.bool_]  # or excluded


class DecodedRows(NamedTuple):
    """Events of a log, a column each, and rows that are not events."""

    time_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    views: Views


class MemberLog(NamedTuple):
    """The contents of the log of one member."""

    path: Address
    about: dict[str, Any]
    status: int
    time_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    views: Views


Log = TypeVar("Log", DecodedRows, MemberLog)


class ViewLine(NamedTuple):
    """A line about a view, or about the state that a member begins with."""

    rows: int
    kind: str
    epoch: int
    group: str
    uid: int
    entries: tuple[tuple[int, str, str], ...]  # uid, name and life
    counts: dict[int, int] | None  # by uid

    @classmethod
    def parse(cls, line: dict[str, Any]) -> ViewLine:
        """The line as values; ValueError, TypeError or the like if it is damaged."""
        counts = line["counts"]
        parsed = cls(
            rows=int(line["rows"]),
            kind=str(line["kind"]),
            epoch=int(line["epoch"]),
            group=str(line["group"]),
            uid=int(line["uid"]),
            entries=tuple((int(uid), str(name), str(life)) for uid, name, life in line["entries"]),
            counts=None if counts is None else {int(uid): int(n) for uid, n in counts.items()},
        )
        if parsed.kind not in VIEW_KINDS or (parsed.kind == "state" and counts is None):
            raise ValueError(parsed.kind)
        uids = [parsed.uid, *(parsed.counts or ()), *(uid for uid, _, _ in parsed.entries)]
        if parsed.rows < 0 or min(uids) < 1 or max(uids) > NODES_MAX:
            raise ValueError(parsed.rows, uids)
        if not all(0 <= count < SEQUENCES for count in (parsed.counts or {}).values()):
            raise ValueError(parsed.counts)
        return parsed

    def __str__(self) -> str:
        return f"{'left with' if self.kind == 'leave' else 'installed'} view {self.epoch}"


class Joins(NamedTuple):
    """Rows of the kind JOIN that a log lacks, a column each: the states in the lines about views.

    The first of a state is empty, with the member itself and 0; the others name a source and how
    many of its messages the state contains.
    """

    row: NDArray[np.int64]  # number of events in the log before it
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]

    @classmethod
    def of(cls, rows: list[tuple[int, int, int]]) -> Joins:
        """The columns of these rows."""
        row, source, sequence = np.array(rows, np.int64).reshape(-1, 3).T
        return cls(row.copy(), source.astype(np.int32), sequence.astype(np.int32))

    def between(self, first: int, last: int) -> Joins:
        """Those after ``first`` events and before ``last``, counted from ``first``."""
        low, high = np.searchsorted(self.row, (first, last))
        part = slice(low, high)
        return Joins(self.row[part] - first, self.source[part], self.sequence[part])

    def after(self, count: int) -> Joins:
        """Those after the first ones."""
        return Joins(self.row[count:], self.source[count:], self.sequence[count:])


def with_joins(log: Log, joins: Joins) -> Log:
    """The rows of a log, or a part of it, with these between them, at the time of the next row."""
    if not joins.row.size:
        return log
    size = log.kind.size
    at = np.minimum(joins.row, size)
    time_ns = np.append(log.time_ns, log.time_ns[-1:] if size else 0)
    changed = log._replace(
        time_ns=np.insert(log.time_ns, at, time_ns[at]),
        kind=np.insert(log.kind, at, np.int8(EventKind.JOIN)),
        source=np.insert(log.source, at, joins.source),
        sequence=np.insert(log.sequence, at, joins.sequence),
    )
    return changed


def read_member_log(path: Place) -> MemberLog:
    """One log; UserError if the file is not one."""
    path = Address.of(path)
    data = _read(path)
    if len(data) < HEADER_BYTES:
        raise UserError(f"{path} is not a log of a member: its header is damaged")
    about = _decode_header(data, path)
    return MemberLog(path, about, about.pop("status"), *decode_rows(data[HEADER_BYTES:], path))


def read_views(path: Place) -> list[dict[str, Any]] | None:
    """The lines about views next to a log; None if the log has no file of them."""
    views = _views_of(Address.of(path))
    if not views.is_file():
        return None
    whole, _, _ = _read(views).rpartition(b"\n")
    try:
        return [json.loads(line) for line in whole.splitlines()]
    except ValueError:
        raise UserError(f"{views} is damaged: a line is not JSON") from None


def views_bytes(path: Place) -> int:
    """Size of the file of views next to a log; 0 if there is none."""
    views = _views_of(Address.of(path))
    return views.size_bytes() if views.is_file() else 0


def _views_of(path: Address) -> Address:
    return path.parent / f"{path.stem}{VIEWS_SUFFIX}"


def view_lines(path: Place) -> list[ViewLine] | None:
    """``read_views``, parsed; UserError if a line is damaged."""
    lines = read_views(path)
    if lines is None:
        return None
    try:
        parsed = [ViewLine.parse(line) for line in lines]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{path} has damaged lines about views next to it") from None
    if any(after.rows < before.rows for before, after in itertools.pairwise(parsed)):
        raise UserError(f"{path} has damaged lines about views next to it: rows decrease")
    return parsed


def read_header(path: Place) -> dict[str, Any] | None:
    """The header of a log, with its ``status``; None if that is not written yet."""
    data = _read(Address.of(path), HEADER_BYTES)
    return _decode_header(data, path) if len(data) == HEADER_BYTES else None


def _read(path: Address, limit_bytes: int = -1) -> bytes:
    try:
        with path.open() as file:
            return file.read(limit_bytes)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def _decode_header(data: bytes, path: Place) -> dict[str, Any]:
    length = int.from_bytes(data[LENGTH_AT:TEXT_AT], "little")
    try:
        about = json.loads(data[TEXT_AT : TEXT_AT + length])
        member, members = int(about["member"]), int(about["members"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not a log of a member: its header is damaged") from None
    if not data.startswith(MAGIC):
        raise UserError(f"{path} is not a log of a member: its header is damaged")
    if not 0 <= member < members <= NODES_MAX:
        raise UserError(f"{path} claims to be of member {member} of {members}")
    texts = [about.get(key, "") for key in ("name", "life")]
    if not all(isinstance(text, str) for text in texts):
        raise UserError(f"{path} is not a log of a member: its header is damaged")
    return {**about, "member": member, "members": members, "status": data[STATUS_AT]}


def decode_rows(data: bytes, path: Place) -> DecodedRows:
    """The rows in these bytes; half a row at their end is left out."""
    rows = np.frombuffer(data, "<i8", count=2 * (len(data) // ROW_BYTES))
    time_ns, word = rows[::2], rows[1::2]
    kind = word >> KIND_SHIFT
    source = word >> SOURCE_SHIFT & (1 << KIND_SHIFT - SOURCE_SHIFT) - 1
    sequence = word & (1 << SOURCE_SHIFT) - 1
    is_view = kind == VIEW
    views = Views(
        time_ns=time_ns[is_view].astype(np.int64),
        member=source[is_view].astype(np.int32),
        left=sequence[is_view] != 0,
    )
    if is_view.any():
        time_ns, kind, source, sequence = (c[~is_view] for c in (time_ns, kind, source, sequence))
    if kind.size and (kind.min() < 0 or kind.max() >= len(EventKind)):
        raise UserError(f"{path} is damaged: it has events of unknown kinds")
    return DecodedRows(
        time_ns=time_ns.astype(np.int64),
        kind=kind.astype(np.int8),
        source=source.astype(np.int32),
        sequence=sequence.astype(np.int32),
        views=views,
    )
