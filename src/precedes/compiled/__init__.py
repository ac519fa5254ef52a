"""Compilation in one place: this package is all that knows Numba.

Three decorators cover the package. Each leaves a plain Python function behind, so that the
same source runs compiled or interpreted in one process, with identical results.

- ``function``: a helper callable from compiled and from interpreted code.
- ``generic``: a function whose body is chosen by the class of its first argument, at compile
  time when compiled and by a dictionary look-up when interpreted.
- ``Entry``: a loop that Python calls; it is compiled on first use and cached on disk.

Handlers passed as arguments or closed over would never be cached by Numba; dispatch by type is
what lets one engine loop serve every protocol and still start in well under a second.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import event as numba_event
from numba.core.errors import NumbaError
from numba.extending import overload
from numpy.typing import NDArray

from precedes import sources
from precedes.compiled import shortcuts
from precedes.compiled.pointers import Reference
from precedes.errors import InternalError

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

# Loops whose compiled code is kept, a megabyte each: all protocols in a few versions.
VERSIONS_KEPT: Final = 200

# Added to a number of any size it makes one of 64 bits: a helper called with numbers of 32 bits
# here and of 64 bits there would be compiled twice.
ZERO: Final = 0

# Every array is owned by the Python caller and nothing is allocated inside compiled code, so
# reference counts of arrays never matter there; leaving them out makes the event queue 3.5x
# faster. The option is private to Numba: a test compares runs with the switch on and off.
REFERENCE_COUNTING: Final = os.environ.get("PRECEDES_REFERENCE_COUNTING", "0") == "1"

# Out-of-range indices raise instead of corrupting memory; for tests, at about half the speed.
BOUNDS_CHECKS: Final = os.environ.get("PRECEDES_BOUNDS_CHECKS", "0") == "1"

# Shorter ways through the inside of Numba, which halve the time to compile; a test compares runs
# with the switch on and off.
SHORTCUTS: Final = os.environ.get("PRECEDES_SHORTCUTS", "1") == "1"

# No fast-math: compiled and interpreted arithmetic must agree to the last bit.
OPTIONS: Final[dict[str, Any]] = {
    "error_model": "numpy",
    "boundscheck": BOUNDS_CHECKS,
    **({} if REFERENCE_COUNTING else {"_nrt": False}),
}
# Helpers are called from compiled code alone; a C wrapper for each would cost a third of the
# time to compile.
HELPER: Final[dict[str, Any]] = {**OPTIONS, "no_cfunc_wrapper": True, "forceinline": False}
INLINED: Final[dict[str, Any]] = {**HELPER, "forceinline": True}


def function(*, inline: bool = True) -> Callable[[F], F]:
    """Make a helper callable from compiled code; called from Python it stays plain Python.

    ``inline=False`` keeps a large or rarely used helper out of line, to save compile time.
    """

    def decorate(body: F) -> F:
        def choose(*_arguments: Any) -> Callable[..., Any]:
            return body

        options = INLINED if inline else HELPER
        overload(body, strict=False, jit_options=options)(choose)
        return body

    return decorate


def copy_bytes(
    source: NDArray[np.uint8], first: int, target: NDArray[np.uint8], at: int, count: int
) -> None:
    """Copy bytes from one array to another; the caller has made sure that they are there.

    Compiled, a loop would look at every index whether it is negative, and a slice would allocate.
    """
    target[at : at + count] = source[first : first + count]


shortcuts.make_copy(copy_bytes)


class GenericFunction(Generic[P, R]):
    """What ``generic`` returns: callable, with ``register`` and ``implementation``."""

    def __init__(self, stub: Callable[P, R], *, optional: bool) -> None:
        self.name = stub.__name__
        self._table: dict[type, Callable[..., Any]] = {}
        self._default = stub if optional else None

    def register(self, state_class: type) -> Callable[[F], F]:
        """Use the decorated function for first arguments of exactly this class."""

        def keep(body: F) -> F:
            self._table[state_class] = body
            return body

        return keep

    def implementation(self, state_class: type | None) -> Callable[..., Any] | None:
        """The body for a class: the registered one, the default, or None."""
        if state_class is None:
            return self._default
        return self._table.get(state_class, self._default)

    def registered(self, state_class: type) -> bool:
        """Whether this very class has its own body."""
        return state_class in self._table


def generic(*, optional: bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function dispatched by the class of its first argument.

    ``optional`` makes the stub itself the body for classes that register none. The returned
    function carries its ``GenericFunction`` as the attribute ``dispatch``; use ``register`` and
    ``registered`` below.
    """

    def decorate(stub: Callable[P, R]) -> Callable[P, R]:
        dispatch = GenericFunction(stub, optional=optional)

        @functools.wraps(stub)
        def call(*arguments: P.args, **_keywords: P.kwargs) -> R:
            body = dispatch.implementation(type(arguments[0]))
            if body is None:
                raise TypeError(f"{dispatch.name} is not registered for {type(arguments[0])}")
            return cast(R, body(*arguments))

        def choose(state: Any, *_arguments: Any) -> Callable[..., Any] | None:
            return dispatch.implementation(getattr(state, "instance_class", None))

        overload(call, strict=False, jit_options=INLINED)(choose)
        call.dispatch = dispatch  # type: ignore[attr-defined]
        return call

    return decorate


