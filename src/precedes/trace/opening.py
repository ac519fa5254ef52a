"""Opens a log of any format: detects the format, and selects the reader.

A trace in order stays on disk and is read by row groups, and so do the logs of a live group's
members; any other log is read into memory first, or, if it is large, sorted on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.errors import UserError, meant
from precedes.files import own_directory
from precedes.stores import Address, Place
from precedes.trace.dialect import Dialect, Notes
from precedes.trace.formats import graph, jsonl, otel, shiviz, tables
from precedes.trace.formats.tables import shown_files, table_batches
from precedes.trace.members import MemberRows, holds_member_logs, member_batches, read_members
from precedes.trace.reader import (
    MAGIC,
    TraceRows,
    opened_parquet,
    read_metadata,
    read_opened,
    trace_rows,
)
from precedes.trace.rows import History, NoOrder, Rows
from precedes.trace.schema import METADATA_KEY
from precedes.trace.sort.merge import SortedRows, histories, sort_events
from precedes.trace.source import (
    STANDARD_INPUT,
    ArrowTable,
    Log,
    Recorded,
    Source,
    SparkTable,
    open_log,
    opening_of,
    title_of,
    unpacked,
)

# Logs with more rows are not held in memory, where a row takes some 20 to 50 bytes.
LARGE_ROWS: Final = 20_000_000

PACKED: Final = (".gz", ".zst")
# Whatever events can be read from: a log, or objects that have a log's events.
Readable = Log | Rows | Recorded | ArrowTable | SparkTable

ROW_BYTES: Final = 60.0  # of a line of text, about
PACKING: Final = 8.0  # compression ratio of gzip and zstd, about


class UnknownFormat(UserError):
    """A log whose format cannot be detected."""


def open_rows(
    log: Readable,
    format: str = "auto",
    *,
    dialect: Dialect | None = None,
    large_rows: int = LARGE_ROWS,
) -> list[Rows]:
    """The runs of a log, as ``load`` finds them; ``dialect.complete`` holds for traces too."""
    runs: list[Rows] = []
    if not is_stored(log):
        runs = _rows_of(log, dialect)
    elif _is_members(log, format):
        runs = [MemberRows(log)]
    elif isinstance(log, str | os.PathLike) and format in ("auto", "precedes") and is_trace(log):
        with contextlib.suppress(NoOrder):
            runs = [*trace_rows(str(Address.of(log)))]
    if is_stored(log):
        runs = runs or _gathered(log, format, dialect, large_rows)
    if dialect is not None and dialect.complete:
        runs = [rows.with_end(complete=True) for rows in runs]
    return runs


def is_stored(log: Readable) -> TypeGuard[Log]:
    """Return whether a log is bytes, in a place or an open file, not an object in memory."""
    return isinstance(log, str | os.PathLike) or hasattr(log, "read")


def _rows_of(log: Any, dialect: Dialect | None) -> list[Rows]:
    """The runs of an object in memory; the trace of a run that has none is written and read."""
    if isinstance(log, Rows):
        return [log]
    if not isinstance(log, Recorded):
        return [*tables.from_frame(log, dialect=dialect)]
    if log.trace is not None:
        return open_rows(log.trace)
    folder = _Folder()
    path = folder.path / "run.parquet"
    log.write_trace(path)
    runs = trace_rows(str(path))
    for run in runs:
        run.folder, run.origin = folder, log.title
    return [*runs]


def gathered(rows: Rows) -> Rows:
    """The run of a file after ``NoOrder``: brought together, in order, with numbers."""
    assert rows.address is not None, "what has no address was in order"
    runs = _gathered(rows.address, "auto", None, LARGE_ROWS)
    (ordered,) = (run for run in runs if run.run_id == rows.run_id)
    return ordered.with_end(complete=rows.complete)


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
    """Return whether a log is a trace; a log that can be read only once is not inspected."""
    if str(log) == str(STANDARD_INPUT) or not Address.of(log).is_file():
        return False
    with open_log(log) as source:
        if not source.opening.startswith(MAGIC):
            return False
        with opened_parquet(source) as file:
            return METADATA_KEY in (file.schema_arrow.metadata or {})


def is_parquet(log: Address, format: str = "auto") -> bool:
    """Return whether a log is one Parquet file."""
    if format not in ("auto", "precedes", "parquet") or not log.is_file():
        return False
    with log.open() as file:
        return file.read(len(MAGIC)) == MAGIC


def row_count(log: Address, format: str = "auto") -> int:
    """Rows of a log: Parquet's are counted, others estimated from the size; 0: a pipe."""
    if is_parquet(log, format):
        try:
            with log.open() as file:
                return int(pq.read_metadata(file).num_rows)
        except (pa.ArrowException, OSError):
            return 0  # its reader reports the error
    if log.is_folder():
        return int(sum(entry.size_bytes for entry in log.entries(deep=True)) / ROW_BYTES)
    if log == STANDARD_INPUT or not log.is_file():
        return 0
    packing = PACKING if log.name.endswith(PACKED) else 1.0
    return int(log.size_bytes() * packing / ROW_BYTES)


