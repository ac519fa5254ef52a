"""Named tuples of arrays as bytes, and back without a copy.

A part is a line of JSON that says what follows, the arrays, each at a multiple of 64 bytes, and a
digest of all that. What is cut short or damaged is no part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

ALIGNED: Final = 64
DIGEST_BYTES: Final = 32
FORMAT: Final = "precedes part 1"

Part = TypeVar("Part", bound=tuple[Any, ...])


class Damaged(Exception):
    """These bytes are no part of this kind."""


def dump(part: tuple[Any, ...]) -> bytes:
    """A part as bytes; equal parts give equal ones."""
    pieces = list(_pieces(part))
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for piece in pieces:
        digest.update(piece)
    return b"".join([*pieces, digest.digest()])


def _pieces(part: tuple[Any, ...]) -> Iterator[bytes | memoryview]:
    arrays = [np.ascontiguousarray(array) for array in part]
    names = part._fields  # type: ignore[attr-defined]
    described = [
        [name, array.dtype.str, list(array.shape)]
        for name, array in zip(names, arrays, strict=True)
    ]
    head = {"format": FORMAT, "kind": type(part).__name__, "arrays": described}
    line = json.dumps(head).encode()
    yield line + b" " * (-(len(line) + 1) % ALIGNED) + b"\n"
    for array in arrays:
        yield array.reshape(-1).view(np.uint8).data
        yield bytes(-array.nbytes % ALIGNED)


def parse(kind: type[Part], content: Any, *, check: bool = True) -> Part:
    """The part in a buffer; its arrays lie there, so that they can be written to if it can.

    Raises ``Damaged`` if it is not there whole, or is another kind. Without ``check`` the digest
    is not looked at.
    """
    whole = memoryview(content)
    body, digest = whole[:-DIGEST_BYTES], whole[-DIGEST_BYTES:]
    if check and hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest() != digest:
        raise Damaged("its digest is another")
    try:
        end = bytes(body[: 1 << 16]).index(b"\n") + 1
        head = json.loads(bytes(body[:end]))
        if (head["format"], head["kind"]) != (FORMAT, kind.__name__):
            raise Damaged("it is of another kind")
        arrays: list[NDArray[Any]] = []
        for _name, dtype, shape in head["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            array = np.frombuffer(body, np.dtype(dtype), count, end).reshape(shape)
            arrays.append(array)
            end += array.nbytes + -array.nbytes % ALIGNED
    except (KeyError, TypeError, ValueError):
        raise Damaged("it cannot be read") from None
    return kind(*arrays)
