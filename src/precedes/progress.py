"""Progress bar, and a spinner for work of unknown duration.

Rich is imported when there is something to draw. Nothing is drawn in a pipe, or by a quiet
command.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from typing import IO, TYPE_CHECKING, Any, Final, cast

from precedes import waiting
from precedes.console import is_quiet, is_verbose, phase, write_error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

FIRST_S: Final = 0.5  # short work needs no bar
EVERY_S: Final = 0.1
WIDTH: Final = 30

_waits = 0  # for compilers, that have ended: the pace differs since then


class ProgressBar:
    """``simulate(..., progress=ProgressBar("simulate"))``: a bar that disappears at the end.

    A function that takes ``progress`` calls it with the completed share. In a notebook the bar
    is an output of the cell, on a terminal a line on standard error; elsewhere nothing is drawn. If
    the work fails, the bar stays where it was; ``with ProgressBar("simulate") as bar:`` removes it
    in any case, at the end of the block.
    """

    def __init__(self, label: str = "", *, first_s: float = FIRST_S) -> None:
        """``first_s``: seconds before the first drawing."""
        self.label = label
        self._next_s = time.monotonic() + first_s
        self._is_managed = False
        self._drawn: _Cell | _Line | None = None

    def __enter__(self) -> ProgressBar:
        self._is_managed = True
        return self

    def __call__(self, share: float, *, label: str | None = None) -> None:
        """Show the completed share, some times a second; ``label`` replaces the label."""
        if share >= 1.0 and not self._is_managed:
            self._clear()
            return
        if label is not None and label != self.label:
            self.label = label
            self._next_s = self._next_s if self._drawn is None else 0.0
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        if self._drawn is None:
            self._drawn = self._place()
        if self._drawn is not None:
            self._drawn.draw(self.label, max(0.0, share))

    def _place(self) -> _Cell | _Line | None:
        """A cell or a line for the bar; None if there is neither a notebook nor a terminal."""
        # IPython is imported already if this is one of its cells.
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython is not None else None
        if shell is not None and getattr(shell, "kernel", None) is not None:
            return _Cell(sys.modules["IPython.display"].display)
        if _is_terminal() and not is_quiet():
            # A bar that was left as it is must not be drawn again above the next one.
            return _Line(_console() if self._is_managed else _make_console(), self.label)
        return None

    def _clear(self) -> None:
        if self._drawn is not None:
            self._drawn.clear()
            self._drawn = None

    def __exit__(self, *_error: object) -> None:
        self._clear()


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
    """A line of a terminal, with the remaining time estimated from the pace so far."""

    def __init__(self, console: Console, label: str) -> None:
        from rich import progress

        columns = (
            _label(),
            progress.BarColumn(bar_width=WIDTH),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(compact=True),
        )
        self._progress = _start(label, columns, console=console, total=1.0)
        self._waits = _waits

    def draw(self, label: str, share: float) -> None:
        (task,) = self._progress.task_ids
        if self._waits != _waits:  # interpreted code has another pace
            self._waits = _waits
            self._progress.reset(task)
        self._progress.update(task, completed=share, description=label, refresh=True)

    def clear(self) -> None:
        self._progress.stop()


def show_waiting() -> None:
    """Show a spinner, on a terminal, while loops are compiled or Spark starts.

    A quiet command prints nothing, a verbose one prints the duration.
    """
    if is_quiet():
        waiting.show_with(lambda _label: contextlib.nullcontext())
    elif is_verbose():
        waiting.show_with(phase)
    elif _is_terminal():
        waiting.show_with(_spinner)


@contextlib.contextmanager
def _spinner(label: str) -> Iterator[None]:
    from rich import progress

    columns = (progress.SpinnerColumn(), _label(), progress.TimeElapsedColumn())
    global _waits
    drawn = _start(label, columns, console=_console(), total=None)
    try:
        yield
    finally:
        drawn.stop()
        _waits += 1


def _label() -> ProgressColumn:
    from rich.progress import TextColumn

    return TextColumn("{task.description}", markup=False)


def _start(
    label: str, columns: Sequence[ProgressColumn], *, console: Console, total: float | None
) -> Progress:
    from rich.progress import Progress

    drawn = Progress(
        *columns,
        console=console,
        # A bar has no thread: nothing would end it if the work failed.
        auto_refresh=total is None,
        transient=True,
        speed_estimate_period=math.inf,
        # They may lead elsewhere than to this terminal.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    drawn.add_task(label, total=total)
    drawn.start()
    console.show_cursor(True)  # restored after a failure
    drawn.refresh()  # below another drawing it would wait for that one's next refresh
    return drawn


def _make_console() -> Console:
    from rich.console import Console

    return Console(file=cast(IO[str], _Stderr()))


# One for bars and spinners: drawings of one console can be stacked.
_console = functools.cache(_make_console)


class _Stderr(io.TextIOBase):
    """Standard error for Rich: failed writes are dropped."""

    encoding = property(lambda self: getattr(sys.stderr, "encoding", "utf-8"))

    def write(self, text: str) -> int:
        write_error(text)
        return len(text)

    def isatty(self) -> bool:
        return True


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