def sort_log(
    log: Place, format: str = "auto", *, dialect: Dialect | None = None
) -> list[SortedRows]:
    """The runs of a log of any format, sorted on disk in a folder that is removed with them.

    It takes up to 30 bytes a row, in TMPDIR if that is set, else in /var/tmp.
    """
    dialect = Dialect() if dialect is None else dialect
    notes = Notes()
    batches = event_batches(log, format, dialect=dialect, notes=notes)
    title = title_of(log)
    return _sorted(batches, title, complete=dialect.complete, origin=title, notes=notes)


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
    """A temporary folder that lives as long as this object, or the process.

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
    # A forked child that ends must not remove files that its parent still reads.
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


# Readers of text formats, as streams of batches of ``EVENTS``; their notes are
# in ``notes`` when all batches have been read.
TEXT: Final[dict[str, Callable[..., Iterator[pa.RecordBatch]]]] = {
    "jsonl": jsonl.batches,
    "shiviz": shiviz.batches,
    "csv": tables.csv_batches,
    "otel": otel.batches,
    "edits": graph.edit_batches,
    "automerge": graph.change_batches,
}
FORMATS: Final = ("auto", "precedes", "jsonl", "members", "parquet", *list(TEXT)[1:])
TABLES: Final = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst"),
}


def load(log: Readable, format: str = "auto", *, dialect: Dialect | None = None) -> list[History]:
    """The histories in a log; ``auto`` detects the format from its first bytes.

    A log is a path (pipes too), a URL, ``-`` for standard input, a file object opened in binary
    mode, a ``Result`` of ``simulate``, or a DataFrame (``from_arrow`` names its columns; Spark's is
    collected, at most 20 million rows). A directory of the logs of a live group's members is one
    log, ``members``, and so is one of tables, if their format is named; an empty file is a log
    without events.
    """
    if not is_stored(log):
        runs: list[Any] = _rows_of(log, dialect)
        return [run.history(times=True) if isinstance(run, TraceRows) else run for run in runs]
    dialect = _dialect_of(log, dialect)
    if _is_members(log, format):
        return [read_members(log)]
    notes = Notes()
    if _tables_in(log, format) is None:
        with open_log(log) as source:
            chosen = format if format != "auto" else _format_of(source, dialect)
            if chosen == "precedes":
                return read_opened(source, times=True)
            rows = _opened(source, chosen, dialect, notes)
            return histories(rows, notes, title=source.title, complete=dialect.complete)
    rows = event_batches(log, format, dialect=dialect, notes=notes)
    return histories(rows, notes, title=title_of(log), complete=dialect.complete)


def event_batches(
    log: Log, format: str = "auto", *, dialect: Dialect | None = None, notes: Notes | None = None
) -> Iterator[pa.RecordBatch]:
    """The events of a log as batches of ``EVENTS``, as a stream; ``notes`` is whole at its end.

    Only rows that an audit judges come; each node's are in the order of their ``local_seq``, which
    is that of the stream too unless the log is a table that has such a column.
    """
    dialect = _dialect_of(log, dialect)
    notes = Notes() if notes is None else notes
    if _is_members(log, format):
        yield from member_batches(log)
        return
    files = _tables_in(log, format)
    for file in [log] if files is None else files:
        with open_log(file) as source:
            chosen = format if format != "auto" else _format_of(source, dialect)
            yield from _opened(source, chosen, _dialect_of(file, dialect), notes)


def format_of(log: Place, *, dialect: Dialect | None = None) -> str | None:
    """The format that ``auto`` detects in a log; None if it cannot be read twice."""
    address = Address.of(log)
    if address.is_folder():
        return "members" if holds_member_logs(address) else None
    if address == STANDARD_INPUT or not address.is_file():
        return None
    with open_log(log) as source:
        return _format_of(source, Dialect() if dialect is None else dialect)


def _is_members(log: Log, format: str) -> TypeGuard[Place]:
    """Return whether a log is a directory of the logs of a live group's members."""
    if format not in FORMATS:
        hint = meant(format, FORMATS)
        raise UserError(f"unknown format {format!r}{hint}: choose one of {', '.join(FORMATS)}")
    if isinstance(log, str | os.PathLike):
        if format == "members":
            return True
        address = Address.of(log)
        return format == "auto" and address.is_folder() and holds_member_logs(address)
    if format == "members":
        raise UserError("the logs of members are a directory: give its path")
    return False


