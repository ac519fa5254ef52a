"""Tables of papers on the page: measured and published, cells marked by the verdict about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple

from precedes.pages.numbers import grouped, notation, places_of
from precedes_papers.measured import Measured
from precedes_papers.report.claims import Index, slug
from precedes_papers.rules import Claim
from precedes_papers.shown import Cell, Published, Table

Write = Callable[[float], str]


class Column(NamedTuple):
    """A cell of a table's head."""

    text: str
    is_number: bool = False
    columns: int = 1  # that it stands above
    rows: int = 1


def head(table: Table) -> list[list[Column]]:
    """The rows of a table's head; columns that begin alike stand under one heading."""
    names = []
    for place, name in enumerate(table.header):
        is_number = place > 0 and not any(isinstance(row[place], str) for row in table.rows)
        names.append((*name.partition(", ")[::2], is_number))
    groups = [(first, list(group)) for first, group in groupby(names, key=lambda one: one[0])]
    rows = 1 if all(len(group) == 1 for _, group in groups) else 2
    above, below = [], []
    for first, group in groups:
        if len(group) == 1:
            _, rest, is_number = group[0]
            above.append(Column(f"{first}, {rest}" if rest else first, is_number, rows=rows))
            continue
        above.append(Column(first, columns=len(group)))
        below += [Column(rest or first, is_number) for _, rest, is_number in group]
    return [above, below] if below else [above]


class Shown(NamedTuple):
    """A cell of a table's body: its class and text, the claim about it, and its interval."""

    kind: str
    text: str
    claim: Claim | None = None
    interval: str = ""


def body(index: Index, table: Table) -> list[list[Shown]]:
    """The rows of a table."""
    return [
        [_cell(index, table, cell, write) for cell, write in zip(cells, writes, strict=True)]
        for cells, writes in zip(table.rows, _notations(table), strict=True)
    ]


def _notations(table: Table) -> list[list[Write]]:
    """Notation of each number: the same within a column, or within a row of one quantity."""
    if table.by_row:
        return [[_notation(row, _published_places(row))] * len(row) for row in table.rows]
    groups = [name.partition(", ")[0] for name in table.header]
    columns = []
    for place, group in enumerate(groups):
        same = [other for other, name in enumerate(groups) if name == group]
        alike = [row[other] for row in table.rows for other in same]
        columns.append(_notation([row[place] for row in table.rows], _published_places(alike)))
    return [columns] * len(table.rows)


def _published_places(cells: Sequence[Cell]) -> int:
    """The published decimals, which the measured values next to them have as well."""
    return max((places_of(cell.value) for cell in cells if isinstance(cell, Published)), default=0)


def _notation(cells: Sequence[Cell], places: int) -> Write:
    numbers: list[float] = []
    for cell in cells:
        if isinstance(cell, Measured):
            numbers.append(cell.mean)
        elif isinstance(cell, Published):
            numbers.append(cell.value)
        elif isinstance(cell, (int, float)):
            numbers.append(cell)
    return notation(numbers, places=places if numbers else 0)


def _cell(index: Index, table: Table, cell: Cell, write: Write) -> Shown:
    if isinstance(cell, Published):
        return Shown("number printed", grouped(cell.value) if table.by_row else write(cell.value))
    if cell is None:
        return Shown("none", "")
    if isinstance(cell, str):
        return Shown("text", cell)
    if not isinstance(cell, Measured):
        return Shown("number", write(cell))
    claim = index.of_cell(table.name, cell)
    kind = "number" if claim is None else f"number judged {slug(claim.verdict)}"
    # Of what a claim is about, the interval that it was judged by.
    low, high = cell.interval or (None, None)
    if claim is not None and claim.low is not None:
        low, high = claim.low, claim.high
    interval = ""
    if low is not None and high is not None and low != high:
        interval = f"{write(low)} to {write(high)}"
    return Shown(kind, write(cell.mean), claim, interval)
