"""Arrays of NumPy and Arrow, and named columns in one file or buffer.

NumPy and Arrow are converted here without pandas, which pyarrow's own conversions import first:
that import takes longer than most traces, and pandas is not needed here.

A file of columns is a head in JSON, the columns, and, of a buffer, a digest. A column is an array,
or an Arrow array of texts without nulls. Each begins at a multiple of 64 bytes, so that it is used
where it lies: a file is mapped into memory, and no column is copied. Truncated or damaged files are
refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.files import aside
from precedes.stores import Address, Place


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column of integers without nulls, as a view that cannot be written to.

    Not by DLPack: pyarrow offers it without versions, of which NumPy before 2.1 warns.
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_integer(whole.type) or whole.null_count:
        raise pa.ArrowTypeError(f"{whole.type} with {whole.null_count} nulls, not whole numbers")
    dtype = np.dtype(str(whole.type))
    view: NDArray[Any] = np.frombuffer(
        whole.buffers()[1], dtype, count=len(whole), offset=whole.offset * dtype.itemsize
    )
    view.flags.writeable = False
    return view


def to_arrow(column: NDArray[Any], *, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of integers as an Arrow array; ``null`` marks the empty cells."""
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), column.size, [valid, data])


def flags(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A column of booleans without nulls."""
    return to_numpy(column.cast(pa.int8())).astype(np.bool_)


def strings(texts: Sequence[str | None]) -> pa.Array:
    """Texts as an Arrow array; None is an empty cell."""
    encoded = [b"" if text is None else text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    valid = None
    if None in texts:
        there = np.array([text is not None for text in texts], np.bool_)
        valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(texts), [valid, pa.py_buffer(ends), data])


def repeated(text: str | None, size: int) -> pa.Array:
    """One text in every row."""
    return strings([text]).take(to_arrow(np.zeros(size, np.int32)))


def nanoseconds(column: pa.Array) -> pa.Array:
    """Timestamps of any unit as integers of the same order."""
    try:
        return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    except pa.ArrowInvalid:
        raise UserError(
            "the column local_seq holds times beyond the years 1677 to 2262: number the events"
        ) from None


def mask(chosen: NDArray[np.bool_]) -> pa.Array:
    """Booleans as an Arrow array."""
    bits = pa.py_buffer(np.packbits(chosen, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), chosen.size, [None, bits])


def integers(values: Sequence[int | None]) -> pa.Array:
    """Integers as an Arrow array; None is an empty cell."""
    if None not in values:
        return to_arrow(np.array(values, np.int64))
    null = np.array([value is None for value in values], np.bool_)
    return to_arrow(np.array([value or 0 for value in values], np.int64), null=null)


MAGIC: Final = b"prcdarr1"
HEAD_AT: Final = len(MAGIC) + 8  # behind its length
ALIGNED: Final = 64
DIGEST_BYTES: Final = 32
TEXT: Final = "text"

Columns = dict[str, Any]
About = dict[str, Any]


class Damaged(Exception):
    """These bytes do not contain columns, or not all of them."""


def dump(columns: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> bytes:
    """Columns, and values that JSON can hold, as bytes; equal ones give equal bytes."""
    pieces = [*_pieces(columns, about or {})]
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    return b"".join([*pieces, digest.digest()])


def parse(content: Any, *, check: bool = True) -> tuple[Columns, About]:
    """The contents of a buffer, as views that are writable if it is.

    Without ``check`` the digest is not verified.
    """
    whole = np.frombuffer(content, np.uint8)
    body, digest = whole[:-DIGEST_BYTES], whole[-DIGEST_BYTES:]
    if check and hashlib.blake2b(body.data, digest_size=DIGEST_BYTES).digest() != digest.tobytes():
        raise Damaged("its digest differs")
    return _columns(body)


def save(path: Path, columns: Mapping[str, Any], about: Mapping[str, Any] | None = None) -> None:
    """Write a file without a digest, atomically."""
    with aside(path) as temporary, temporary.open("wb") as file:
        for piece in _pieces(columns, about or {}):
            file.write(piece)


def load(path: Path) -> tuple[Columns, About]:
    """``mapped``, with UserErrors for missing or damaged files."""
    try:
        return mapped(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UserError(f"cannot read {path}: {reason}") from None
    except Damaged as error:
        raise UserError(f"{path} is damaged ({error}): start over") from None


def put(place: Place, columns: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write a state to resume from after a restart, atomically."""
    address = Address.of(place)
    address.parent.make_folder()
    address.put(dump(columns, about), sync=True)


def get(place: Place) -> tuple[Columns, About] | None:
    """The state that ``put`` wrote; None if there is none."""
    address = Address.of(place)
    if not address.is_file():
        return None
    try:
        return parse(bytearray(address.read_bytes()))
    except (Damaged, ValueError):
        raise UserError(f"{address} is damaged: remove it to start over") from None


def _pieces(columns: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    described: list[tuple[str, str, list[int]]] = []
    arrays: list[NDArray[Any]] = []
    for name, column in columns.items():
        if isinstance(column, pa.Array):
            described.append((name, TEXT, [len(column)]))
            arrays += split_texts(column)
        else:
            array = np.ascontiguousarray(column)
            described.append((name, array.dtype.str, list(array.shape)))
            arrays.append(array)
    head = json.dumps({"columns": described, "about": about}).encode()
    yield MAGIC + len(head).to_bytes(HEAD_AT - len(MAGIC), "little")
    yield head + bytes(-(HEAD_AT + len(head)) % ALIGNED)
    for array in arrays:
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % ALIGNED)


def _columns(body: NDArray[np.uint8]) -> tuple[Columns, About]:
    at = 0

    def take(dtype: str, shape: list[int]) -> NDArray[Any]:
        nonlocal at
        at += -at % ALIGNED
        size_bytes = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        part = body[at : at + size_bytes]
        at += size_bytes
        return np.asarray(part.view(dtype)).reshape(shape)

    try:
        if body[: len(MAGIC)].tobytes() != MAGIC:
            raise Damaged("another kind of file")
        at = HEAD_AT + int.from_bytes(body[len(MAGIC) : HEAD_AT].tobytes(), "little")
        head = json.loads(body[HEAD_AT:at].tobytes())
        columns: Columns = {}
        for name, dtype, shape in head["columns"]:
            if dtype == TEXT:
                offsets = take("<i8", [shape[0] + 1])
                columns[name] = joined_texts(offsets, take("u1", [int(offsets[-1])]))
            else:
                columns[name] = take(dtype, shape)
        return columns, head["about"]
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(str(error)) from None


class _Mapped(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a file that is mapped into memory."""


def mapped(path: Path) -> tuple[Columns, About]:
    """The contents of ``save``'s file, as read-only views.

    It keeps no file handle open, of which a process may have 1,024: Python's mmap keeps one each.
    """
    with pa.memory_map(str(path)) as file:
        return _columns(np.frombuffer(file.read_buffer(), np.uint8).view(_Mapped))


def forget(array: NDArray[Any]) -> None:
    """Release the memory of the file behind a view; it is read again when needed."""
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
