"""Opens a log of any format as runs to read piece by piece; here it is decided where from.

A trace in order stays on disk and is read by row groups, and so do the logs of a live group's
members; any other log is read into memory first, or, if it is large, sorted on disk.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.errors import UserError
from precedes.files import own_directory
from precedes.stores import Address, Place
from precedes.trace.blocks.log import SortedRows, sort_events
from precedes.trace.blocks.tables import table_batches
from precedes.trace.detect import event_batches, is_members, load
from precedes.trace.dialect import Dialect, Found
from precedes.trace.members import MemberRows
from precedes.trace.reader import MAGIC, opened_parquet, read_metadata, trace_rows
from precedes.trace.rows import NoOrder, Rows
from precedes.trace.schema import METADATA_KEY
from precedes.trace.source import STANDARD_INPUT, Log, open_log, title_of

# Logs with more rows are not held in memory, where a row takes some 20 to 50 bytes.
LARGE_ROWS: Final = 20_000_000

PACKED: Final = (".gz", ".zst")
ROW_BYTES: Final = 60.0  # of a line of text, about
PACKING: Final = 8.0  # how much gzip and zstd save, about


def open_rows(
    log: Log,
    format: str = "auto",
    *,
    dialect: Dialect | None = None,
    large_rows: int = LARGE_ROWS,
) -> list[Rows]:
    """The runs of a log, as ``load`` finds them; ``dialect.complete`` holds for traces too."""
    found: list[Rows] = []
    if is_members(log, format):
        found = [MemberRows(log)]
    elif isinstance(log, str | os.PathLike) and format in ("auto", "precedes") and is_trace(log):
        with contextlib.suppress(NoOrder):
            found = [*trace_rows(str(Address.of(log)))]
    found = found or _gathered(log, format, dialect, large_rows)
    if dialect is not None and dialect.complete:
        found = [rows.with_end(complete=True) for rows in found]
    return found


def gathered(rows: Rows) -> Rows:
    """The run of a file after ``NoOrder``: brought together, in order, with numbers."""
    assert rows.address is not None, "what has no address was in order"
    runs = _gathered(rows.address, "auto", None, LARGE_ROWS)
    (found,) = (run for run in runs if run.run_id == rows.run_id)
    return found.with_end(complete=rows.complete)


def _gathered(log: Log, format: str, dialect: Dialect | None, large_rows: int) -> list[Rows]:
    """The runs of a log in any order: in memory, or sorted on disk if it is large."""
    if isinstance(log, str | os.PathLike) and row_count(Address.of(log), format) >= large_rows:
        runs = sort_log(log, format, dialect=dialect)
        if format in ("auto", "precedes") and is_trace(log):
            complete = read_metadata(log)["complete"]
            return [run.with_end(complete=complete) for run in runs]
        return [*runs]
    return [*load(log, format, dialect=dialect)]


def is_trace(log: str | os.PathLike[str]) -> bool:
    """Whether a log is a trace; what can be read only once is not looked at."""
    if str(log) == str(STANDARD_INPUT) or not Address.of(log).is_file():
        return False
    with open_log(log) as source:
        if not source.opening.startswith(MAGIC):
            return False
        with opened_parquet(source) as file:
            return METADATA_KEY in (file.schema_arrow.metadata or {})


def is_parquet(log: Address, format: str = "auto") -> bool:
    """Whether a log is one Parquet file."""
    if format not in ("auto", "precedes", "parquet") or not log.is_file():
        return False
    with log.open() as file:
        return file.read(len(MAGIC)) == MAGIC


def row_count(log: Address, format: str = "auto") -> int:
    """How many rows a log has: those of Parquet are counted, those of others guessed; 0: a pipe."""
    if is_parquet(log, format):
        try:
            with log.open() as file:
                return int(pq.read_metadata(file).num_rows)
        except (pa.ArrowException, OSError):
            return 0  # whoever reads it says what is wrong with it
    if log.is_folder():
        return int(sum(entry.size_bytes for entry in log.entries(deep=True)) / ROW_BYTES)
    if log == STANDARD_INPUT or not log.is_file():
        return 0
    packing = PACKING if log.name.endswith(PACKED) else 1.0
    return int(log.size_bytes() * packing / ROW_BYTES)


def sort_log(
    log: Place, format: str = "auto", *, dialect: Dialect | None = None
) -> list[SortedRows]:
    """The runs of a log of any format, sorted on disk in a folder that is gone with them.

    It takes up to 30 bytes a row, in TMPDIR if that is set, else in /var/tmp.
    """
    dialect = Dialect() if dialect is None else dialect
    found = Found()
    batches = event_batches(log, format, dialect=dialect, found=found)
    title = title_of(log)
    return _sorted(batches, title, complete=dialect.complete, origin=title, found=found)


def sort_tables(tables: Sequence[Address]) -> list[SortedRows]:
    """The runs in Parquet files whose rows are in no order, as ``sort_log`` sorts them."""
    batches = (batch for table in tables for batch in table_batches(table))
    return _sorted(batches, "the table")


def _sorted(batches: Iterator[pa.RecordBatch], title: str, **options: Any) -> list[SortedRows]:
    folder = _Folder()
    try:
        runs = sort_events(batches, folder.path, **options)
    except OSError as error:
        raise UserError(
            f"cannot sort {title} in {folder.path}: {error.strerror or error}; name a directory "
            "with room for it in TMPDIR"
        ) from None
    for run in runs:
        run.folder = folder
    return runs


class _Folder:
    """A folder for as long as somebody has this, or the process lasts.

    Those that killed processes have left are removed.
    """

    def __init__(self) -> None:
        usable = os.access("/var/tmp", os.W_OK) and "TMPDIR" not in os.environ
        base = Path("/var/tmp" if usable else tempfile.gettempdir())
        self.path = own_directory(base, "precedes-sorted-")
        weakref.finalize(self, _remove, self.path, os.getpid())

    def __reduce__(self) -> tuple[type[Path], tuple[Path]]:
        return Path, (self.path,)


def _remove(path: Path, owner: int) -> None:
    # A forked child that ends must not take away what its parent still reads.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
