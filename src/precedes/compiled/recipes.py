"""What a compiler process is told to compile.

A recipe is "module:function", a function that takes a subject, such as the name of a protocol, and
returns a ``Work`` or something like it: so that this package imports neither the simulator nor live
groups, whose loops it compiles.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from precedes.compiled.entry import Entry


class Work(NamedTuple):
    """A loop to be compiled for a state class and for arguments of these types."""

    entry: Entry[Any, Any]
    key: type | None
    own: tuple[Path, ...]
    arguments: tuple[Any, ...]

    def compile(self) -> None:
        """Compile it here, with the lock held."""
        self.entry.compile(self.key, self.own, self.arguments)


class Compilable(Protocol):
    """What a compiler process does: a ``Work``, or several loops that lock themselves."""

    def compile(self) -> None:
        """Compile it here."""


def made_of(recipe: str, subject: str) -> Compilable:
    """What a recipe names for a subject."""
    module, _, function = recipe.partition(":")
    make: Callable[[str], Compilable] = getattr(importlib.import_module(module), function)
    return make(subject)
