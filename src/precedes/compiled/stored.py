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

from precedes.files import aside

SUFFIX: Final = ".nbc"


class Stored(caching.FunctionCache):  # type: ignore[misc]
    """What Numba asks for compiled forms of a loop, and hands them to."""

    def __init__(self, body: Callable[..., Any], directory: Path) -> None:
        self._py_func = body
        self._name = repr(body)
        self._impl = _Results(body, directory)
        self._cache_path = str(directory)
        self._cache_file = _Files(directory, body.__qualname__.replace("<", "").replace(">", ""))
        self.enable()


class _Results(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """How a form becomes bytes: Numba's way; where they are is not its concern."""

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
    """A file for each key: the signature, the processor with its features, and the bytecode."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name

    def _path(self, key: Any) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return self._directory / f"{self._name}-{digest}{SUFFIX}"

    def load(self, key: Any) -> Any:
        """The form for a key; None if there is none that can be read."""
        try:
            found, data = pickle.loads(self._path(key).read_bytes())
        except Exception:  # absent, or damaged: it is made anew
            return None
        return data if found == key else None

    def save(self, key: Any, data: Any) -> None:
        """Keep a form, if there is room for it: what cannot be kept is made again next time."""
        content = serialize.dumps((key, data))
        with contextlib.suppress(OSError), aside(self._path(key)) as written:
            written.write_bytes(content)

    def flush(self) -> None:
        """Forget all forms of the loop."""
        for path in self._directory.glob(f"{self._name}-*{SUFFIX}"):
            path.unlink(missing_ok=True)
