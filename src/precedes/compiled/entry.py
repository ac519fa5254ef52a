"""Loops that Python calls, compiled or interpreted."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from precedes import sources
from precedes.compiled.cache import cache_root, directory_of, forms_in

P = ParamSpec("P")
R = TypeVar("R")


class Entry(Generic[P, R]):
    """A loop called from Python: interpreted, or as machine code that is kept on disk.

    There is one compiled dispatcher per ``key`` (the state's class), so that the cache index of
    one protocol never has to import another's file, and files outside the package (a user's own
    protocol) can take part in the digest through ``own``. ``job`` is what a compiler makes the
    machine code with (``compiler.RECIPES``). Hosts get the machine code from a ``compiler.Code``.
    """

    def __init__(
        self,
        body: Callable[P, R],
        *,
        label: str,
        job: str = "",
        by_reference: tuple[str, ...] = (),
    ) -> None:
        """``by_reference`` names the tuples of arrays that are passed by reference."""
        self.interpreted = body
        self.label = label
        self.job = job
        self._by_reference = tuple(map(body.__code__.co_varnames.index, by_reference))
        self._dispatchers: dict[tuple[type | None, tuple[Path, ...]], Callable[P, R]] = {}

    def directory(self, key: type | None, own: tuple[Path, ...]) -> Path | None:
        """The directory below a root of the cache for a state class's machine code, if any."""
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

    def handed(self, *arguments: Any) -> tuple[Any, ...]:
        """The first arguments as the compiled form takes them, some by reference if possible."""
        from precedes.compiled import builder

        return builder.by_reference(arguments, self._by_reference)

    def ready(
        self, key: type | None, own: tuple[Path, ...], arguments: tuple[Any, ...]
    ) -> Callable[P, R] | None:
        """The compiled form for arguments of these types, if this process has loaded it."""
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

        body = builder.load(self.interpreted, self.handed(*arguments), directory=directory)
        if body is not None:
            self._dispatchers[key, own] = body
        return body

    def prepare(
        self, key: type | None, own: tuple[Path, ...], *arguments: P.args, **_none: P.kwargs
    ) -> Callable[P, R]:
        """The compiled form for arguments of these types: loaded, or compiled synchronously.

        For compilers, and for loops that compile within a second. An entry that takes tuples by
        reference is called through ``bind``, or with what ``handed`` returns.
        """
        if (body := self.ready(key, own, arguments)) is not None:
            return body
        from precedes.compiled import builder

        relative = self.directory(key, own)
        directory = None if relative is None else cache_root() / relative
        if directory is not None and forms_in(directory, self.interpreted):
            body = self.load(key, own, arguments, directory)
            if body is not None:
                return body
        body = self._dispatchers.get((key, own))
        if body is None:
            body = builder.dispatcher(self.interpreted, directory=directory)
            self._dispatchers[key, own] = body
        builder.compile_for(body, self.handed(*arguments), own=own)
        return body

    def bind(self, body: Callable[..., R], *arguments: Any) -> Callable[[], R]:
        """A body, interpreted or compiled, with its arguments.

        For loops that are called often: references are made and types of arguments are determined
        once.
        """
        if body is not self.interpreted:
            from precedes.compiled import builder

            arguments = self.handed(*arguments)
            body = builder.entry_point(body, arguments)
        return functools.partial(body, *arguments)
