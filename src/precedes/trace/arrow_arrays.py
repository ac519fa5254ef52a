"""Between NumPy and Arrow without pandas, which pyarrow's own conversions import first.

That import takes longer than most traces, and pandas is needed for nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.errors import UserError


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column of integers without nulls, as a view that cannot be written to.

    Not by DLPack: pyarrow offers it without versions, of which NumPy before 2.1 warns.
    """
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not pa.types.is_integer(whole.type) or whole.null_count:
        raise pa.ArrowTypeError(f"{whole.type} with {whole.null_count} nulls, not whole numbers")
    dtype = np.dtype(str(whole.type))
    found: NDArray[Any] = np.frombuffer(
        whole.buffers()[1], dtype, count=len(whole), offset=whole.offset * dtype.itemsize
    )
    found.flags.writeable = False
    return found


def to_arrow(column: NDArray[Any], *, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of integers as an Arrow array; ``null`` says which of them are empty."""
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
    """Timestamps of any unit as whole numbers, which sort like them."""
    try:
        return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    except pa.ArrowInvalid:
        raise UserError(
            "the column local_seq holds times beyond the years 1677 to 2262: number the events"
        ) from None


def mask(chosen: NDArray[np.bool_]) -> pa.Array:
    """Truth values as an Arrow array."""
    bits = pa.py_buffer(np.packbits(chosen, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), chosen.size, [None, bits])


def integers(values: Sequence[int | None]) -> pa.Array:
    """Whole numbers as an Arrow array; None is an empty cell."""
    if None not in values:
        return to_arrow(np.array(values, np.int64))
    null = np.array([value is None for value in values], np.bool_)
    return to_arrow(np.array([value or 0 for value in values], np.int64), null=null)
