"""A file that survives crashes: records are appended whole, or not at all.

A record is a header and its bytes; the header has their length, their checksum and a checksum of
its own, so that a length can be trusted before its bytes are looked for. A crash while a record is
written leaves a torn tail, which the next opening finds and cuts off: what is read is always the
records up to some ``append`` that had begun, in order, never a mixture. ``replace`` writes
everything anew beside the file and renames it into place. What is damaged elsewhere than at its end
is refused: going on from an older state would use numbers twice that must be used once.
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

MAGIC: Final = b"precedes journal 2\n"
HEADER: Final = struct.Struct("<III")  # length of the bytes, their checksum, that of these two
_CHECKED: Final = struct.Struct("<II")
RECORD_BYTES_MAX: Final = 1 << 28  # more than any state


def checksum(data: bytes) -> int:
    """Of bytes; never 0 for a run of zeros, which is no record."""
    return zlib.crc32(data) ^ 0x5AFEC0DE


def frame(record: bytes) -> bytes:
    """A record as it stands in the file."""
    if len(record) > RECORD_BYTES_MAX:
        raise UserError(f"a record of {len(record):,} bytes is too long to be made durable")
    head = _CHECKED.pack(len(record), checksum(record))
    return HEADER.pack(len(record), checksum(record), checksum(head)) + record


def parse(text: bytes, *, title: str) -> tuple[list[bytes], int]:
    """The whole records of a file, and how many of its bytes they take.

    A header that is wrong is torn if nothing but zeros follows it; a record, if it is the last one.
    """
    if not text.startswith(MAGIC):
        if MAGIC.startswith(text):
            return [], 0  # torn when it was made
        raise UserError(f"{title} is not a journal of precedes")
    records = []
    at = len(MAGIC)
    while (first := at + HEADER.size) <= len(text):
        length, expected, check = HEADER.unpack_from(text, at)
        is_whole = check == checksum(text[at : at + _CHECKED.size])
        end = first + length if is_whole else len(text)
        record = text[first:end]
        if is_whole and end <= len(text) and checksum(record) == expected:
            records.append(record)
            at = end
        elif end < len(text) or (not is_whole and record.strip(b"\0")):
            raise UserError(f"{title} is damaged at byte {at}: restore it from a copy")
        else:
            break
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
