"""Tables of events that somebody has in memory, with names of nodes and messages, as histories."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from precedes.errors import UserError
from precedes.model import printable
from precedes.trace.collect import SPLIT_ROWS, histories
from precedes.trace.dialect import Dialect, Found, by_row
from precedes.trace.history import History
from precedes.trace.importers.columns import BadRow, chosen_columns, events_of

TITLE: Final = "the table"


def from_arrow(table: Any, *, dialect: Dialect | None = None) -> list[History]:
    """The histories in a table, one for each run, as ``load`` gives those in a log.

    The columns are ``node``, ``kind``, ``message`` (or ``source`` and ``seq``) and, if there are
    several runs, ``run_id``; others are ignored. ``local_seq`` orders the events of a node; without
    it their order is that of the rows. ``table`` is a pyarrow Table, or whatever offers its columns
    as an Arrow stream. Unless ``dialect`` says that the log is complete, nothing counts as lost.
    """
    whole = table if isinstance(table, pa.Table) else pa.table(table)
    dialect = Dialect() if dialect is None else dialect
    names = chosen_columns(whole.column_names, dialect, title=TITLE)
    return _histories({ours: whole.column(theirs) for ours, theirs in names.items()}, dialect)


def from_pandas(frame: Any, *, dialect: Dialect | None = None) -> list[History]:
    """``from_arrow`` for a pandas DataFrame; its index is ignored.

    A column may hold strings here and integers there, as in JSON lines: ``7`` is ``"7"``.
    """
    dialect = Dialect() if dialect is None else dialect
    names = chosen_columns(list(frame.columns), dialect, title=TITLE)
    columns = {ours: _column(frame[theirs], ours) for ours, theirs in names.items()}
    return _histories(columns, dialect)


def _column(series: Any, name: str) -> pa.Array:
    try:
        return pa.Array.from_pandas(series)
    except (pa.ArrowException, OverflowError):  # several types, or beyond 64 bits
        return pa.array([_name(value, name, row) for row, value in enumerate(series)], pa.string())


def _name(value: object, column: str, row: int) -> str | None:
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    raise UserError(
        f"{TITLE}, row {row}: {column} is {value!r}, neither a string nor a whole number"
    )


def _histories(columns: dict[str, Any], dialect: Dialect) -> list[History]:
    table = pa.table(columns)
    found = Found(has_order="local_seq" in columns)
    if not found.has_order:
        found.place = by_row
    if "run_id" in columns and not table.num_rows:
        return []
    batches = _batches(table, dialect)
    runs = histories(batches, found, title=TITLE, complete=dialect.complete)
    if "run_id" not in columns:
        return runs
    return [replace(run, origin=f"run {printable(str(run.run_id))}") for run in runs]


def _batches(table: pa.Table, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in table.to_batches(SPLIT_ROWS):
        columns = {name: batch.column(name) for name in table.column_names}
        try:
            yield events_of(columns, dialect, first=first)
        except BadRow as bad:
            raise UserError(f"{TITLE}, row {first + bad.row}: {bad.why}") from None
        first += batch.num_rows
