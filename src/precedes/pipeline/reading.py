"""How Spark's tasks read logs: orders that name a log, or row groups of one, and what they give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import Dialect
from precedes.trace.arrays import to_arrow, to_numpy
from precedes.trace.dialect import Found, folder_columns
from precedes.trace.formats import tables
from precedes.trace.formats.tables import BadRow, chosen_columns, events_of, opened_table
from precedes.trace.opening import FORMATS, event_batches, is_parquet, row_count
from precedes.trace.schema import EVENTS, METADATA_KEY

# CPU seconds for a row of Parquet, and of other formats.
ROW_S: Final = 0.5e-6
LINE_S: Final = 3e-6
BATCH_ROWS: Final = 1 << 16
UNIT_ROWS: Final = 4_000_000  # row groups that one order names have no more, unless one alone does

Order = dict[str, Any]


class Priced(NamedTuple):
    """An order and what it may cost."""

    order: Order
    cost_s: float


def check_format(format: str) -> None:
    """Raise if there is no such format."""
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")


def orders_of(log: Address, format: str, *, among: Dialect | None = None) -> list[Priced]:
    """What tasks read of a log: Parquet by row groups, another whole.

    ``among`` others of this dialect, a table without ``local_seq`` is read whole too: ``_counted``.
    """
    path = str(log.absolute())
    if not is_parquet(log, format):
        return [Priced({"path": path}, LINE_S * row_count(log, format))]
    with opened_table(log) as file:
        if among is not None and among.columns.get("local_seq", "local_seq") not in {
            *file.schema_arrow.names,
            *folder_columns(log),
        }:
            return [Priced({"path": path}, ROW_S * file.metadata.num_rows)]
        found = [
            Priced({"path": path, "first": first, "last": last}, ROW_S * rows)
            for first, last, rows in _units(file.metadata)
        ]
        if METADATA_KEY in (file.schema_arrow.metadata or {}):
            cost_s = ROW_S / 10 * file.metadata.num_rows
            found.append(Priced({"path": path, "silent": True}, cost_s))
    return found


def table_orders(table: Address) -> list[Priced]:
    """What tasks read of a Parquet file whose rows are in no order."""
    with opened_table(table) as file:
        return [
            Priced({"path": str(table.absolute()), "first": first, "last": last}, ROW_S * rows)
            for first, last, rows in _units(file.metadata)
        ]


def _units(metadata: Any) -> Iterator[tuple[int, int, int]]:
    """Row groups that are read as one: first, last and rows."""
    first = rows = 0
    for group in range(metadata.num_row_groups):
        more = metadata.row_group(group).num_rows
        if rows and rows + more > UNIT_ROWS:
            yield first, group, rows
            first, rows = group, 0
        rows += more
    yield first, metadata.num_row_groups, rows


def read_order(
    order: Order, format: str, dialect: Dialect, found: Found | None = None
) -> Iterator[pa.RecordBatch]:
    """The events that an order of ``orders_of`` names, as batches of ``schema.EVENTS``.

    Without ``found`` they are to stand among those of other logs.
    """
    log = Address.of(order["path"])
    if "silent" in order:
        return tables.silent_batches(log)
    if "first" in order:
        return _row_groups(log, range(order["first"], order["last"]), dialect)
    if found is not None:
        return event_batches(order["path"], format, dialect=dialect, found=found)
    found = Found()
    return _counted(event_batches(order["path"], format, dialect=dialect, found=found), found)


def _counted(batches: Iterator[pa.RecordBatch], found: Found) -> Iterator[pa.RecordBatch]:
    """Rows ordered by their lines, with each node's counted from 0 instead.

    Which of two such logs has the earlier rows of a node is unknown. Their positions are then the
    same, and the audit refuses them; line numbers would interleave.
    """
    counts: dict[tuple[str, str], int] = {}
    for batch in batches:
        if found.has_order is not False:
            yield batch
            continue
        run, node = (batch.column(name).dictionary_encode() for name in ("run_id", "node"))
        key = to_numpy(run.indices).astype(np.int64) * len(node.dictionary) + to_numpy(node.indices)
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        sizes = np.diff(starts, append=key.size)
        firsts = to_arrow(order[starts])
        names = [*zip(*(column.take(firsts).to_pylist() for column in (run, node)), strict=True)]
        before = np.array([counts.get(name, 0) for name in names], np.int64)
        local_seq = np.empty(key.size, np.int64)
        local_seq[order] = np.arange(key.size) + np.repeat(before - starts, sizes)
        counts.update(zip(names, (before + sizes).tolist(), strict=True))
        at = EVENTS.names.index("local_seq")
        yield batch.set_column(at, EVENTS.field(at), to_arrow(local_seq))


def _row_groups(log: Address, groups: range, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    """The events in some row groups of a trace or a table."""
    with opened_table(log) as file:
        is_trace = METADATA_KEY in (file.schema_arrow.metadata or {})
        names = dict(zip(tables.NAMES, tables.NAMES, strict=True))
        dialect = dialect.at(log)
        if not is_trace:
            names = chosen_columns(file.schema_arrow.names, dialect, title=str(log))
        row = sum(file.metadata.row_group(group).num_rows for group in range(groups.start))
        columns = list(dict.fromkeys(names.values()))
        for batch in file.iter_batches(BATCH_ROWS, list(groups), columns, use_threads=False):
            if is_trace:
                yield tables.trace_events(batch, str(log))
            else:
                ours = {name: batch.column(theirs) for name, theirs in names.items()}
                yield _table_events(ours, dialect, row, log)
            row += batch.num_rows


def _table_events(
    columns: dict[str, pa.Array], dialect: Dialect, first: int, log: Address
) -> pa.RecordBatch:
    try:
        return events_of(columns, dialect, first=first)
    except BadRow as bad:
        raise UserError(f"{log}, row {first + bad.row}: {bad.why}") from None
    except UserError as error:
        raise UserError(f"{log}: {error}") from None
