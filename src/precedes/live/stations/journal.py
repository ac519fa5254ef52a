"""A file that survives crashes: records are appended whole, or not at all.

A record is its length, a checksum and its bytes. A crash while one is written leaves a torn tail,
which the next opening finds by the checksum and cuts off: what is read is always the records up to
some ``append`` that had begun, in order, never a mixture. ``replace`` writes everything anew beside
the file and renames it into place. What is damaged elsewhere than at its end is refused: going on
from an older state would use numbers twice that must be used once.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from precedes.errors import UserError
from precedes.files import asides_in, write_aside

MAGIC: Final = b"precedes journal 1\n"
HEADER: Final = struct.Struct("<II")  # length of the bytes, checksum of length and bytes
RECORD_BYTES_MAX: Final = 1 << 28  # more than any state; a longer length is a torn one


def checksum(record: bytes) -> int:
    """Of a record's length and bytes: a run of zeros is no record."""
    return zlib.crc32(record, zlib.crc32(struct.pack("<I", len(record)))) ^ 0x5AFEC0DE


def frame(record: bytes) -> bytes:
    """A record as it stands in the file."""
    if len(record) > RECORD_BYTES_MAX:
        raise UserError(f"a record of {len(record):,} bytes is too long to be made durable")
    return HEADER.pack(len(record), checksum(record)) + record


def parse(text: bytes, *, title: str) -> tuple[list[bytes], int]:
    """The whole records of a file, and how many of its bytes they take."""
    if not text.startswith(MAGIC):
        if MAGIC.startswith(text):
            return [], 0  # torn when it was made
        raise UserError(f"{title} is not a journal of precedes")
    records = []
    at = len(MAGIC)
    while at + HEADER.size <= len(text):
        length, found = HEADER.unpack_from(text, at)
        end = at + HEADER.size + length
        record = text[at + HEADER.size : end]
        if length > RECORD_BYTES_MAX or end > len(text) or checksum(record) != found:
            if end < len(text) and length <= RECORD_BYTES_MAX and text[at:].strip(b"\0"):
                raise UserError(f"{title} is damaged at byte {at}: restore it from a copy")
            break
        records.append(record)
        at = end
    return records, at


class Journal:
    """The records of one file; the file is made if it is not there.

    ``sync=False`` leaves it to the system when bytes reach the disk: for tests, and for those who
    would rather lose the last moments than wait.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: bool = True) -> None:
        self.path = Path(path)
        self.sync = sync
        try:
            for left in asides_in(self.path.parent, self.path.name):
                left.unlink(missing_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
            self.records, length = parse(text, title=str(self.path))
            # Unbuffered: a record is handed to the system in one piece, or an error is raised.
            self._file = self.path.open("r+b" if text else "w+b", buffering=0)
            self._file.truncate(length)
            self._file.seek(length)
            if length == 0:
                self._write(MAGIC)
        except OSError as error:
            raise self._error(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def append(self, record: bytes) -> None:
        """Add a record; when this returns, it is durable."""
        start = self._file.tell()
        try:
            self._write(frame(record))
        except OSError as error:
            # A part of it must not stand before the records that follow.
            with contextlib.suppress(OSError):
                self._file.truncate(start)
                self._file.seek(start)
            raise self._error(error) from None
        self.records.append(record)

    def _write(self, text: bytes) -> None:
        view = memoryview(text)
        while view:
            view = view[self._file.write(view) or 0 :]
        if self.sync:
            os.fsync(self._file.fileno())

    def replace(self, records: list[bytes]) -> None:
        """Have these records instead of all that there are: they, or the old ones, never both."""
        try:
            write_aside(self.path, MAGIC + b"".join(map(frame, records)), sync=self.sync)
            self._file.close()
            self._file = self.path.open("r+b", buffering=0)
            self._file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._error(error) from None
        self.records = list(records)

    def close(self) -> None:
        """Give the file back; the records stay readable."""
        self._file.close()

    def _error(self, error: OSError) -> UserError:
        return UserError(f"cannot keep {self.path}: {error.strerror}")
