"""Loops that Python calls, compiled or interpreted."""

from __future__ import annotations

import contextlib
import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeVar

from precedes import sources
from precedes.compiled.cache import directory_of, forms_in, locked

P = ParamSpec("P")
R = TypeVar("R")


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

    def __init__(
        self, body: Callable[P, R], *, label: str, by_reference: tuple[str, ...] = ()
    ) -> None:
        """``by_reference`` names the tuples of arrays of which only the address is handed over."""
        self.interpreted = body
        self.label = label
        self._by_reference = tuple(map(body.__code__.co_varnames.index, by_reference))
        self._dispatchers: dict[tuple[type | None, tuple[Path, ...]], Callable[P, R]] = {}

    def compiled(self, key: type | None = None, *, own: tuple[Path, ...] = ()) -> Callable[P, R]:
        """The compiled form for one state class."""
        from precedes.compiled import builder

        found = self._dispatchers.get((key, own))
        if found is None:
            directory = self.directory(key, own)
            found = builder.dispatcher(self.interpreted, label=self.label, directory=directory)
            self._dispatchers[key, own] = found
        return found

    def directory(self, key: type | None, own: tuple[Path, ...]) -> Path | None:
        """Where the compiled form for a state class is kept, if it can be kept anywhere."""
        return directory_of(self.parts(key, own), key)

    def parts(self, key: type | None, own: tuple[Path, ...]) -> tuple[Path, ...]:
        """The files that the compiled form for a state class is made of.

        A body of a generic function must be in a file that the loop imports, the state's file, or
        the package that has the state's class as its own.
        """
        starts = [Path(self.interpreted.__code__.co_filename), *own]
        if key is not None:
            package = sys.modules.get(key.__module__.rpartition(".")[0])
            is_its_own = getattr(package, key.__name__, None) is key
            for module in (sys.modules.get(key.__module__), package if is_its_own else None):
                if file := getattr(module, "__file__", None):
                    starts.append(Path(file))
        return sources.closure(starts)

    def ready(
        self, key: type | None, own: tuple[Path, ...], arguments: tuple[Any, ...]
    ) -> Callable[P, R] | None:
        """The compiled form for arguments of these types, if this process has it already."""
        body = self._dispatchers.get((key, own))
        if body is None:
            return None
        from precedes.compiled import builder

        return body if builder.is_compiled(body, self.handed(*arguments)) else None

    def load(
        self, key: type | None, own: tuple[Path, ...], arguments: tuple[Any, ...], directory: Path
    ) -> Callable[P, R] | None:
        """The compiled form for arguments of these types, if a directory holds it."""
        from precedes.compiled import builder

        handed = self.handed(*arguments)
        body = builder.load(self.interpreted, handed, label=self.label, directory=directory)
        if body is not None:
            self._dispatchers[key, own] = body
        return body

    def compile(
        self, key: type | None, own: tuple[Path, ...], arguments: tuple[Any, ...]
    ) -> Callable[P, R]:
        """The compiled form for arguments of these types, in this process; nothing is called.

        Whoever calls it holds the lock.
        """
        from precedes.compiled import builder

        body = self.compiled(key, own=own)
        with interruptible():
            builder.compile_for(body, self.handed(*arguments), own=own)
        return body

    def prepare(
        self, key: type | None, own: tuple[Path, ...], *arguments: P.args, **_none: P.kwargs
    ) -> Callable[P, R]:
        """The compiled form for arguments of these types: loaded, or compiled here and now.

        An entry that takes tuples by reference is called through ``bind``, or with what ``handed``
        returns. While another process compiles the same, this one waits.
        """
        if (body := self.ready(key, own, arguments)) is not None:
            return body
        directory = self.directory(key, own)
        if directory is not None and forms_in(directory, self.interpreted):
            body = self.load(key, own, arguments, directory)
            if body is not None:
                return body
        self.compiled(key, own=own)  # it makes the directory
        with locked(directory, self.interpreted):
            return self.compile(key, own, arguments)

    def handed(self, *arguments: Any) -> tuple[Any, ...]:
        """The first arguments as the compiled form takes them, some by reference if possible."""
        from precedes.compiled import builder

        return builder.by_reference(arguments, self._by_reference)

    def bind(self, body: Callable[..., R], *arguments: Any) -> Callable[[], R]:
        """A body, interpreted or as ``prepare`` returned it, with its arguments.

        For loops that are called often: what is handed over by reference, and of which types the
        arguments are, is looked at once.
        """
        if body is not self.interpreted:
            from precedes.compiled import builder

            arguments = self.handed(*arguments)
            body = builder.entry_point(body, arguments)
        return functools.partial(body, *arguments)
