"""Text that may be compressed: gzip and zstd are known by their first bytes."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any, Final

import pyarrow as pa

from precedes.trace.source import BUFFER_BYTES, Source

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# Frames without content, which pzstd and seekable files begin with: 0x184D2A50 to 5F.
ZSTD_SKIPPABLE: Final = tuple(bytes((n, 0x2A, 0x4D, 0x18)) for n in range(0x50, 0x60))
BOM: Final = b"\xef\xbb\xbf"  # Windows editors put it before UTF-8


def unpacked(source: Source) -> io.BufferedReader:
    """The text of a log, of all the parts if it was compressed in several.

    What is cut short or damaged raises an OSError or EOFError when it is read.
    """
    if source.opening.startswith(GZIP_MAGIC):
        return io.BufferedReader(_Gunzipped(source.stream), BUFFER_BYTES)
    if source.opening.startswith((ZSTD_MAGIC, *ZSTD_SKIPPABLE)):
        return io.BufferedReader(_Unzstd(source.stream), BUFFER_BYTES)
    return source.stream


def opening_of(text: io.BufferedReader) -> bytes:
    """How the text begins, which is left to be read."""
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
