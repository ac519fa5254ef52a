"""Tables of events in Parquet files, in no order: which files they are, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from precedes.errors import UserError
from precedes.stores import Address, Place
from precedes.trace.arrow_arrays import strings, to_arrow
from precedes.trace.blocks.pack import BLOCK_ROWS, READ, checked_columns
from precedes.trace.dialect import RECEIVERS, folder_columns
from precedes.trace.importers.columns import disagree
from precedes.trace.reader import MAGIC

NAMED: Final = (*READ, RECEIVERS)  # columns that a folder may name


def table_files(places: Sequence[Place]) -> list[Address]:
    """The Parquet files named, and those in directories named; a UserError if one is another."""
    found: list[Address] = []
    for table in map(Address.of, places):
        try:
            files = shown_files(table) if table.is_folder() else [table]
            for file in files:
                with file.open() as opened:
                    if opened.read(len(MAGIC)) != MAGIC:
                        raise UserError(
                            f"{file} is no Parquet file, as tables of events are: leave out "
                            "`format` for other logs"
                        )
        except FileNotFoundError:
            raise UserError(f"there is no table {table}: check the path") from None
        except OSError as error:
            raise UserError(f"cannot read {table}: {error.strerror or error}") from None
        if not files:
            raise UserError(f"{table} holds no files: name a table of events")
        found += files
    return found


def shown_files(folder: Address) -> list[Address]:
    """The files that Spark reads in a folder: not those whose names begin with _ or a dot.

    A folder ``_name=value`` is a column.
    """
    return [
        folder / entry.name
        for entry in folder.entries(deep=True)
        if not any(
            part.startswith(".") or (part.startswith("_") and "=" not in part)
            for part in entry.name.split("/")
        )
    ]


@contextmanager
def opened_table(table: Address, **options: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file; what is wrong with it is a UserError."""
    try:
        with table.open() as opened, pq.ParquetFile(opened, pre_buffer=False, **options) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"there is no log {table}: check the path") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{table} is cut short or damaged: write it again ({reason})") from None


def table_batches(table: Address, groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """The columns that matter of some row groups (None: of all), names as dictionaries.

    Folders may name columns; one that the file has too must hold the same.
    """
    folders = {name: value for name, value in folder_columns(table).items() if name in NAMED}
    with opened_table(table) as file:
        schema = file.schema_arrow
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        known = [pa.field(name, pa.string()) for name in folders if name not in schema.names]
        columns = checked_columns(pa.schema([*schema, *known]), title=str(table))
        own = [name for name in columns if name in schema.names]
        chosen = list(range(file.num_row_groups) if groups is None else groups)
    with opened_table(table, read_dictionary=texts) as file:
        for batch in file.iter_batches(BLOCK_ROWS, chosen, own, use_threads=False):
            for name in [name for name in columns if name in folders]:
                batch = _with_folder(batch, name, folders[name], table)
            yield batch


def _with_folder(
    batch: pa.RecordBatch, name: str, value: str | None, table: Address
) -> pa.RecordBatch:
    if name not in batch.schema.names:
        codes = to_arrow(np.zeros(batch.num_rows, np.int32))
        return batch.append_column(name, pa.DictionaryArray.from_arrays(codes, strings([value])))
    for cell in pc.unique(batch.column(name)).to_pylist():
        if cell is None or str(cell) != value:
            raise UserError(f"{table}: {disagree(name, value, cell)}")
    return batch
