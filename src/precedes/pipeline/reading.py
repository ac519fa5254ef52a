"""Readers of logs for Spark's tasks: orders that name a log, or row groups of one, and results."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from precedes.errors import UserError
from precedes.pipeline.plan import pack
from precedes.stores import Address
from precedes.trace import Dialect
from precedes.trace.arrays import to_arrow, to_numpy
from precedes.trace.dialect import Notes, folder_columns
from precedes.trace.formats import tables
from precedes.trace.formats.tables import (
    BadRow,
    chosen_columns,
    events_of,
    opened_table,
    shown_files,
)
from precedes.trace.members import holds_member_logs
from precedes.trace.opening import FORMATS, event_batches, is_parquet, row_count
from precedes.trace.schema import EVENTS, METADATA_KEY

# CPU seconds for a row of Parquet, and of other formats.
ROW_S: Final = 0.5e-6
LINE_S: Final = 3e-6
BATCH_ROWS: Final = 1 << 16
UNIT_ROWS: Final = 4_000_000  # row groups that one order names have no more, unless one alone does

Order = dict[str, Any]
Wanted = Mapping[str, Collection[str]]  # column -> the values of the rows to read


class Priced(NamedTuple):
    """An order and its estimated cost."""

    order: Order
    cost_s: float


def check_format(format: str) -> None:
    """Raise if there is no such format."""
    if format not in FORMATS:
        raise UserError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")


def logs_at(place: Address) -> list[Address]:
    """The logs of an address; the logs of a live group's members are one."""
    if place.kind() is None:
        raise UserError(f"there is no log {place}: check the path")
    if not place.is_folder() or holds_member_logs(place):
        return [place]
    logs = shown_files(place)
    if not logs:
        raise UserError(f"{place} holds no logs")
    return logs


def tasks_of(
    logs: Sequence[Address],
    format: str,
    dialect: Dialect,
    *,
    at_least: int,
    wanted: Wanted | None = None,
) -> list[list[str]]:
    """Orders for ``read_texts``, by task."""
    check_format(format)
    priced = [one for log in logs for one in orders_of(log, format, among=dialect, wanted=wanted)]
    texts = [json.dumps(order) for order, _ in priced]
    packed = pack([cost_s for _, cost_s in priced], at_least=at_least)
    return [[texts[i] for i in task] for task in packed]


def read_texts(texts: Sequence[str], format: str, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    """The events that orders name."""
    for text in texts:
        yield from read_order(json.loads(text), format, dialect)


def orders_of(
    log: Address, format: str, *, among: Dialect | None = None, wanted: Wanted | None = None
) -> list[Priced]:
    """The orders for a log: Parquet by row groups, another format whole.

    ``among`` others of this dialect, a table without ``local_seq`` is read whole too: ``_counted``.
    Row groups are left out if their statistics exclude every row that is ``wanted``.
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
        is_trace = METADATA_KEY in (file.schema_arrow.metadata or {})
        names = among.columns if among is not None and not is_trace else {}
        theirs = {names.get(name, name): values for name, values in (wanted or {}).items()}
        orders = [
            Priced({"path": path, "first": first, "last": last}, ROW_S * rows)
            for first, last, rows in _units(file.metadata, theirs)
        ]
        if is_trace:
            cost_s = ROW_S / 10 * file.metadata.num_rows
            orders.append(Priced({"path": path, "silent": True}, cost_s))
    return orders


def table_orders(table: Address) -> list[Priced]:
    """The orders for a Parquet file whose rows are in no order."""
    with opened_table(table) as file:
        return [
            Priced({"path": str(table.absolute()), "first": first, "last": last}, ROW_S * rows)
            for first, last, rows in _units(file.metadata, {})
        ]


def _units(metadata: Any, wanted: Wanted) -> Iterator[tuple[int, int, int]]:
    """Row groups that are read together: first, last and rows."""
    first = rows = 0
    for group in range(metadata.num_row_groups):
        described = metadata.row_group(group)
        more = described.num_rows
        is_left_out = not _may_hold(described, wanted)
        if rows and (is_left_out or rows + more > UNIT_ROWS):
            yield first, group, rows
            first, rows = group, 0
        if is_left_out:
            first = group + 1
        else:
            rows += more
    if rows or not wanted:
        yield first, metadata.num_row_groups, rows


def _may_hold(group: Any, wanted: Wanted) -> bool:
    """Check by its statistics if a row group may have rows with these values."""
    for number in range(group.num_columns if wanted else 0):
        column = group.column(number)
        statistics = column.statistics if column.path_in_schema in wanted else None
        if statistics is None or not statistics.has_min_max:
            continue
        low, high = statistics.min, statistics.max
        if isinstance(low, str | int):
            asked: list[Any] = [*wanted[column.path_in_schema]]
            if isinstance(low, int):
                asked = [int(value) for value in asked if value.removeprefix("-").isdecimal()]
            if not any(low <= value <= high for value in asked):
                return False
    return True


def read_order(
    order: Order, format: str, dialect: Dialect, notes: Notes | None = None
) -> Iterator[pa.RecordBatch]:
    """The events that an order of ``orders_of`` names, as batches of ``schema.EVENTS``.

    Without ``notes`` they are combined with those of other logs.
    """
    log = Address.of(order["path"])
    if "silent" in order:
        return tables.silent_batches(log)
    if "first" in order:
        return _row_groups(log, range(order["first"], order["last"]), dialect)
    if notes is not None:
        return event_batches(order["path"], format, dialect=dialect, notes=notes)
    notes = Notes()
    return _counted(event_batches(order["path"], format, dialect=dialect, notes=notes), notes)


def _counted(batches: Iterator[pa.RecordBatch], notes: Notes) -> Iterator[pa.RecordBatch]:
    """Rows ordered by their lines, with each node's counted from 0 instead.

    It is unknown which of two such logs has the earlier rows of a node. Their positions are then
    the same, and the audit refuses them; line numbers would interleave.
    """
    counts: dict[tuple[str, str], int] = {}
    for batch in batches:
        if notes.has_order is not False:
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
