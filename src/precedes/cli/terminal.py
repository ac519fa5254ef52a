"""What results have on a terminal and not in a pipe: lines that fit it, and colour."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from precedes.console import show

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


def show_text(
    text: str, styles: Mapping[str, str] | None = None, *, names: Iterable[str] = ()
) -> None:
    """Print a result; a terminal gets lines that fit it, and colour.

    What the patterns match has the style of Rich's behind them. ``names`` may hold spaces: no line
    ends inside one.
    """
    if not _is_terminal():
        show(text)
        return
    fitting = wrapped(text, width=_columns(), names=names)
    if os.environ.get("NO_COLOR"):
        show(fitting)
        return
    from rich.console import Console
    from rich.text import Text

    styled = Text(fitting)
    for pattern, style in (styles or {}).items():
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


def in_columns(rows: Mapping[str, str]) -> list[str]:
    """Lines with a name and what is said of it, in two columns."""
    width = max(map(len, rows), default=0)
    return [f"{name:{width}}  {about}".rstrip() for name, about in rows.items()]


def show_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their titles: names to the left, numbers to the right.

    Where a terminal is too narrow for that, each row is a block with a line for each number.
    """
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if _is_terminal() and sum(widths) + 2 * (len(widths) - 1) > _columns():
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


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
