"""Between NumPy and Arrow without pandas, which pyarrow's own conversions import first.

That import takes longer than most traces, and pandas is needed for nothing here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column of integers without nulls; it may be a view, which cannot be written to."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    found: NDArray[Any] = np.from_dlpack(whole)
    return found


def to_arrow(column: NDArray[Any], *, null: NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of integers as an Arrow array; ``null`` says which of them are empty."""
    valid = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(column))
    return pa.Array.from_buffers(pa.from_numpy_dtype(column.dtype), column.size, [valid, data])


def flags(column: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A column of booleans without nulls."""
    return to_numpy(column.cast(pa.int8())).astype(np.bool_)


def strings(texts: list[str]) -> pa.Array:
    """Texts as an Arrow array."""
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(ends), data])
