"""A file that grows: what was added to it since it was last read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from precedes.errors import UserError

# So many bytes before the place up to which a file was read must still be what they were.
MARK_BYTES: Final = 256


class GrowingFile:
    """Reads on from where it was. A file that shrinks, or holds something else, is a UserError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._mark = b""

    def read(self, limit_bytes: int) -> bytes:
        """What comes next, at most so many bytes; nothing if the file did not grow."""
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
            raise UserError(f"{self.path} was replaced by another file: follow it anew")
        return data[len(self._mark) :]

    def written_bytes(self) -> int:
        """Size of the file now; 0 if it cannot be found out, as the next ``read`` reports."""
        try:
            return os.path.getsize(self.path)
        except OSError:
            return 0

    def advance(self, data: bytes) -> None:
        """What ``read`` gave is used up to here: the next call begins behind it."""
        self.offset += len(data)
        self._mark = (self._mark + data[-MARK_BYTES:])[-MARK_BYTES:]

    def rewind(self) -> None:
        """Begin again."""
        self.offset, self._mark = 0, b""

    def pack(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        return {"offset": self.offset, "mark": self._mark.hex()}

    def unpack(self, about: dict[str, Any]) -> None:
        """Go on where another one was packed."""
        self.offset, self._mark = int(about["offset"]), bytes.fromhex(about["mark"])
