"""A member's log of its own events, cheap enough to be always on: rows appended to a file.

A row has 16 bytes: nanoseconds since the member started, then kind (1 byte), source (3) and
sequence (4) in one little endian word. Rows reach the operating system before an own message is
sent, so that a member that is killed leaves a log in which every message that others may have
delivered is broadcast, after all that it may depend on. ``precedes.trace.members`` reads the logs
of a directory.

The header's status is written again at the end, in place: a disk without room cannot prevent it.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Final

from precedes.errors import UserError

MAGIC: Final = b"prcdlog1"
HEADER_BYTES: Final = 1024
STATUS_AT: Final = len(MAGIC)
SUFFIX: Final = ".events"

OPEN: Final = 0  # running, or killed
ENDED: Final = 1  # everything there was to deliver has been
LEFT: Final = 2  # ended before the others, or evicted
BROKEN: Final = 3  # rows are missing: the disk was full

# Rows wait for more of them up to this size, unless an own message is sent: until then nothing
# depends on what this member has delivered.
WAITING_BYTES_MAX: Final = 1 << 16


class TraceLog:
    """Appends rows; a failure stops it, is remembered in the file, and stops nothing else."""

    def __init__(self, directory: str, *, member: int, members: int, about: dict[str, Any]) -> None:
        self.path = Path(directory) / f"member-{member:04d}{SUFFIX}"
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
            Path(directory).mkdir(parents=True, exist_ok=True)
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
