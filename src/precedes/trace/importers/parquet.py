"""Reads tables of events in Parquet files, whose columns may have other names than ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.errors import UserError
from precedes.trace.dialect import Dialect, Found
from precedes.trace.importers.columns import BadRow, chosen_columns, events_of
from precedes.trace.importers.rows import BATCH_ROWS
from precedes.trace.source import Source

MAGIC: Final = b"PAR1"


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
                found.place = _by_row
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


def _by_row(node: str, local_seq: int) -> str:
    return f"row {local_seq}"
