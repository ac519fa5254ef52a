"""Functions that compiled code may call, declared without a compiler.

Each stays a plain Python function. Its declaration is kept in ``DECLARED`` until the first loop is
compiled: a process that only reads, lists or interprets protocols never imports Numba.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

# Adding it promotes an integer to int64, so a helper is not compiled for int32 too.
ZERO: Final = 0


class Declared(NamedTuple):
    """A function, the selector of its body by types of arguments, and whether it is inlined."""

    function: Callable[..., Any]
    choose: Callable[..., Any]
    inline: bool


class _NoMethods(NamedTuple):
    """Attributes that every named tuple has."""


DECLARED: Final[list[Declared]] = []
# Methods of named tuples: name -> class -> body. Those out of line are named in APART.
METHODS: Final[dict[str, dict[type, Callable[..., Any]]]] = {}
APART: Final[set[str]] = set()


def function(*, inline: bool = True, loop: Callable[..., Any] | None = None) -> Callable[[F], F]:
    """Make a helper callable from compiled code; called from Python it stays plain Python.

    ``inline=False`` keeps a large or rarely used helper out of line, to save compile time.
    ``loop`` is compiled in its place if the function uses NumPy where compiled code uses a
    loop; a test compares the two.
    """

    def decorate(body: F) -> F:
        def choose(*_arguments: Any) -> Callable[..., Any]:
            return body if loop is None else loop

        DECLARED.append(Declared(body, choose, inline))
        return body

    return decorate


def methods(*, apart: tuple[str, ...] = ()) -> Callable[[C], C]:
    """Make the methods of a NamedTuple callable from compiled code, ``apart`` out of line.

    Methods of one name have the same parameters in all classes. In compiled code a method hides
    the fields of that name in all other named tuples: there must be none.
    """

    def decorate(owner: C) -> C:
        APART.update(apart)
        for name in set(vars(owner)) - set(vars(_NoMethods)) - set(owner.__annotations__):
            METHODS.setdefault(name, {})[owner] = vars(owner)[name]
        return owner

    return decorate


def copy_bytes(
    source: NDArray[np.uint8], first: int, target: NDArray[np.uint8], at: int, count: int
) -> None:
    """Copy bytes from one array to another; the caller has checked the bounds.

    A compiled loop would test each index for wrap-around; a slice would allocate.
    """
    target[at : at + count] = source[first : first + count]


def prefetch(table: NDArray[Any], row: int) -> None:
    """Prefetch a row, or a word, that is about to be read.

    Compiled code continues meanwhile; interpreted, it does nothing.
    """


class GenericFunction(Generic[P, R]):
    """Return type of ``generic``: callable, with ``register`` and ``implementation``."""

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
        """Return whether this very class has its own body."""
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

        DECLARED.append(Declared(call, choose, inline=True))
        call.dispatch = dispatch  # type: ignore[attr-defined]
        return call

    return decorate


def register(target: Callable[..., Any], state_class: type) -> Callable[[F], F]:
    """Register the decorated body of a generic function for a state class."""
    dispatch: GenericFunction[Any, Any] = target.dispatch  # type: ignore[attr-defined]
    return dispatch.register(state_class)


def registered(target: Callable[..., Any], state_class: type) -> bool:
    """Return whether a generic function has a body of its own for this class."""
    dispatch: GenericFunction[Any, Any] = target.dispatch  # type: ignore[attr-defined]
    return dispatch.registered(state_class)
