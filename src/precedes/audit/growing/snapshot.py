"""What a process needs to go on after a restart, as one file: arrays and plain values.

The file is there whole or as it was before, and carries a digest of itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.stores import Address, Place

MAGIC: Final = b"prcdsnap1"
ABOUT: Final = "about"

Arrays = dict[str, NDArray[Any]]


def write(place: Place, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write arrays and values that JSON can hold."""
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **{**arrays, ABOUT: text})
    data = body.getvalue()
    address = Address.of(place)
    address.parent.make_folder()
    address.put(MAGIC + hashlib.sha256(data).digest() + data, sync=True)


def read(place: Place) -> tuple[Arrays, dict[str, Any]] | None:
    """What was written there; None if there is nothing."""
    path = Address.of(place)
    if not path.is_file():
        return None
    content = path.read_bytes()
    start = len(MAGIC) + hashlib.sha256().digest_size
    digest, data = content[len(MAGIC) : start], content[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(data).digest() != digest:
        raise UserError(f"{path} is damaged: remove it, to begin anew")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        return arrays, json.loads(arrays.pop(ABOUT).tobytes())
    except (ValueError, KeyError, zipfile.BadZipFile):
        raise UserError(f"{path} is damaged: remove it, to begin anew") from None
