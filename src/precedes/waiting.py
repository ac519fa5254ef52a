"""What the user sees while a loop is compiled."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

# Given what is compiled; around the time that it takes.
Display = Callable[[str], AbstractContextManager[object]]

_told: Final[set[str]] = set()


@contextlib.contextmanager
def _line(label: str) -> Iterator[None]:
    """A line on standard error: one, however many loops it takes."""
    if label not in _told and sys.stderr is not None:
        _told.add(label)
        with contextlib.suppress(OSError):
            print(
                f"precedes: compiling {label} for first use (some seconds; then cached)",
                file=sys.stderr,
                flush=True,
            )
    yield


_display: Display = _line


def show_with(display: Display) -> None:
    """Have compilations of this process shown in another way than by a line."""
    global _display
    _display = display


def shown(label: str) -> AbstractContextManager[object]:
    """Show that ``label`` is being compiled, for the length of a block."""
    return _display(label)
