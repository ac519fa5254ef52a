"""A bar for whoever calls Python: in a notebook or on a terminal, and nowhere else."""

from __future__ import annotations

import contextlib
import sys
import time
from html import escape
from typing import Any, Final

FIRST_S: Final = 0.5  # short work needs no bar
EVERY_S: Final = 0.1
WIDTH: Final = 30


class ProgressBar:
    """``simulate(..., progress=ProgressBar("simulate"))``: how far it is, gone when it is done.

    A function that takes ``progress`` calls it with the share that is done. In a notebook the bar
    is an output of the cell, on a terminal a line on standard error; elsewhere nothing is drawn. If
    the work fails, the bar stays where it was.
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self._next_s = time.monotonic() + FIRST_S
        self._drawn: _Cell | _Line | None = None

    def __call__(self, share: float) -> None:
        """Show the share that is done, some times a second."""
        now_s = time.monotonic()
        if share >= 1.0:
            if self._drawn is not None:
                self._drawn.clear()
                self._drawn = None
            return
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        if self._drawn is None:
            self._drawn = _place()
        if self._drawn is not None:
            self._drawn.draw(self.label, max(0.0, share))


class _Cell:
    """An output of a notebook's cell, which is replaced."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def draw(self, label: str, share: float) -> None:
        bar = f'<progress max="1" value="{share:.3f}" aria-label="{escape(label)}"></progress>'
        self._show(f"<div>{escape(label)} {bar} {share:.0%}</div>", f"{label} {share:.0%}")

    def clear(self) -> None:
        self._show("", "")

    def _show(self, html: str, text: str) -> None:
        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class _Line:
    """A line of a terminal, which is written over."""

    def draw(self, label: str, share: float) -> None:
        done = round(share * WIDTH)
        self._write(f"\r{label} [{'=' * done}{' ' * (WIDTH - done)}] {share:4.0%}")

    def clear(self) -> None:
        self._write("\r\x1b[2K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a courtesy
            sys.stderr.write(text)
            sys.stderr.flush()


def _place() -> _Cell | _Line | None:
    """Where a bar can be drawn, if anywhere."""
    # IPython is there already if this is one of its cells.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None and getattr(shell, "kernel", None) is not None:
        return _Cell(sys.modules["IPython.display"].display)
    if sys.stderr is not None and sys.stderr.isatty():
        return _Line()
    return None
