"""Reads Parquet files as common rows: tables of events, and traces of this package.

The columns of a table may have other names than ours; a trace is read row group by row group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.errors import UserError
from precedes.stores import Address
from precedes.trace import schema
from precedes.trace.arrow_arrays import strings
from precedes.trace.dialect import Dialect, Found, by_row
from precedes.trace.importers.batches import BATCH_ROWS, EventRows
from precedes.trace.importers.columns import BadRow, chosen_columns, events_of
from precedes.trace.reader import MAGIC, damaged
from precedes.trace.rows import JUDGED
from precedes.trace.source import Source

NAMES: Final = ("run_id", "node", "local_seq", "time_us", "kind", "source", "seq")


def batches(source: Source, *, dialect: Dialect, found: Found) -> Iterator[pa.RecordBatch]:
    """The rows of a table; without ``local_seq`` a row's is its number, from 0."""
    title = source.title
    if not source.opening.startswith(MAGIC):
        raise UserError(f"{title} is no Parquet file: say what it is with `format`")
    with source.seekable() as file:
        try:
            table = pq.ParquetFile(file, pre_buffer=False)
            names = chosen_columns(table.schema_arrow.names, dialect, title=title)
            found.note_order("local_seq" in names, title)
            if not found.has_order:
                found.place = by_row
            chosen = list(dict.fromkeys(names.values()))
            for batch in table.iter_batches(BATCH_ROWS, columns=chosen, use_threads=False):
                columns = {ours: batch.column(theirs) for ours, theirs in names.items()}
                yield _events(columns, dialect, found, title)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"{title} is cut short or damaged: {reason}") from None


def _events(
    columns: dict[str, pa.Array], dialect: Dialect, found: Found, title: str
) -> pa.RecordBatch:
    first = found.rows
    found.rows += len(next(iter(columns.values())))
    try:
        return events_of(columns, dialect, first=first)
    except BadRow as bad:
        raise UserError(f"{title}, row {first + bad.row}: {bad.why}") from None
    except UserError as error:
        raise UserError(f"{title}: {error}") from None


def trace_batches(source: Source, *, found: Found) -> Iterator[pa.RecordBatch]:
    """The judged rows of a trace; a node without any has a join with nothing, which says no more.

    So the group has as many nodes as the trace says.
    """
    title = source.title
    with source.seekable() as file:
        try:
            trace = pq.ParquetFile(file, pre_buffer=False)
            about = schema.decode_metadata(trace.schema_arrow.metadata, path=title)
            missing = [name for name in NAMES if name not in trace.schema_arrow.names]
            if missing:
                raise UserError(f"{title} lacks the column {', '.join(missing)}: record it again")
            seen = _unseen(about, trace.metadata.num_rows)
            for batch in trace.iter_batches(columns=list(NAMES), use_threads=False):
                rows = trace_events(batch, title)
                _note_nodes(rows, seen, title)
                yield rows
        except (pa.ArrowException, OSError) as error:
            raise damaged(title, error) from None
    yield _silent(seen)


def trace_events(batch: pa.RecordBatch, title: str) -> pa.RecordBatch:
    """The judged rows of a batch with the columns ``NAMES``."""
    columns = {name: batch.column(name) for name in NAMES}
    # A reader ignores kinds that it does not know.
    try:
        return events_of(columns, Dialect(kinds={"*": "ignore"}), first=0)
    except BadRow as bad:
        raise UserError(f"{title}: {bad.why}: record it again") from None


def silent_batches(address: Address) -> Iterator[pa.RecordBatch]:
    """What ``trace_batches`` says of the nodes of a trace without a judged row."""
    path = str(address)
    with address.open() as file, pq.ParquetFile(file, pre_buffer=False) as trace:
        about = schema.decode_metadata(trace.schema_arrow.metadata, path=path)
        seen = _unseen(about, trace.metadata.num_rows)
        names = ["run_id", "node", "kind"]
        for batch in trace.iter_batches(columns=names, use_threads=False):
            judged = pc.is_in(batch.column("kind").cast(pa.string()), strings([*JUDGED]))
            _note_nodes(batch.filter(judged), seen, path)
    yield _silent(seen)


def _unseen(about: dict[str, Any], rows: int) -> defaultdict[str, NDArray[np.bool_]]:
    """For each run which of its nodes have been seen; a trace without rows is one run."""
    seen: defaultdict[str, NDArray[np.bool_]] = defaultdict(
        lambda: np.zeros(about["nodes"], np.bool_)
    )
    if not rows:
        seen[str(about["run_id"])][:] = False
    return seen


def _note_nodes(
    rows: pa.RecordBatch, seen: defaultdict[str, NDArray[np.bool_]], title: str
) -> None:
    pairs = pa.table([rows.column("run_id"), rows.column("node")], names=["run", "node"])
    for pair in pairs.group_by(["run", "node"]).aggregate([]).to_pylist():
        nodes = seen[str(pair["run"])]
        number = int(pair["node"])
        if not 0 <= number < nodes.size:
            raise UserError(f"{title}: an event is at a node outside 0..{nodes.size - 1}")
        nodes[number] = True


def _silent(seen: dict[str, NDArray[np.bool_]]) -> pa.RecordBatch:
    rows = EventRows()
    for run_id, nodes in seen.items():
        for node in np.flatnonzero(~nodes).tolist():
            rows.add(run_id=run_id, node=str(node), local_seq=0, kind="join", message=None)
    return rows.take()
