"""The log of one member of a live group: its writer, cheap enough to be always on, and its reader.

A header of 1024 bytes (``prcdlog1``, status, length of a JSON text, the text), then rows of 16
bytes: nanoseconds since the member started, and in one little endian word the kind (8 bits), the
source (24) and the sequence (32), as the member's step leaves them. An unfinished row at the end is
that of a killed member. A row of the kind ``VIEW`` is no event: its source is a member that is out
of the writer's view from then on, maybe the writer, and its sequence is 1 if that one left, or 0.

Rows reach the operating system before an own message is sent, so that a member that is killed
leaves a log in which every message that others may have delivered is broadcast, after all that it
may depend on. The status is written again at the end, in place: a full disk cannot prevent it.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

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
SUFFIX: Final = ".events"

VIEW: Final = 64  # far from the kinds of events, which are only ever appended to

OPEN: Final = 0  # running, or killed
ENDED: Final = 1  # everything there was to deliver has been
LEFT: Final = 2  # ended before the others, or evicted
BROKEN: Final = 3  # rows are missing: the disk was full

# Rows are collected up to this size unless an own message is sent: until then nothing depends on
# what this member has delivered.
WAITING_BYTES_MAX: Final = 1 << 16


def log_path(directory: str | os.PathLike[str], member: int) -> Path:
    """Where the log of a member is."""
    return Address.of(directory).local / f"member-{member:04d}{SUFFIX}"


def is_member_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is the log of one member."""
    return str(path).endswith(SUFFIX)


def view_row(time_ns: int, member: int, *, left: bool) -> bytes:
    """The row that says that a member is out of the view."""
    return struct.pack("<qq", time_ns, VIEW << KIND_SHIFT | member << SOURCE_SHIFT | left)


class LogWriter:
    """Appends rows; a failure stops it, is remembered in the file, and stops nothing else."""

    def __init__(self, directory: str, *, member: int, members: int, about: dict[str, Any]) -> None:
        self.path = log_path(directory, member)
        self.failure: str | None = None
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
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
        except OSError as error:
            raise UserError(f"cannot write the trace {self.path}: {error.strerror}") from None

    def append(self, rows: list[bytes], *, at_once: bool) -> bool:
        """Append rows, ``at_once`` or when there are more; as ``write``."""
        if rows:
            self._waiting += rows
            self._waiting_bytes += sum(map(len, rows))
        return self.write() if at_once or self._waiting_bytes > WAITING_BYTES_MAX else True

    def write(self) -> bool:
        """Write what waits; False when tracing has just failed, and ``failure`` says why."""
        if not self._waiting:
            return True
        rows = b"".join(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if self.failure is not None:
            return True
        try:
            while rows:
                rows = rows[os.write(self._file, rows) :]
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
        with contextlib.suppress(OSError):
            os.close(self._file)
        self._file = -1

    def _set_status(self, status: int) -> None:
        with contextlib.suppress(OSError):
            os.pwrite(self._file, bytes([status]), STATUS_AT)


class Views(NamedTuple):
    """Changes of a member's view, a column each: who is out of it since when."""

    time_ns: NDArray[np.int64]
    member: NDArray[np.int32]
    left: NDArray[np.bool_]  # or evicted


class DecodedRows(NamedTuple):
    """Events of a log, a column each, and what is none."""

    time_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    views: Views


class MemberLog(NamedTuple):
    """What the log of one member holds."""

    path: Address
    about: dict[str, Any]
    status: int
    time_ns: NDArray[np.int64]
    kind: NDArray[np.int8]
    source: NDArray[np.int32]
    sequence: NDArray[np.int32]
    views: Views


def read_member_log(path: Place) -> MemberLog:
    """One log; UserError if it is none."""
    path = Address.of(path)
    data = _read(path)
    if len(data) < HEADER_BYTES:
        raise UserError(f"{path} is no log of a member: its header is damaged")
    about = _decode_header(data, path)
    return MemberLog(path, about, about.pop("status"), *decode_rows(data[HEADER_BYTES:], path))


def read_header(path: Place) -> dict[str, Any] | None:
    """What a log says of itself, with its ``status``; None if that is not written yet."""
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
        raise UserError(f"{path} is no log of a member: its header is damaged") from None
    if not data.startswith(MAGIC):
        raise UserError(f"{path} is no log of a member: its header is damaged")
    if not 0 <= member < members <= NODES_MAX:
        raise UserError(f"{path} says to be of member {member} of {members}")
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
