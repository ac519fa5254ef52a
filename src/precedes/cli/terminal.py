"""What a terminal gets and a pipe does not: progress, a spinner, lines that fit it, and colour.

Rich is imported when there is something to draw. Results go through ``console.show`` all the
same, drawings through ``console.write_error``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Final, TextIO, cast

from precedes.console import is_quiet, is_verbose, phase, show, write_error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

FIRST_S: Final = 0.5  # short work needs no bar
WIDTH: Final = 30
# Before this much is done, and has taken this long, nothing is said of what is left.
RISEN_MIN: Final = 0.01
TAKEN_MIN_S: Final = 1.0

# Where a line that is too long goes on: behind a bullet or a label, or a little to the right.
HANGING: Final = re.compile(r" *- | *\S(?:.*?\S)?  +(?=\S)| *")
HANGING_SHARE_MAX: Final = 0.5  # of the width; a longer label is no reason to leave the rest empty
NO_BREAK: Final = "\0"

VERDICTS: Final = {
    "^held": "bold green",
    "^violated": "bold red",
    "^unknown": "bold yellow",
    "^late": "bold yellow",
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

    def update(self, share: float, *, label: str | None = None) -> None:
        """Show the share that is done and the time that is left; Rich draws when it likes.

        ``label`` is another one from here on.
        """
        self.label = self.label if label is None else label
        now_s = time.monotonic()
        left = clock(self._pace.left_s(share, now_s))
        if self._drawn is None:
            if now_s < self._first_s or is_quiet() or not _is_terminal(sys.stderr):
                return
            self._drawn = self._open()
        self._drawn.update(
            self._drawn.task_ids[0], completed=share, left=left, description=_escaped(self.label)
        )

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
    """Have a spinner turn, on a terminal, while loops are compiled or Spark starts.

    A quiet command waits without a word, a verbose one says how long it did.
    """
    from precedes import waiting

    if is_quiet():
        waiting.show_with(lambda _label: contextlib.nullcontext())
    elif is_verbose():
        waiting.show_with(phase)
    elif _is_terminal(sys.stderr):
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
    from rich.progress import Progress

    drawn = Progress(
        *columns,
        console=_console(),
        transient=True,
        # They may lead elsewhere than to this terminal.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    drawn.add_task(_escaped(label), total=total, left="")
    drawn.start()
    drawn.refresh()  # below another drawing it would wait for that one's next turn
    return drawn


def _escaped(label: str) -> str:
    from rich.markup import escape

    return escape(label)


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


def show_text(text: str, styles: Mapping[str, str], *, names: Iterable[str] = ()) -> None:
    """Print a result; a terminal gets lines that fit it, and colour.

    What the patterns match has the style of Rich's behind them. ``names`` may hold spaces: no line
    ends inside one.
    """
    if not _is_terminal(sys.stdout):
        show(text)
        return
    fitting = wrapped(text, width=_columns(), names=names)
    if not _is_coloured():
        show(fitting)
        return
    from rich.console import Console
    from rich.text import Text

    styled = Text(fitting)
    for pattern, style in styles.items():
        styled.highlight_regex(pattern, style)
    console = Console()
    with console.capture() as drawn:
        console.print(styled, soft_wrap=True)
    show(drawn.get(), end="")


def wrapped(text: str, *, width: int, names: Iterable[str] = ()) -> str:
    """Text with lines of at most ``width``, broken between words; a longer word stays whole."""
    for name in sorted({name for name in names if " " in name}, key=len, reverse=True):
        text = text.replace(name, name.replace(" ", NO_BREAK))
    lines = [part for line in text.split("\n") for part in _fitting(line, width)]
    return "\n".join(lines).replace(NO_BREAK, " ")


def _fitting(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    found = HANGING.match(line)
    assert found is not None  # it matches nothing, too
    first = found[0]
    at = len(first) if first.strip() else len(first) + 2
    if at > width * HANGING_SHARE_MAX:
        at = len(line) - len(line.lstrip()) + 2
    # What is aligned in the first line stays so: spaces are kept where no line ends.
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * at,
        break_long_words=False,
        break_on_hyphens=False,
    )


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their titles: names to the left, numbers to the right.

    Where a terminal is too narrow for that, each row is a block with a line for each number.
    """
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if _is_terminal(sys.stdout) and sum(widths) + 2 * (len(widths) - 1) > _columns():
        show_text("\n".join(_stacked(head, rows)), {r"(?m)^\S.*": "bold"})
        return
    aligned = (
        "  ".join([f"{first:{widths[0]}}", *map(str.rjust, others, widths[1:])]).rstrip()
        for first, *others in lines
    )
    show_text("\n".join(aligned), {r"\A.*": "bold"})


def _stacked(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    titles = max(map(len, head[1:]), default=0)
    width = max((len(cell) for row in rows for cell in row[1:]), default=0)
    for first, *others in rows:
        yield first
        for title, cell in zip(head[1:], others, strict=True):
            yield f"  {title:{titles}}  {cell:>{width}}"


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _is_coloured() -> bool:
    return not os.environ.get("NO_COLOR")
