"""Spinner for work of unknown duration."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

# Called with the text of the wait; a context manager around it.
Display = Callable[[str], AbstractContextManager[object]]

_printed: Final[set[str]] = set()
_display: Display | None = None


def show_with(display: Display) -> None:
    """Display the waits of this process in another way than by lines."""
    global _display
    _display = display


def shown(text: str, *, line: bool = False) -> AbstractContextManager[object]:
    """Display a wait for the length of a block.

    Where nothing can be drawn, ``line`` prints it on standard error, once a process.
    """
    if _display is not None:
        return _display(text)
    return _line(text) if line else contextlib.nullcontext()


@contextlib.contextmanager
def _line(text: str) -> Iterator[None]:
    tell_once(text)
    yield


def tell_once(text: str) -> None:
    """Print a line on standard error, once a process."""
    if text not in _printed and sys.stderr is not None:
        _printed.add(text)
        with contextlib.suppress(OSError, ValueError):
            print(f"precedes: {text}", file=sys.stderr, flush=True)
