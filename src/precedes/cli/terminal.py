"""What a terminal gets and a pipe does not: progress, a spinner, tables and colour.

Rich is imported when there is something to draw. Results go through ``console.show`` all the
same, drawings through ``console.write_error``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, TextIO, cast

from precedes.console import show, write_error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

FIRST_S: Final = 0.5  # short work needs no bar
WIDTH: Final = 30
# Before this much is done, and has taken this long, nothing is said of what is left.
RISEN_MIN: Final = 0.01
TAKEN_MIN_S: Final = 1.0

VERDICTS: Final = {
    "^held": "bold green",
    "^violated": "bold red",
    "^unknown": "bold yellow",
}


class Pace:
    """The time that is left, from shares and when they were told; a function of those alone.

    The time counts from the moment when the share first rises: what is before that, such as a
    cluster that starts, is no measure of what follows.
    """

    def __init__(self) -> None:
        self._begin_s: float | None = None
        self._begin_share = 0.0

    def left_s(self, share: float, now_s: float) -> float | None:
        """The seconds to come; None while too little is known."""
        if self._begin_s is None or share <= self._begin_share:
            self._begin_s, self._begin_share = now_s, share
            return None
        risen, taken_s = share - self._begin_share, now_s - self._begin_s
        if risen < RISEN_MIN or taken_s < TAKEN_MIN_S:
            return None
        return taken_s * (1.0 - share) / risen


def clock(seconds: float | None) -> str:
    """A time that is left, as people read it."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


class Bar:
    """``with Bar("label") as bar: bar.update(0.3)``: gone when the work is done."""

    def __init__(self, label: str) -> None:
        self.label = label
        self._first_s = time.monotonic() + FIRST_S
        self._pace = Pace()
        self._drawn: Progress | None = None

    def __enter__(self) -> Bar:
        return self

    def update(self, share: float) -> None:
        """Show the share that is done and the time that is left; Rich draws when it likes."""
        now_s = time.monotonic()
        left = clock(self._pace.left_s(share, now_s))
        if self._drawn is None:
            if now_s < self._first_s or not _is_terminal(sys.stderr):
                return
            self._drawn = self._open()
        self._drawn.update(self._drawn.task_ids[0], completed=share, left=left)

    def _open(self) -> Progress:
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=WIDTH),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[left]}"),
        )
        return _start(self.label, columns, total=1.0)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn is not None:
            self._drawn.stop()


def show_waiting() -> None:
    """Have a spinner turn, on a terminal, while loops are compiled or Spark starts."""
    if _is_terminal(sys.stderr):
        from precedes import waiting

        waiting.show_with(_spinner)


@contextlib.contextmanager
def _spinner(label: str) -> Iterator[None]:
    from rich import progress

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.TimeElapsedColumn(),
    )
    drawn = _start(label, columns, total=None)
    try:
        yield
    finally:
        drawn.stop()


def _start(label: str, columns: Sequence[ProgressColumn], *, total: float | None) -> Progress:
    from rich.markup import escape
    from rich.progress import Progress

    drawn = Progress(
        *columns,
        console=_console(),
        transient=True,
        # They may lead elsewhere than to this terminal.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    drawn.add_task(escape(label), total=total, left="")
    drawn.start()
    drawn.refresh()  # below another drawing it would wait for that one's next turn
    return drawn


@functools.cache
def _console() -> Console:
    """One for all drawings: those of a console can stand below each other."""
    from rich.console import Console

    return Console(file=cast(IO[str], _Stderr()))


class _Stderr(io.TextIOBase):
    """Standard error for Rich: what cannot be written there is dropped."""

    encoding = property(lambda self: getattr(sys.stderr, "encoding", "utf-8"))

    def write(self, text: str) -> int:
        write_error(text)
        return len(text)

    def isatty(self) -> bool:
        return True


def show_text(text: str, styles: Mapping[str, str]) -> None:
    """Print a result; on a terminal what the patterns match has the style of Rich's behind them."""
    if not _is_coloured():
        show(text)
        return
    from rich.text import Text

    styled = Text(text)
    for pattern, style in styles.items():
        styled.highlight_regex(pattern, style)
    _render(styled, soft_wrap=True)


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their titles: names to the left, numbers to the right."""
    if not _is_coloured():
        width = max((len(row[0]) for row in rows), default=0)
        for first, *others in (head, *rows):
            show(f"{first:{width}}" + "".join(f"{cell:>22}" for cell in others))
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for number, title in enumerate(head):
        table.add_column(title, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    _render(table)


def _render(drawing: Any, *, soft_wrap: bool = False) -> None:
    from rich.console import Console

    console = Console()
    with console.capture() as drawn:
        console.print(drawing, soft_wrap=soft_wrap)
    show(drawn.get(), end="")


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _is_coloured() -> bool:
    return _is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