def register(target: Callable[..., Any], state_class: type) -> Callable[[F], F]:
    """Register the decorated body of a generic function for a state class."""
    dispatch: GenericFunction[Any, Any] = target.dispatch  # type: ignore[attr-defined]
    return dispatch.register(state_class)


def registered(target: Callable[..., Any], state_class: type) -> bool:
    """Whether a generic function has a body of its own for this class."""
    dispatch: GenericFunction[Any, Any] = target.dispatch  # type: ignore[attr-defined]
    return dispatch.registered(state_class)


def _how() -> str:
    """What compiled code depends on beside its sources."""
    versions = f"numba {numba.__version__} python {sys.version_info[:3]}"
    return f"{sorted(OPTIONS.items())!r} {versions}"


def sources_digest(extra: Iterable[Path] = ()) -> str:
    """A digest of what runs are made of, of ``extra``, and of the compile options."""
    return sources.digest(extra, more=f"{_how()} {sources.digest_of_runs()}")


def cache_root() -> Path:
    """Where compiled code is kept: ``PRECEDES_CACHE``, or the user's cache directory."""
    configured = os.environ.get("PRECEDES_CACHE")
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "precedes"


def _forget_oldest(root: Path) -> None:
    """Keep the compiled code that was used last."""
    versions = sorted(root.glob("*/"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in versions[VERSIONS_KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)


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


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C interrupt a compilation wherever it falls.

    LLVM calls back into Python, where an exception is printed and forgotten; and after a long
    stretch without Python that callback is the first place where an interrupt can be raised.
    """
    raised = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(raised):
        yield
        return
    interrupts: list[int] = []
    told = sys.unraisablehook

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        raised(number, frame)

    def tell(forgotten: Any) -> None:
        if not issubclass(forgotten.exc_type, KeyboardInterrupt):
            told(forgotten)

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = tell
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, raised)
        sys.unraisablehook = told
    if interrupts:
        raise KeyboardInterrupt


class Entry(Generic[P, R]):
    """A loop called from Python: compiled on first use, cached on disk, or run interpreted.

    There is one compiled dispatcher per ``key`` (the state's class), so that the cache index of
    one protocol never has to import another's file, and files outside the package (a user's own
    protocol) can take part in the digest through ``own``.
    """

    def __init__(self, body: Callable[P, R], *, label: str, by_reference: bool = False) -> None:
        self.interpreted = body
        self.label = label
        self._by_reference = by_reference
        self._dispatchers: dict[tuple[type | None, tuple[Path, ...]], Callable[P, R]] = {}

    def compiled(self, key: type | None = None, *, own: tuple[Path, ...] = ()) -> Callable[P, R]:
        """The compiled form for one state class."""
        found = self._dispatchers.get((key, own))
        if found is None:
            found = self._dispatcher(self._directory(key, own))
            self._dispatchers[key, own] = found
        return found

    def parts(self, key: type | None, own: tuple[Path, ...]) -> tuple[Path, ...]:
        """The files that the compiled form for a state class is made of.

        Numba keys a cache entry by the file that defines the loop alone: an edited protocol would
        go on returning its old results. A digest of these files names the directory instead. A
        body of a generic function must therefore be in a file that the loop imports, the state's
        file, or the package that has the state's class as its own.
        """
        starts = [Path(self.interpreted.__code__.co_filename), *own]
        if key is not None:
            package = sys.modules.get(key.__module__.rpartition(".")[0])
            is_its_own = getattr(package, key.__name__, None) is key
            for module in (sys.modules.get(key.__module__), package if is_its_own else None):
                if file := getattr(module, "__file__", None):
                    starts.append(Path(file))
        return sources.closure(starts)

    def _directory(self, key: type | None, own: tuple[Path, ...]) -> Path | None:
        """Where the compiled form is kept, or None if it was edited since this process began."""
        parts = self.parts(key, own)
        if not sources.are_as_imported(parts):
            return None
        name = "none" if key is None else f"{key.__module__}.{key.__qualname__}"
        return cache_root() / sources.digest(parts, more=_how()) / name

    def prepare(
        self, key: type | None, own: tuple[Path, ...], *arguments: P.args, **_none: P.kwargs
    ) -> Callable[P, R]:
        """The compiled form after one call with these arguments, which must have no effect.

        An entry that takes its tuples by reference is called through ``bind``.
        If the cache cannot be written (a full disk), it goes on without one.
        """
        arguments = self._refer(arguments)
        body = self.compiled(key, own=own)
        faster = shortcuts.shortcuts() if SHORTCUTS else contextlib.nullcontext()
        with interruptible(), faster:
            try:
                body(*arguments)  # type: ignore[call-arg]
            except OSError:
                body = cast(Callable[P, R], numba.njit(**OPTIONS)(self.interpreted))
                self._dispatchers[key, own] = body
                body(*arguments)  # type: ignore[call-arg]
            except NumbaError as error:
                raise InternalError(_in_short(str(error), own)) from error
        return body

    def bind(self, body: Callable[..., R], *arguments: Any) -> Callable[[], R]:
        """A body, interpreted or as ``prepare`` returned it, with its arguments.

        For loops that are called often: what is handed over by reference, and of which types the
        arguments are, is looked at once.
        """
        if body is not self.interpreted:
            arguments = self._refer(arguments)
            body = shortcuts.entry_point(body, arguments)
        return functools.partial(body, *arguments)

    def _refer(self, arguments: Any) -> Any:
        if not self._by_reference:
            return arguments
        return [Reference(x) if isinstance(x, tuple) else x for x in arguments]

    def _dispatcher(self, directory: Path | None) -> Callable[P, R]:
        # Fires only for a real compilation, not for a load from the cache.
        _announcement().labels[self.interpreted] = self.label
        if directory is None:
            return cast(Callable[P, R], numba.njit(**OPTIONS)(self.interpreted))
        previous = numba.config.CACHE_DIR
        try:
            if not directory.parent.exists():
                _forget_oldest(cache_root())
            directory.mkdir(parents=True, exist_ok=True)
            directory.parent.touch()
            numba.config.CACHE_DIR = str(directory)
            return cast(Callable[P, R], numba.njit(cache=True, **HELPER)(self.interpreted))
        except (OSError, RuntimeError):
            # A read-only home (Numba: "no locator available") is no reason to fail.
            return cast(Callable[P, R], numba.njit(**OPTIONS)(self.interpreted))
        finally:
            numba.config.CACHE_DIR = previous


class _Announcement(numba_event.Listener):  # type: ignore[misc]
    """Says that compilation is what the user is waiting for: once, however many loops it takes."""

    def __init__(self) -> None:
        self.labels: dict[Callable[..., Any], str] = {}
        self._told: set[str] = set()

    def on_start(self, event: Any) -> None:
        label = self.labels.get(event.data["dispatcher"].py_func)
        if label is None or label in self._told or sys.stderr is None:
            return
        self._told.add(label)
        with contextlib.suppress(OSError):
            print(
                f"precedes: compiling {label} for first use (some seconds; then cached)",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: Any) -> None:
        """Nothing to say: the work itself follows."""


@functools.cache
def _announcement() -> _Announcement:
    listener = _Announcement()
    numba_event.register("numba:compile", listener)
    return listener
