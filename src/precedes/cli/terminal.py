"""Formatting for a terminal, not for a pipe: wrapped lines and colour."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from precedes.console import show

# Indentation of a wrapped line: behind a bullet or a label, or a little to the right.
HANGING: Final = re.compile(r" *- | *\S(?:.*?\S)?  +(?=\S)| *")
HANGING_SHARE_MAX: Final = 0.5  # of the width; a longer label is not used for indentation
NO_BREAK: Final = "\0"

VERDICTS: Final = {
    "^held": "bold green",
    "^violated": "bold red",
    "^unknown": "bold yellow",
    "^late": "bold yellow",
}


def show_text(
    text: str,
    styles: Mapping[str, str] | None = None,
    *,
    names: Iterable[str] = (),
    cut: bool = False,
) -> None:
    """Print a result; a terminal gets wrapped lines, and colour.

    Text that matches a pattern has the style of Rich's after it. ``names`` may contain spaces: no
    line ends inside one. ``cut``: a long line is cut off instead of wrapped.
    """
    if not _is_terminal():
        show(text)
        return
    width = _columns()
    fitting = wrapped(text, width=width, names=names)
    if cut:
        lines = text.split("\n")
        fitting = "\n".join(x if len(x) <= width else f"{x[: width - 1]}\u2026" for x in lines)
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
    match = HANGING.match(line)
    assert match is not None  # it matches the empty string, too
    first = match[0]
    at = len(first) if first.strip() else len(first) + 2
    if at > width * HANGING_SHARE_MAX:
        at = len(line) - len(line.lstrip()) + 2
    # The alignment of the first line is kept: spaces remain where no line ends.
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * at,
        break_long_words=False,
        break_on_hyphens=False,
    )


def in_columns(rows: Mapping[str, str]) -> list[str]:
    """Lines with a name and its description, in two columns."""
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
