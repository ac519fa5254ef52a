"""Hands loops, and what they call, to Numba: imported when the first loop is compiled."""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import event as numba_event
from numba.core.errors import NumbaError
from numba.extending import overload

from precedes import waiting
from precedes.compiled import cache, shortcuts
from precedes.compiled.declare import DECLARED, copy_bytes
from precedes.compiled.options import HELPER, OPTIONS, SHORTCUTS
from precedes.compiled.pointers import Reference
from precedes.compiled.stored import Absent, Stored
from precedes.errors import InternalError

Loop = TypeVar("Loop", bound=Callable[..., Any])

shortcuts.make_copy(copy_bytes)

_declaring: Final = threading.Lock()


def _declare() -> None:
    """Tell Numba of all functions that have been declared since the last time."""
    with _declaring:
        while DECLARED:
            function, choose, options = DECLARED.pop(0)
            overload(function, strict=False, jit_options=options)(choose)


def in_memory(body: Loop) -> Loop:
    """The compiled form of a loop, kept nowhere."""
    return cast(Loop, numba.njit(**OPTIONS)(body))


def dispatcher(body: Loop, *, label: str, directory: Path | None) -> Loop:
    """The compiled form of a loop, kept in a directory if that can be written."""
    _declare()
    _announcement().labels[body] = label
    if directory is None:
        return in_memory(body)
    try:
        cache.make_room(directory)
    except OSError as error:
        cache.tell_not_kept(error)
        return in_memory(body)
    made = numba.njit(**HELPER)(body)
    made._cache = Stored(body, directory)
    return cast(Loop, made)


def load(
    body: Callable[..., Any], arguments: Any, *, label: str, directory: Path
) -> Callable[..., Any] | None:
    """The compiled form of a loop for arguments of these types, if a directory holds it."""
    _declare()
    _announcement().labels[body] = label
    made = numba.njit(**HELPER)(body)
    made._cache = Stored(body, directory, load_only=True)
    try:
        made.compile(_types(made, arguments))
    except Absent:
        return None
    made._cache.load_only = False
    return cast(Callable[..., Any], made)


def compile_for(body: Callable[..., Any], arguments: Any, *, own: tuple[Path, ...]) -> None:
    """Have a dispatcher compile its loop for arguments of these types, unless it is compiled."""
    _declare()
    faster = shortcuts.shortcuts() if SHORTCUTS else contextlib.nullcontext()
    with faster:
        try:
            cast(Any, body).compile(_types(body, arguments))
        except NumbaError as error:
            raise InternalError(_in_short(str(error), own)) from error


def is_compiled(body: Callable[..., Any], arguments: Any) -> bool:
    """Whether a dispatcher has its loop compiled for arguments of these types."""
    return _types(body, arguments) in cast(Any, body).overloads


def _types(made: Any, arguments: Any) -> tuple[Any, ...]:
    return tuple(map(made.typeof_pyval, arguments))


def by_reference(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, tuples of arrays among them as references."""
    return tuple(Reference(x) if isinstance(x, tuple) else x for x in arguments)


def _in_short(text: str, own: tuple[Path, ...]) -> str:
    """The line of the user's file that does not compile, from the pages that Numba prints."""
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    found = [f"{file}:{line}" for file, line in places if Path(file).resolve() in own]
    where = found[-1] if found else (f"{places[-1][0]}:{places[-1][1]}" if places else "the engine")
    causes = re.findall(
        r"(Unknown attribute .*|Untyped global name .*|Cannot unify .*|NameError: .*|"
        r"Cannot determine .*|Only accept returning .*|Use of unsupported .*)",
        text,
    )
    cause = causes[-1].strip() if causes else "it cannot be compiled"
    return f"{where}: {cause[:160]} (run it with --interpreted to step through)"


class _Announcement(numba_event.Listener):  # type: ignore[misc]
    """Shows that compilation is what the user is waiting for.

    Numba tells of real compilations alone, not of loading from the cache.
    """

    def __init__(self) -> None:
        self.labels: dict[Callable[..., Any], str] = {}
        self._shown: dict[Callable[..., Any], AbstractContextManager[object]] = {}

    def on_start(self, event: Any) -> None:
        body = event.data["dispatcher"].py_func
        if body in self.labels:
            text = f"compiling {self.labels[body]} for first use (some seconds; then cached)"
            self._shown[body] = waiting.shown(text, line=True)
            self._shown[body].__enter__()

    def on_end(self, event: Any) -> None:
        shown = self._shown.pop(event.data["dispatcher"].py_func, None)
        if shown is not None:
            shown.__exit__(None, None, None)


@functools.cache
def _announcement() -> _Announcement:
    listener = _Announcement()
    numba_event.register("numba:compile", listener)
    return listener
