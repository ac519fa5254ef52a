"""Opens a log once, at any location: a file, a store, a pipe, standard input, a file object.

The first bytes decide the format. They are read ahead and replayed, since a pipe can be read only
once. Text may be compressed: gzip and zstd are detected by their first bytes too.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any, BinaryIO, Final, Protocol, runtime_checkable

import pyarrow as pa

from precedes.errors import UserError
from precedes.stores import Address, Place
from precedes.stores.address import READ_BYTES

Log = Place | BinaryIO


@runtime_checkable
class Recorded(Protocol):
    """A run that can write its trace, as a result of the simulator can."""

    @property
    def title(self) -> str:
        """Name of the run in reports."""

    @property
    def trace(self) -> str | None:
        """The file that has its trace already."""

    def write_trace(self, path: Place) -> None:
        """Write the trace, whole or not at all."""


class ArrowTable(Protocol):
    """A table of Arrow, or a DataFrame that offers its columns as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """See the Arrow PyCapsule interface."""


class SparkTable(Protocol):
    """A DataFrame of Spark."""

    def toArrow(self) -> Any:
        """Collect the rows."""


STANDARD_INPUT: Final = Address.of("-")
OPENING_BYTES: Final = 4096
BUFFER_BYTES: Final = 1 << 17

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# Frames without content, which pzstd and seekable files begin with: 0x184D2A50 to 5F.
ZSTD_SKIPPABLE: Final = tuple(bytes((n, 0x2A, 0x4D, 0x18)) for n in range(0x50, 0x60))
BOM: Final = b"\xef\xbb\xbf"  # Windows editors put it before UTF-8


class Source:
    """An open log: its title for messages, its first bytes, and a file to read it from."""

    def __init__(self, title: str, file: BinaryIO, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.title = title
        self._file = file
        self._copy: BinaryIO | None = None
        self.opening = b""
        # A pipe may deliver a few bytes at a time: wait for enough of them, or the end.
        while part := _read(file, OPENING_BYTES - len(self.opening)):
            self.opening += part
        self.stream: io.BufferedReader = io.BufferedReader(
            _Rejoined(self.opening, file), buffer_bytes
        )

    @contextmanager
    def seekable(self) -> Iterator[BinaryIO]:
        """The log as a seekable file; a pipe is copied to disk first, once.

        The copy is a temporary file, removed when the log is closed; a disk without room for it is
        a UserError.
        """
        if self._copy is None and self._file.seekable() and self._file.tell() == len(self.opening):
            yield self._file
            return
        if self._copy is None:
            self._copy = self._copied()
        self._copy.seek(0)
        yield self._copy

    def close(self) -> None:
        """Remove the copy, if there is one; the file belongs to its owner."""
        if self._copy is not None:
            self._copy.close()

    def _copied(self) -> BinaryIO:
        copy: Any = None
        try:
            copy = tempfile.TemporaryFile()  # noqa: SIM115, closed by the caller
            shutil.copyfileobj(self.stream, copy)
            copy.flush()
        except OSError as error:
            if copy is not None:
                copy.close()
            raise UserError(
                f"cannot copy {self.title} to a temporary file: {error.strerror}; name a file, or "
                "a directory with room for it in TMPDIR"
            ) from None
        return copy


def _read(file: BinaryIO, size: int) -> bytes:
    part = file.read(size)
    if part is None:
        raise BlockingIOError(errno.EAGAIN, "nothing to read yet, and it does not wait for more")
    if isinstance(part, str):
        raise UserError("a log is read as text: open it in binary mode")
    return bytes(part)


class _Rejoined(io.RawIOBase):
    """The first bytes of a file, which were read already, and then the rest."""

    def __init__(self, opening: bytes, rest: BinaryIO) -> None:
        self._opening = opening
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._opening[: len(buffer)] or _read(self._rest, len(buffer))
        self._opening = self._opening[len(part) :]
        buffer[: len(part)] = part
        return len(part)


@contextmanager
def open_log(log: Log) -> Iterator[Source]:
    """An address, ``-`` for standard input, or a binary file object, which is left open.

    Errors of the operating system become UserErrors, also those raised while it is read.
    """
    title = title_of(log)
    buffer_bytes = BUFFER_BYTES
    try:
        if not isinstance(log, str | os.PathLike):
            file: AbstractContextManager[BinaryIO] = nullcontext(log)
        elif (address := Address.of(log)) == STANDARD_INPUT:
            file = nullcontext(sys.stdin.buffer)
        else:
            file = _file(address)
            buffer_bytes = BUFFER_BYTES if address.is_local else READ_BYTES
        with file as opened, closing(Source(title, opened, buffer_bytes)) as source:
            yield source
    except FileNotFoundError:
        raise UserError(f"there is no log {title}: check the path") from None
    except IsADirectoryError:
        raise UserError(f"{title} is a directory: name the logs in it") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot read {title}: {reason}") from None


def _file(address: Address) -> BinaryIO:
    try:
        return address.open()
    except FileNotFoundError:
        if address.is_folder():  # in a store nothing has the name of a folder
            raise IsADirectoryError from None
        raise


def title_of(log: object) -> str:
    """The title of a log in messages and reports."""
    if isinstance(log, str | os.PathLike):
        address = Address.of(log)
        return "standard input" if address == STANDARD_INPUT else str(address)
    names = (getattr(log, key, None) for key in ("title", "origin", "name"))
    return next((name for name in names if isinstance(name, str) and name), "log")


def unpacked(source: Source) -> io.BufferedReader:
    """The text of a log, of all the parts if it was compressed in several.

    Truncated or damaged data raise an OSError or EOFError when they are read.
    """
    if source.opening.startswith(GZIP_MAGIC):
        return io.BufferedReader(_Gunzipped(source.stream), BUFFER_BYTES)
    if source.opening.startswith((ZSTD_MAGIC, *ZSTD_SKIPPABLE)):
        return io.BufferedReader(_Unzstd(source.stream), BUFFER_BYTES)
    return source.stream


def opening_of(text: io.BufferedReader) -> bytes:
    """The beginning of the text, which stays unread."""
    return text.peek(BUFFER_BYTES).removeprefix(BOM)


class _Gunzipped(io.RawIOBase):
    def __init__(self, packed: io.BufferedReader) -> None:
        self._file = gzip.GzipFile(fileobj=packed)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            part = self._file.read1(len(buffer))
        except zlib.error as error:
            raise OSError(str(error)) from None
        buffer[: len(part)] = part
        return len(part)


class _Unzstd(io.RawIOBase):
    def __init__(self, packed: io.BufferedReader) -> None:
        self._file = pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._file.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)
