"""Named arrays in one file, which are mapped into memory when they are read."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.files import aside

MAGIC: Final = b"precedes arrays\n"
ALIGNMENT_BYTES: Final = 64
LENGTH_BYTES: Final = 8

Arrays = dict[str, NDArray[Any]]


def save(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of one dimension as a file that is there whole or not at all."""
    index = []
    with aside(path) as temporary, temporary.open("wb") as file:
        file.write(MAGIC)
        for name, array in arrays.items():
            file.write(bytes(-file.tell() % ALIGNMENT_BYTES))
            index.append([name, array.dtype.str, file.tell(), array.size])
            file.write(np.ascontiguousarray(array).data)
        text = json.dumps(index).encode()
        file.write(text + len(text).to_bytes(LENGTH_BYTES, "little"))


class _Mapped(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a file that is mapped into memory."""


def mapped(path: Path) -> NDArray[np.uint8]:
    """A file as bytes in memory that cannot be written to.

    It takes no file handle, of which a process may have 1,024: Python's mmap keeps one each.
    """
    with pa.memory_map(str(path)) as file:
        return np.frombuffer(file.read_buffer(), np.uint8).view(_Mapped)


def load(path: Path) -> Arrays:
    """The arrays in a file, as views of it that cannot be written to."""
    try:
        whole = mapped(path)
        if bytes(whole[: len(MAGIC)]) != MAGIC:
            raise ValueError("another kind of file")
        end = whole.size - LENGTH_BYTES
        begin = end - int.from_bytes(bytes(whole[end:]), "little")
        index = json.loads(bytes(whole[begin:end]))
        found = {}
        for name, kind, start, size in index:
            dtype = np.dtype(kind)
            found[name] = np.asarray(whole[start : start + size * dtype.itemsize].view(dtype))
        return found
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(f"cannot read {path}: {reason}") from None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): start over") from None


def forget(array: NDArray[Any]) -> None:
    """Let go of the memory that the file behind a view takes; it is read again when needed."""
    base: Any = array
    whole: _Mapped | None = None
    while isinstance(base, np.ndarray):
        whole = base if isinstance(base, _Mapped) else whole
        base = base.base
    if whole is not None:
        size = ctypes.c_size_t(whole.nbytes)
        ctypes.CDLL(None).madvise(ctypes.c_void_p(whole.ctypes.data), size, mmap.MADV_DONTNEED)


def split_texts(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Strings without nulls as offsets and bytes."""
    wide = texts.cast(pa.large_string())
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    if len(wide) == 0 or data is None:
        return np.zeros(len(wide) + 1, np.int64), np.empty(0, np.uint8)
    whole = np.frombuffer(data, np.uint8)
    return ends - ends[0], whole[int(ends[0]) : int(ends[-1])]


def joined_texts(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """The strings that ``split_texts`` took apart, without a copy."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), offsets.size - 1, buffers)
