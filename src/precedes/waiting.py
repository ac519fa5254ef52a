"""What the user sees while something takes seconds whose end nobody can foretell."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

# Given what is waited for; around the time that it takes.
Display = Callable[[str], AbstractContextManager[object]]

_told: Final[set[str]] = set()
_display: Display | None = None


def show_with(display: Display) -> None:
    """Have what this process waits for shown, in another way than by lines."""
    global _display
    _display = display


def shown(text: str, *, line: bool = False) -> AbstractContextManager[object]:
    """Show what is waited for, for the length of a block.

    Where nothing can be drawn, ``line`` has it said in one on standard error, once a process.
    """
    if _display is not None:
        return _display(text)
    return _line(text) if line else contextlib.nullcontext()


@contextlib.contextmanager
def _line(text: str) -> Iterator[None]:
    tell_once(text)
    yield


def tell_once(text: str) -> None:
    """Say something in a line on standard error, once a process."""
    if text not in _told and sys.stderr is not None:
        _told.add(text)
        with contextlib.suppress(OSError, ValueError):
            print(f"precedes: {text}", file=sys.stderr, flush=True)
