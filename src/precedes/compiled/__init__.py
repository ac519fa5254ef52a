"""Compilation: the only package that imports Numba.

Three decorators cover the package. Each leaves a plain Python function behind, so that the
same source runs compiled or interpreted in one process, with identical results.

- ``function``: a helper callable from compiled and from interpreted code.
- ``generic``: a function whose body is chosen by the class of its first argument, at compile
  time when compiled and by a dictionary look-up when interpreted.
- ``Entry``: a loop that Python calls; it is compiled on first use and cached on disk.

Handlers passed as arguments or closed over would never be cached by Numba; dispatch by type is
what lets one engine loop serve every protocol and still start in well under a second.
Numba itself is imported when the first loop is compiled.
"""

from precedes.compiled.cache import cache_root, sources_digest
from precedes.compiled.declare import (
    ZERO,
    copy_bytes,
    function,
    generic,
    methods,
    prefetch,
    register,
    registered,
)
from precedes.compiled.entry import Entry

__all__ = [
    "ZERO",
    "Entry",
    "cache_root",
    "copy_bytes",
    "function",
    "generic",
    "methods",
    "prefetch",
    "register",
    "registered",
    "sources_digest",
]