def _dialect_of(log: Log, dialect: Dialect | None) -> Dialect:
    dialect = Dialect() if dialect is None else dialect
    return dialect.at(Address.of(log)) if isinstance(log, str | os.PathLike) else dialect


def _tables_in(log: Log, format: str) -> list[Address] | None:
    """The tables of a directory, which are one log; None if it is not a directory of them."""
    endings = TABLES.get(format)
    if endings is None or not isinstance(log, str | os.PathLike):
        return None
    directory = Address.of(log)
    if not directory.is_folder():
        return None
    inside = [file for file in shown_files(directory) if file.name.endswith(endings)]
    if not inside:
        raise UserError(f"{directory} holds no tables ({', '.join(endings)})")
    return inside


def _opened(
    source: Source, format: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    if format == "precedes":
        return tables.trace_batches(source, notes=notes)
    if format == "parquet":
        return tables.parquet_batches(source, dialect=dialect, notes=notes)
    return TEXT[format](unpacked(source), title=source.title, dialect=dialect, notes=notes)


def _format_of(source: Source, dialect: Dialect) -> str:
    """The format of a log by its content, or by an option that only one format has."""
    if source.opening.startswith(MAGIC):
        return _parquet_of(source)
    if dialect.parser is not None:
        return "shiviz"
    if dialect.node_by:
        return "otel"
    packed = unpacked(source)
    source.stream = packed  # the reader continues after the unpacked bytes
    opening = opening_of(packed)
    source.opening = opening
    text = opening.decode(errors="replace").lstrip()
    if text[:1] in ("", "{") and (known := _json_of(text)):
        return known
    if source.title.endswith(TABLES["csv"]):
        return "csv"
    if shiviz.parser_for(_without_titles(text, dialect)) is not None:
        return "shiviz"
    header = text.partition("\n")[0].strip()
    cells = re.split(r'"?[,;\t|]"?', header.strip('"'))
    if {dialect.columns.get(name, name) for name in ("node", "kind")} <= set(cells):
        return "csv"
    raise UnknownFormat(
        f"{source.title} is not in a format that can be detected: name it with `format` "
        f"({', '.join(FORMATS[1:])})"
    )


def _parquet_of(source: Source) -> str:
    with source.seekable() as file:
        try:
            metadata = pq.read_schema(file).metadata or {}
        except (pa.ArrowException, OSError):
            metadata = {METADATA_KEY: b""}  # the reader of traces reports the error
        file.seek(len(source.opening))
    return "precedes" if METADATA_KEY in metadata else "parquet"


def _json_of(text: str) -> str | None:
    """The format of a log that begins with a brace; None for another JSON file."""
    first = text.partition("\n")[0]
    try:
        keys = set(json.loads(first))
    except (ValueError, RecursionError, TypeError):
        keys = set(re.findall(r'"(\w+)"\s*:', first[:4096])[:8])
    if "resourceSpans" in keys:
        return "otel"
    if {"actor", "seq", "deps"} <= keys:
        return "automerge"
    if re.match(r'\{\s*"kind"\s*:\s*"(concurrent|sequential)"', text) or "txns" in keys:
        return "edits"
    return None if first.strip() == "{" else "jsonl"


def _without_titles(text: str, dialect: Dialect) -> str:
    if dialect.delimiter is None or len(dialect.delimiter) == 1:
        return text
    return shiviz.compiled(dialect.delimiter, option="`delimiter`").sub("", text)
