"""Results as DataFrames, as tables of text, and as the small tables that a notebook shows.

The tables take their colours from their surroundings, so that they fit any theme of a notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from precedes.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS_MAX: Final = 30  # of a table in a notebook; the DataFrame has them all
LABEL: Final = 12  # columns of a label in text
NUMBER: Final = 13  # columns of a number, unless one is longer
UNKNOWN: Final = "-"
MARKS: Final = {"held": "\u2713", "violated": "\u2717", "unknown": "?"}
_STYLE: Final = """
.precedes-shown { font: 0.93rem/1.4 system-ui, sans-serif; }
.precedes-shown .frame { overflow-x: auto; }
.precedes-shown p { margin: 0.3rem 0; }
.precedes-shown ul { margin: 0.3rem 0; padding-left: 1.2rem; }
.precedes-shown table { border-collapse: collapse; margin: 0.3rem 0; background: none; }
.precedes-shown caption { text-align: left; opacity: 0.75; }
.precedes-shown :is(th, td) {
  padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; background: none;
  border: 0; border-bottom: 1px solid rgb(128 128 128 / 0.35);
}
.precedes-shown thead th { border-bottom-width: 2px; vertical-align: bottom; }
.precedes-shown tbody th { font-weight: normal; }
.precedes-shown .number { text-align: right; font-variant-numeric: tabular-nums; }
.precedes-shown .verdict { font-weight: 600; padding: 0 0.4rem; border-radius: 0.2rem; }
.precedes-shown .held { background: rgb(26 127 55 / 0.2); }
.precedes-shown .violated { background: rgb(200 60 20 / 0.25); }
.precedes-shown .unknown { background: rgb(200 150 0 / 0.25); }
"""


def pandas_of(table: pa.Table) -> pd.DataFrame:
    """A table as a DataFrame of pandas, which is optional."""
    try:
        return table.to_pandas()
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise UserError("to_pandas needs pandas: pip install pandas; to_arrow does not") from None


def arrow_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows with the same names as a table."""
    import pyarrow as pa

    return pa.Table.from_pylist(list(rows))


def noun(count: float, one: str, many: str = "") -> str:
    """Singular or plural: ``many``, or ``one`` with an s, unless the count is one."""
    return one if count == 1 else many or f"{one}s"


def counted(count: int, one: str, many: str = "") -> str:
    """A number and its noun."""
    return f"{count:,} {noun(count, one, many)}"


def counts(*rows: tuple[str, float | None, str]) -> list[str]:
    """Lines with a label, a number (None: not known) and its unit or a remark."""
    numbers = [UNKNOWN if count is None else f"{count:,.0f}" for _, count, _ in rows]
    width = max(NUMBER, *map(len, numbers))
    return [
        f"{label:{LABEL}}{number:>{width}}  {remark}".rstrip()
        for (label, _, remark), number in zip(rows, numbers, strict=True)
    ]


def times(
    title: str, heads: Iterable[str], rows: Mapping[str, Sequence[float | None]]
) -> list[str]:
    """Lines with times below their heads; none if no time is known."""
    known = {label: row for label, row in rows.items() if any(cell is not None for cell in row)}
    if not known:
        return []
    lines = [f"{title:{LABEL}}" + "".join(f"{head:>{NUMBER}}" for head in heads)]
    for label, row in known.items():
        cells = ("" if cell is None else f"{cell:,.2f}" for cell in row)
        lines.append(f"  {label:{LABEL - 2}}" + "".join(f"{cell:>{NUMBER}}" for cell in cells))
    return [line.rstrip() for line in lines]


def shown(*parts: str) -> str:
    """HTML for a notebook: these parts, with their style."""
    return f'<div class="precedes-shown"><style>{_STYLE}</style>{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """A line of text, escaped."""
    return f"<p>{escape(text)}</p>"


def verdict(word: str, text: str) -> str:
    """The verdict of an audit, as a mark and a word, and the text after it."""
    mark = f'<span class="verdict {escape(word)}">{MARKS.get(word, "")} {escape(word)}</span>'
    return f"<p>{mark}: {escape(text)}</p>"


def table(
    head: Sequence[str], rows: Sequence[Sequence[object]], *, caption: str = "", more: int = 0
) -> str:
    """Rows under their titles, numbers to the right; ``more`` is the number of rows left out.

    Of more than ``ROWS_MAX`` rows the first are shown, followed by the total.
    """
    more += max(0, len(rows) - ROWS_MAX)
    numeric = [_is_number([row[at] for row in rows]) for at in range(len(head))]
    parts = ["<table>", f"<caption>{escape(caption)}</caption>" if caption else "", "<thead><tr>"]
    for title, right in zip(head, numeric, strict=True):
        parts.append(f'<th scope="col"{_class(right)}>{escape(title)}</th>')
    parts.append("</tr></thead><tbody>")
    for row in rows[:ROWS_MAX]:
        cells = [
            f"<td{_class(right)}>{escape(cell(value))}</td>"
            for value, right in zip(row, numeric, strict=True)
        ]
        parts.append(f"<tr>{''.join(cells)}</tr>")
    parts.append("</tbody></table>")
    rest = f"<p>and {more:,} more rows: to_pandas() has them all</p>" if more else ""
    return framed("".join(parts)) + rest


def framed(table: str) -> str:
    """A table that scrolls where it is too wide, by keyboard too."""
    return f'<div class="frame" tabindex="0">{table}</div>'


def facts(pairs: Mapping[str, object]) -> str:
    """Names and values, a row each."""
    rows = [
        f'<tr><th scope="row">{escape(name)}</th><td class="number">{escape(cell(value))}</td></tr>'
        for name, value in pairs.items()
    ]
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def cell(value: object) -> str:
    """A value formatted for people."""
    if value is None:
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return str(value)


def _is_number(column: Sequence[object]) -> bool:
    there = [value for value in column if value is not None]
    return bool(there) and all(isinstance(v, int | float) for v in there)


def _class(right: bool) -> str:
    return ' class="number"' if right else ""
