"""Loops that are called for little work and for much: interpreted while that is quicker.

An audit calls a dozen loops, which take a compiler longer than most logs take to be judged. The
form of a loop may change from call to call: what is interpreted and what is compiled do the same.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from precedes.compiled import cache, tiers
from precedes.compiled.entry import Entry

P = ParamSpec("P")
R = TypeVar("R")

# The loops of an audit take 11 CPU-seconds to compile. Interpreted they take 10 us a row, or a few
# times that: what took this long already is likely to go on for longer than a compilation.
INTERPRETED_CPU_S: Final = 3.0

# More rows than this in one call are not begun interpreted.
ROWS_MAX: Final = 1 << 17

# What loops with a label have taken interpreted, in this process.
_taken_s: Final[defaultdict[str, float]] = defaultdict(float)
# Loops that this process has compiled or loaded.
_compiled: Final[dict[Entry[..., Any], Callable[..., Any]]] = {}


def paced(entry: Entry[P, R], *, rows: int = 0) -> Callable[P, R]:
    """A loop in the form in which to call it for so many rows: compiled if that is in the cache,
    if the loops with its label have taken long, or if it is to be in every case.

    It is then compiled here and now, which is announced.
    """
    tier = tiers.resolve("auto")
    if tier == "interpreted":
        return entry.interpreted
    if entry in _compiled:
        return _compiled[entry]
    if (
        tier == "compiled"
        or rows > ROWS_MAX
        or _taken_s[entry.label] > INTERPRETED_CPU_S
        or _was_cached(entry, cache.cache_root())
    ):
        return functools.partial(_prepared, entry)
    return functools.partial(_timed, entry)


@functools.cache
def _was_cached(entry: Entry[..., Any], _root: Path) -> bool:
    return is_cached(entry)


def is_cached(entry: Entry[..., Any]) -> bool:
    """Whether there seems to be compiled code of a loop."""
    directory = entry.directory(None, ())
    return directory is not None and bool(cache.forms_in(directory, entry.interpreted))


def _prepared(entry: Entry[P, R], *arguments: P.args, **none: P.kwargs) -> R:
    body = _compiled[entry] = entry.prepare(None, (), *arguments, **none)
    return body(*arguments, **none)


def _timed(entry: Entry[P, R], *arguments: P.args, **none: P.kwargs) -> R:
    begin_s = time.process_time()
    try:
        return entry.interpreted(*arguments, **none)
    finally:
        _taken_s[entry.label] += time.process_time() - begin_s
