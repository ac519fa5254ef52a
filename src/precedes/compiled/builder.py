"""Interface to Numba, imported when the first loop is compiled."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import types
from numba.core.errors import NumbaError
from numba.extending import overload, overload_method

from precedes.compiled import cache, options
from precedes.compiled.declare import APART, DECLARED, METHODS, copy_bytes, function, prefetch
from precedes.errors import InternalError

Loop = TypeVar("Loop", bound=Callable[..., Any])

if options.uses_private():
    from precedes.compiled.copying import make_copy
    from precedes.compiled.fetching import make_prefetch
    from precedes.compiled.stored import Absent, Stored

    make_copy(copy_bytes)
    make_prefetch(prefetch)
else:
    function()(copy_bytes)
    function()(prefetch)

_declaring: Final = threading.Lock()
_methods: Final[set[str]] = set()  # names declared to Numba


def _declare() -> None:
    """Declare to Numba all functions that were added since the last call."""
    with _declaring:
        while DECLARED:
            body, choose, inline = DECLARED.pop(0)
            how = options.helper_options(inline=inline)
            overload(body, strict=False, jit_options=how)(choose)
        for name in METHODS.keys() - _methods:
            _methods.add(name)
            _declare_method(name)


def _declare_method(name: str) -> None:
    """Declare to Numba the methods of a name, of named tuples and of references to them."""
    bodies = METHODS[name]

    def choose(self: Any, *_arguments: Any) -> Any:
        return bodies.get(self.instance_class)

    # Numba passes the parameters by name.
    choose.__signature__ = inspect.signature(next(iter(bodies.values())))  # type: ignore[attr-defined]
    how = options.helper_options(inline=name not in APART)
    kinds: list[Any] = [types.containers.BaseNamedTuple]
    if options.uses_references():
        from precedes.compiled.pointers import ReferenceType

        kinds.append(ReferenceType)
    for kind in kinds:
        overload_method(kind, name, strict=False, jit_options=how)(choose)


def in_memory(body: Loop) -> Loop:
    """The compiled form of a loop, which is not cached."""
    return cast(Loop, _njit(body))


def _njit(body: Callable[..., Any], **more: Any) -> Any:
    return numba.njit(**options.helper_options(inline=False), **more)(body)


def dispatcher(body: Loop, *, directory: Path | None) -> Loop:
    """The compiled form of a loop, cached in a directory if that is writable."""
    _declare()
    if directory is None:
        return in_memory(body)
    try:
        cache.make_room(directory)
    except OSError as error:
        cache.tell_not_kept(error)
        return in_memory(body)
    if not options.uses_private():
        return cast(Loop, _kept_by_numba(body, directory))
    made = _njit(body)
    made._cache = Stored(body, directory)
    return cast(Loop, made)


def _kept_by_numba(body: Callable[..., Any], directory: Path) -> Any:
    """The same with Numba's own cache files, which no other process finds or shares."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(directory)
    try:
        return _njit(body, cache=True)
    finally:
        numba.config.CACHE_DIR = before


def load(body: Callable[..., Any], arguments: Any, *, directory: Path) -> Callable[..., Any] | None:
    """The compiled form of a loop for arguments of these types, or None if it is not cached.

    With its own cache files Numba loads or compiles it here.
    """
    _declare()
    if not options.uses_private():
        made = _kept_by_numba(body, directory)
        made.compile(_types(made, arguments))
        return cast(Callable[..., Any], made)
    made = _njit(body)
    made._cache = Stored(body, directory, load_only=True)
    try:
        made.compile(_types(made, arguments))
    except Absent:
        return None
    made._cache.load_only = False
    return cast(Callable[..., Any], made)


def compile_for(body: Callable[..., Any], arguments: Any, *, own: tuple[Path, ...]) -> None:
    """Compile a dispatcher's loop for arguments of these types, unless it is compiled."""
    _declare()
    with _faster():
        try:
            cast(Any, body).compile(_types(body, arguments))
        except NumbaError as error:
            raise InternalError(_in_short(str(error), own)) from error
        except OSError as error:  # it is compiled, but Numba cannot cache it
            cache.tell_not_kept(error)


def _faster() -> AbstractContextManager[None]:
    if not options.uses_shortcuts():
        return contextlib.nullcontext()
    from precedes.compiled.shortcuts import shortcuts

    return shortcuts()


def is_compiled(body: Callable[..., Any], arguments: Any) -> bool:
    """Return whether a dispatcher has its loop compiled for arguments of these types."""
    return _types(body, arguments) in cast(Any, body).overloads


def _types(made: Any, arguments: Any) -> tuple[Any, ...]:
    return tuple(map(made.typeof_pyval, arguments))


def by_reference(arguments: tuple[Any, ...], places: tuple[int, ...]) -> tuple[Any, ...]:
    """The arguments, with references in these places where the layout allows them."""
    reference = _reference() if places else None
    if reference is None:
        return arguments
    return tuple(reference(x) if i in places else x for i, x in enumerate(arguments))


@functools.cache
def _reference() -> Callable[[Any], Any] | None:
    if not options.uses_references():
        return None
    from precedes.compiled.pointers import Reference, is_laid_out_as_expected

    return Reference if is_laid_out_as_expected() else None


def entry_point(body: Callable[..., Any], arguments: Any) -> Callable[..., Any]:
    """The machine code that a dispatcher calls for these types, without type checks."""
    if not options.uses_private():
        return body
    return cast(Any, body).overloads[_types(body, arguments)].entry_point


def _in_short(text: str, own: tuple[Path, ...]) -> str:
    """The line of the user's file that does not compile, extracted from Numba's message."""
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    lines = [f"{file}:{line}" for file, line in places if Path(file).resolve() in own]
    where = lines[-1] if lines else (f"{places[-1][0]}:{places[-1][1]}" if places else "the engine")
    causes = re.findall(
        r"(Unknown attribute .*|Untyped global name .*|Cannot unify .*|NameError: .*|"
        r"Cannot determine .*|Only accept returning .*|Use of unsupported .*)",
        text,
    )
    cause = causes[-1].strip() if causes else "it does not compile"
    return f"{where}: {cause[:160]} (run it interpreted to step through)"
