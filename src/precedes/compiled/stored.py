"""Compiled forms of a loop as files that machines may share.

Numba's own files lie under the path and the time of the source, so that no two machines find each
other's, and an index numbers them: two machines that write at once can leave the code of one
processor under the name of another's. Here a form is one file, named by its signature and the
processor it is for, and put in its place whole; the directory says what it was made of.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from numba.core import caching, serialize

from precedes.compiled import cache

DIGEST_BYTES: Final = 32


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


class Absent(Exception):
    """There is no compiled form for these types and this processor."""


class Stored(caching.FunctionCache):  # type: ignore[misc]
    """Numba's interface to a cache of the compiled forms of a loop.

    With ``load_only`` it raises Absent instead of letting Numba compile.
    """

    def __init__(
        self, body: Callable[..., Any], directory: Path, *, load_only: bool = False
    ) -> None:
        self.load_only = load_only
        self._py_func = body
        self._name = repr(body)
        self._impl = _Results(body, directory)
        self._cache_path = str(directory)
        self._cache_file = _Files(directory, cache.name_of(body))
        self.enable()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled form for a signature, or None."""
        form = super().load_overload(signature, context)
        if form is None and self.load_only:
            raise Absent
        return form


class _Results(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Serialisation of a form, as Numba does it, without any paths."""

    def __init__(self, body: Callable[..., Any], directory: Path) -> None:
        self._lineno = body.__code__.co_firstlineno
        self._locator = _Place(body.__code__.co_filename, directory)


class _Place:
    def __init__(self, source: str, directory: Path) -> None:
        self._py_file = source
        self._directory = directory

    def ensure_cache_path(self) -> None:
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)


class _Files:
    """A file for each key: the signature, the processor with its features, and the bytecode.

    It begins with a digest of the rest: a flipped bit in machine code would be run.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name

    def _path(self, key: Any) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self._directory / f"{self._name}-{digest}{cache.SUFFIX}"

    def load(self, key: Any) -> Any:
        """The form for a key; None if there is none that can be read."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if _digest(content[DIGEST_BYTES:]) != content[:DIGEST_BYTES]:
            # Without the file, a process that looks for code sees that it has to be compiled again.
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        try:
            stored_key, data = pickle.loads(content[DIGEST_BYTES:])
        except Exception:  # written by modules that no longer exist
            return None
        return data if stored_key == key else None

    def save(self, key: Any, data: Any) -> None:
        """Keep a form, if there is room for it."""
        content = serialize.dumps((key, data))
        cache.keep(self._path(key), _digest(content) + content)

    def flush(self) -> None:
        """Forget all forms of the loop."""
        for path in self._directory.glob(f"{self._name}-*{cache.SUFFIX}"):
            path.unlink(missing_ok=True)
