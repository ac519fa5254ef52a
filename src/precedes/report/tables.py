"""Tables of papers in HTML: measured beside printed, cells marked by the verdict about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby

from precedes.pages.numbers import grouped, notation, places_of
from precedes.papers.measured import Measured
from precedes.papers.shown import Cell, Printed, Table
from precedes.report.html import NOTHING, csv_link, frame, verdict_mark
from precedes.report.index import Index, slug

SHORT = 24  # characters of a name that stands in one line
Write = Callable[[float], str]


def table_html(index: Index, table: Table) -> str:
    """A table with its name, note and file."""
    outcome = index.outcome
    label = f"{table.name} of {outcome.reference.citation}"
    body = []
    for cells, writes in zip(table.rows, _notations(table), strict=True):
        first, *others = (
            _cell(index, table, cell, write) for cell, write in zip(cells, writes, strict=True)
        )
        kind = ' class="short"' if len(first[1]) < SHORT else ""
        body.append(f'<tr><th scope="row"{kind}>{first[1]}</th>{"".join(map(_data, others))}</tr>')
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    head = _head(table.header, [_is_number(table, place) for place in range(len(table.header))])
    inner = (
        f'<table class="data"><caption>{escape(label)}</caption><thead>{head}</thead>\n'
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    return (
        f'<section class="wide" id="table-{outcome.paper}-{slug(table.name)}">'
        f"<h4>{escape(table.name)} {csv_link(outcome, table.name)}</h4>{note}\n"
        f"{frame(label, inner)}</section>\n"
    )


def _is_number(table: Table, place: int) -> bool:
    return place > 0 and not any(isinstance(row[place], str) for row in table.rows)


def _head(header: Sequence[str], numbers: Sequence[bool]) -> str:
    """Columns that begin alike stand under one heading."""
    columns = [
        (*name.partition(", ")[::2], is_number)
        for name, is_number in zip(header, numbers, strict=True)
    ]
    groups = [(first, list(group)) for first, group in groupby(columns, key=lambda one: one[0])]
    if all(len(group) == 1 for _, group in groups):
        return f"<tr>{''.join(map(_column, header, numbers))}</tr>"
    above, below = [], []
    for first, group in groups:
        if len(group) == 1:
            _, rest, is_number = group[0]
            name = f"{first}, {rest}" if rest else first
            above.append(_column(name, is_number, ' rowspan="2"'))
            continue
        above.append(f'<th scope="colgroup" colspan="{len(group)}">{escape(first)}</th>')
        below += [_column(rest or first, is_number) for _, rest, is_number in group]
    return f"<tr>{''.join(above)}</tr><tr>{''.join(below)}</tr>"


def _column(name: str, is_number: bool, more: str = "") -> str:
    kind = ' class="number"' if is_number else ""
    return f'<th scope="col"{kind}{more}>{escape(name)}</th>'


def _notations(table: Table) -> list[list[Write]]:
    """How each number is written: alike in a column, or in a row of one quantity."""
    if table.by_row:
        return [[_notation(row, _printed_places(row))] * len(row) for row in table.rows]
    groups = [name.partition(", ")[0] for name in table.header]
    columns = []
    for place, group in enumerate(groups):
        same = [other for other, name in enumerate(groups) if name == group]
        alike = [row[other] for row in table.rows for other in same]
        columns.append(_notation([row[place] for row in table.rows], _printed_places(alike)))
    return [columns] * len(table.rows)


def _printed_places(cells: Sequence[Cell]) -> int:
    """The decimals of print, which what is measured beside it has as well."""
    return max((places_of(cell.value) for cell in cells if isinstance(cell, Printed)), default=0)


def _notation(cells: Sequence[Cell], places: int) -> Write:
    numbers: list[float] = []
    for cell in cells:
        if isinstance(cell, Measured):
            numbers.append(cell.mean)
        elif isinstance(cell, Printed):
            numbers.append(cell.value)
        elif isinstance(cell, (int, float)):
            numbers.append(cell)
    return notation(numbers, places=places if numbers else 0)


def _cell(index: Index, table: Table, cell: Cell, write: Write) -> tuple[str, str]:
    """The class of a cell and what stands in it."""
    if isinstance(cell, Measured):
        return _measured(index, table, cell, write)
    if isinstance(cell, Printed):
        text = grouped(cell.value) if table.by_row else write(cell.value)
        return "number printed", escape(text)
    if cell is None:
        return "none", NOTHING
    if isinstance(cell, str):
        return "text", escape(cell)
    return "number", escape(write(cell))


def _measured(index: Index, table: Table, cell: Measured, write: Write) -> tuple[str, str]:
    text = escape(write(cell.mean))
    claim = index.of_cell(table.name, cell)
    kind = "number"
    if claim is not None:
        mark = verdict_mark(claim.verdict)
        text = f'<a href="#{index.place(claim)}">{text}\N{NO-BREAK SPACE}{mark}</a>'
        kind = f"number judged {slug(claim.verdict)}"
    # Of what a claim is about, the interval that it was judged by.
    low, high = cell.interval or (None, None)
    if claim is not None and claim.low is not None:
        low, high = claim.low, claim.high
    if low is not None and high is not None and low != high:
        text += f'<span class="interval">{escape(write(low))} to {escape(write(high))}</span>'
    return kind, text


def _data(cell: tuple[str, str]) -> str:
    return f'<td class="{cell[0]}">{cell[1]}</td>'
