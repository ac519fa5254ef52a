"""Tables of events: CSV, Parquet, and tables in memory.

Their columns and kinds may have other names than ours. A trace of this package that is to be
sorted is read as a table too.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.errors import UserError, meant
from precedes.model import printable
from precedes.stores import Address, Place
from precedes.trace import schema
from precedes.trace.arrays import integers, nanoseconds, repeated, strings, to_arrow, to_numpy
from precedes.trace.dialect import (
    COLUMNS,
    RECEIVERS,
    Dialect,
    Notes,
    by_line,
    by_row,
    folder_columns,
    refuse_receivers,
    refuse_twins,
)
from precedes.trace.formats.text import BATCH_ROWS, EventRows
from precedes.trace.reader import MAGIC, damaged
from precedes.trace.rows import JUDGED, History
from precedes.trace.schema import DRAWN, EVENTS
from precedes.trace.sort.merge import histories
from precedes.trace.sort.pack import BLOCK_ROWS, READ, checked_columns
from precedes.trace.source import Source

WHOLE: Final = ("local_seq", "seq")


class BadRow(Exception):
    """A row that is not a valid event: its index in the batch, and the reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row
        self.why = why


def chosen_columns(present: Sequence[str], dialect: Dialect, *, title: str) -> dict[str, str]:
    """The columns of a table by our names: our name -> its name.

    Columns that only its folders name are not included, and not missing either.
    """
    known = {*present, *dialect.folders}
    refuse_receivers(known - set(dialect.columns.values()), title=title)
    for ours, theirs in dialect.columns.items():
        if theirs not in known:
            raise UserError(
                f"{title} has no column {theirs!r}{meant(theirs, present)}, which `columns` names "
                f"for {ours}; it has {_listed(present)}"
            )
    names = {ours: dialect.columns.get(ours, ours) for ours in COLUMNS}
    columns = {ours: theirs for ours, theirs in names.items() if theirs in known}
    wanted = ["node", "kind", *([] if "message" in columns else ["source", "seq"])]
    missing = [name for name in wanted if name not in columns]
    if missing:
        lacks = "message" if missing == ["source", "seq"] else missing[0]
        raise UserError(
            f"{title} has no column {lacks}; it has {_listed(present)}: map them with "
            f"`columns` {lacks}=..."
        )
    if "message" in columns:
        columns.pop("source", None)
        columns.pop("seq", None)
    if not dialect.drawn:
        columns.pop("text", None)
    refuse_twins(present, columns.values(), title=title)
    return {ours: theirs for ours, theirs in columns.items() if theirs in present}


def _listed(present: Sequence[str]) -> str:
    shown = [printable(name) for name in present[:12]]
    return ", ".join(shown) + (", ..." if len(present) > 12 else "")


def events_of(columns: Mapping[str, pa.Array], dialect: Dialect, *, first: int) -> pa.RecordBatch:
    """Rows of a table as events; those of other kinds are left out.

    ``columns`` has our names; folders may add some. Without ``local_seq`` a row's is its place in
    the table, the first of these rows being ``first``. Errors are raised as ``BadRow``.
    """
    columns = {name: _typed(column, name) for name, column in columns.items()}
    columns |= _in_folders(columns, dialect)
    kind, kept = _kinds(columns["kind"], dialect)
    place = np.arange(first, first + kept.size)[kept]
    if not kept.all():
        rows = to_arrow(np.flatnonzero(kept))
        columns = {name: column.take(rows) for name, column in columns.items()}
        kind = kind.take(rows)
    row = np.flatnonzero(kept)
    message = columns["message"] if "message" in columns else _pairs(kind, columns)
    bare = pc.is_in(kind, strings(["crash", "leave"]))
    owed = pc.is_in(kind, strings(["broadcast", "deliver"]))
    for name in ("run_id", "node", "local_seq"):
        if name in columns and columns[name].null_count:
            raise BadRow(int(row[_first(pc.is_null(columns[name]))]), f"{name} is empty")
    empty = pc.and_(owed, pc.is_null(message))
    if pc.any(empty).as_py():
        raise BadRow(int(row[_first(empty)]), "message is empty")
    size = len(kind)
    message = pc.if_else(bare, pa.nulls(size, pa.string()), message)
    return pa.RecordBatch.from_arrays(
        [
            columns.get("run_id", repeated(dialect.one_run, size)),
            columns["node"],
            columns.get("local_seq", to_arrow(place)),
            columns.get("time_us", pa.nulls(size, pa.int64())),
            kind,
            message,
            *([columns.get("text", pa.nulls(size, pa.string()))] if dialect.drawn else []),
        ],
        schema=DRAWN if dialect.drawn else EVENTS,
    )


def _in_folders(columns: Mapping[str, pa.Array], dialect: Dialect) -> dict[str, pa.Array]:
    """Columns from folder names; one that the table has too must hold the same."""
    constants = {}
    for ours in COLUMNS:
        theirs = dialect.columns.get(ours, ours)
        if theirs in dialect.folders:
            value = dialect.folders[theirs]
            size = len(next(iter(columns.values())))
            constants[ours] = _typed(repeated(value, size), ours)
            if ours in columns and not constants[ours].equals(columns[ours]):
                row = int(np.argmax([cell != value for cell in columns[ours].to_pylist()]))
                raise BadRow(row, disagree(theirs, value, columns[ours][row].as_py()))
    return constants


def disagree(name: str, value: str | None, cell: object) -> str:
    """The error if a column and a folder of one name differ."""
    return f"{name} is {cell!r}, and the folder says {name}={value}: rename one"


def _typed(column: pa.Array, name: str) -> pa.Array:
    """A column as strings, or as integers if it is one of those."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind):
        return column.cast(pa.int64() if name in (*WHOLE, "time_us") else pa.string())
    if name == "local_seq" and pa.types.is_timestamp(kind):
        return nanoseconds(column)
    is_text = any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )
    if not is_text and not pa.types.is_integer(kind):
        if name in ("time_us", "text"):  # for display only
            return pa.nulls(len(column), pa.int64() if name == "time_us" else pa.string())
        raise UserError(f"the column {name} holds {kind} instead of strings or whole numbers")
    if name == "time_us":
        return _whole(column, name) if not is_text else _times(column)
    return _whole(column, name) if name in WHOLE else column.cast(pa.string())


def _whole(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        for row, value in enumerate(column.to_pylist()):
            try:
                if value is None or -(2**63) <= int(str(value)) < 2**63:
                    continue
            except ValueError:
                pass
            raise BadRow(row, f"{name} is {value!r}, not a whole number") from None
        raise


def _times(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return pa.nulls(len(column), pa.int64())


def _kinds(column: pa.Array, dialect: Dialect) -> tuple[pa.Array, np.ndarray]:
    """Our names of kinds, and which rows are judged."""
    if column.null_count:
        raise BadRow(_first(pc.is_null(column)), "kind is empty")
    coded = column.dictionary_encode()
    codes = to_numpy(coded.indices)
    ours: list[str | None] = []
    for number, text in enumerate(coded.dictionary.to_pylist()):
        try:
            ours.append(dialect.kind_of(text))
        except ValueError as error:
            raise BadRow(int(np.argmax(codes == number)), str(error)) from None
    judged = np.array([name is not None for name in ours] or [False])[codes]
    return strings(ours).take(coded.indices), judged


def _pairs(kind: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """source:seq as the name of a message; none for a join without one."""
    pair = pc.binary_join_element_wise(columns["source"], columns["seq"].cast(pa.string()), ":")
    seq = columns["seq"]
    first = pc.is_in(seq, integers([0]))
    nothing = pc.and_(pc.is_in(kind, strings(["join"])), first)
    return pc.if_else(nothing, pa.nulls(len(kind), pa.string()), pair)


def _first(mask: pa.Array) -> int:
    return int(np.argmax(mask.to_numpy(zero_copy_only=False)))


SEPARATORS: Final = (",", ";", "\t", "|")
TYPED: Final = {"tab": "\t", "\\t": "\t"}  # spellings that users write for it
CELL_CHARS_MAX: Final = 1 << 20


def csv_batches(
    text: io.BufferedReader, *, title: str, dialect: Dialect, notes: Notes
) -> Iterator[pa.RecordBatch]:
    """The rows of a table; without ``local_seq`` a row's is its line.

    A cell of more than ``CELL_CHARS_MAX`` characters is a UserError.
    """
    csv.field_size_limit(CELL_CHARS_MAX)
    # Left open: the caller owns it.
    lines = io.TextIOWrapper(text, encoding="utf-8-sig", newline="")
    try:
        yield from _Table(lines, title, dialect, notes).batches()
    finally:
        with contextlib.suppress(ValueError):  # closed before this stream was read to its end
            lines.detach()


def separator_of(header: str, dialect: Dialect) -> str | None:
    """The separator: the configured one, or the most frequent in the header."""
    if dialect.delimiter is not None:
        separator = TYPED.get(dialect.delimiter, dialect.delimiter)
        if len(separator) != 1:
            raise UserError(f"`delimiter` is one character in a table, not {dialect.delimiter!r}")
        return separator
    counts = sorted(((header.count(mark), mark) for mark in SEPARATORS), reverse=True)
    (most, mark), (second, _) = counts[:2]
    return mark if most > second else None


def whole_rows(lines: bytes, mark: str) -> int:
    """The number of bytes that are whole rows: a quoted cell may continue in later lines.

    A malformed row counts as whole, since no more lines can make it right.
    """
    if b'"' not in lines:
        return len(lines)
    csv.field_size_limit(CELL_CHARS_MAX)
    text = io.TextIOWrapper(io.BytesIO(lines), "utf-8", errors="surrogateescape", newline="")
    read = whole = 0
    is_read = False

    def counted() -> Iterator[str]:
        nonlocal read, is_read
        for line in text:
            read += len(line.encode("utf-8", "surrogateescape"))
            yield line
        is_read = True

    try:
        for _ in csv.reader(counted(), delimiter=mark, strict=True):
            whole = read
    except csv.Error:
        return whole if is_read else len(lines)
    return whole


class _Table:
    def __init__(self, lines: io.TextIOWrapper, title: str, dialect: Dialect, notes: Notes) -> None:
        self._title = title
        self._dialect = dialect
        try:
            first = lines.readline()
        except UnicodeDecodeError:
            raise self._error(1, "not UTF-8 text") from None
        mark = separator_of(first, dialect)
        if mark is None:
            raise UserError(
                f"{title}: cannot detect the separator of the header "
                f"{first.strip()[:80]!r}: give it with `delimiter`"
            )
        self._header = next(csv.reader([first], delimiter=mark), [])
        columns = chosen_columns(self._header, dialect, title=title)
        self._at = {ours: self._header.index(theirs) for ours, theirs in columns.items()}
        self._rows = csv.reader(lines, delimiter=mark, strict=True)
        self._before = notes.rows
        self._notes = notes
        notes.note_order("local_seq" in columns, title)
        if not notes.has_order:
            notes.place = by_line if notes.rows == 0 else _by_row

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in batches."""
        while True:
            numbers, rows, problem = self._take()
            if rows:
                yield self._batch(numbers, rows)
            if problem is not None:
                raise problem
            if len(rows) < BATCH_ROWS:
                self._notes.rows = self._before + self._rows.line_num + 1
                return

    def _take(self) -> tuple[list[int], list[list[str]], UserError | None]:
        """Some rows and their lines, and the error in the next one."""
        numbers: list[int] = []
        rows: list[list[str]] = []
        while len(rows) < BATCH_ROWS:
            number = self._rows.line_num + 2  # the header is line 1
            try:
                row = next(self._rows, None)
            except (csv.Error, UnicodeDecodeError) as error:
                reason = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
                return numbers, rows, self._error(number, reason)
            if row is None:
                break
            if not row:
                continue
            if len(row) != len(self._header):
                reason = f"{len(row)} cells, where the header has {len(self._header)}"
                return numbers, rows, self._error(number, reason)
            numbers.append(number)
            rows.append(row)
        return numbers, rows, None

    def _batch(self, numbers: list[int], rows: list[list[str]]) -> pa.RecordBatch:
        columns = {
            ours: strings([row[at] or None for row in rows]) for ours, at in self._at.items()
        }
        if "local_seq" not in columns:
            place = [self._before + number for number in numbers]
            columns["local_seq"] = integers(place)
        try:
            return events_of(columns, self._dialect, first=0)
        except BadRow as bad:
            raise self._error(numbers[bad.row], bad.why) from None

    def _error(self, number: int, reason: str) -> UserError:
        return UserError(f"{self._title}, line {number}: {reason}")


def _by_row(node: str, local_seq: int) -> str:
    return f"row {local_seq} of all files"


NAMES: Final = ("run_id", "node", "local_seq", "time_us", "kind", "source", "seq")


def parquet_batches(source: Source, *, dialect: Dialect, notes: Notes) -> Iterator[pa.RecordBatch]:
    """The rows of a table; without ``local_seq`` a row's is its number, from 0."""
    title = source.title
    if not source.opening.startswith(MAGIC):
        raise UserError(f"{title} is not a Parquet file: name its format with `format`")
    with source.seekable() as file:
        try:
            table = pq.ParquetFile(file, pre_buffer=False)
            names = chosen_columns(table.schema_arrow.names, dialect, title=title)
            notes.note_order("local_seq" in names, title)
            if not notes.has_order:
                notes.place = by_row
            chosen = list(dict.fromkeys(names.values()))
            for batch in table.iter_batches(BATCH_ROWS, columns=chosen, use_threads=False):
                columns = {ours: batch.column(theirs) for ours, theirs in names.items()}
                yield _events(columns, dialect, notes, title)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"{title} is cut short or damaged: {reason}") from None


def _events(
    columns: dict[str, pa.Array], dialect: Dialect, notes: Notes, title: str
) -> pa.RecordBatch:
    first = notes.rows
    notes.rows += len(next(iter(columns.values())))
    try:
        return events_of(columns, dialect, first=first)
    except BadRow as bad:
        raise UserError(f"{title}, row {first + bad.row}: {bad.why}") from None
    except UserError as error:
        raise UserError(f"{title}: {error}") from None


def trace_batches(source: Source, *, notes: Notes) -> Iterator[pa.RecordBatch]:
    """The judged rows of a trace; a node without any has an empty join.

    So the group has as many nodes as the trace has.
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
    """Joins for the nodes of a trace without a judged row."""
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
    """For each run, the nodes that have been seen; a trace without rows is one run."""
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


NAMED: Final = (*READ, RECEIVERS)  # columns that a folder may name


def table_files(places: Sequence[Place]) -> list[Address]:
    """The Parquet files named, and those in directories named; a UserError for any other file."""
    addresses: list[Address] = []
    for table in map(Address.of, places):
        try:
            files = shown_files(table) if table.is_folder() else [table]
            for file in files:
                with file.open() as opened:
                    if opened.read(len(MAGIC)) != MAGIC:
                        raise UserError(
                            f"{file} is not a Parquet file, as tables of events are: leave out "
                            "`format` for other logs"
                        )
        except FileNotFoundError:
            raise UserError(f"there is no table {table}: check the path") from None
        except OSError as error:
            raise UserError(f"cannot read {table}: {error.strerror or error}") from None
        if not files:
            raise UserError(f"{table} holds no files: name a table of events")
        addresses += files
    return addresses


def shown_files(folder: Address) -> list[Address]:
    """The files that Spark reads in a folder: names that begin with _ or a dot are excluded.

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
    """Open a Parquet file; a UserError if it is damaged."""
    try:
        with table.open() as opened, pq.ParquetFile(opened, pre_buffer=False, **options) as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"there is no log {table}: check the path") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{table} is cut short or damaged: write it again ({reason})") from None


def table_batches(table: Address, groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
    """The needed columns of some row groups (None: of all), names as dictionaries.

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


TITLE: Final = "the table"
COLLECTED_ROWS: Final = 20_000_000  # of a DataFrame of Spark


def from_frame(frame: Any, *, dialect: Dialect | None = None) -> list[History]:
    """``from_arrow`` for a DataFrame of any library; those that are not Arrow's are converted."""
    if type(frame).__module__.partition(".")[0] == "pandas":
        return from_pandas(frame, dialect=dialect)
    if hasattr(frame, "toArrow"):
        frame = frame.limit(COLLECTED_ROWS + 1).toArrow()
        if frame.num_rows > COLLECTED_ROWS:
            raise UserError(
                f"the DataFrame has more than {COLLECTED_ROWS:,} rows: audit it on Spark, with "
                "precedes.spark.causal_audit"
            )
    if isinstance(frame, pa.Table) or hasattr(frame, "__arrow_c_stream__"):
        return from_arrow(frame, dialect=dialect)
    raise UserError(
        f"{frame!r:.60} is not a log: use a path, a Result, a History or a DataFrame of events"
    )


def from_arrow(table: Any, *, dialect: Dialect | None = None) -> list[History]:
    """The histories in a table, one for each run, as ``load`` gives those in a log.

    The columns are ``node``, ``kind``, ``message`` (or ``source`` and ``seq``) and, if there are
    several runs, ``run_id``; others are ignored. ``local_seq`` orders the events of a node; without
    it their order is that of the rows. ``table`` is a pyarrow Table, or any object that exports its
    columns as an Arrow stream. Unless ``dialect`` says that the log is complete, nothing counts as
    lost.
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
    notes = Notes(has_order="local_seq" in columns)
    if not notes.has_order:
        notes.place = by_row
    if "run_id" in columns and not table.num_rows:
        return []
    batches = _batches(table, dialect)
    runs = histories(batches, notes, title=TITLE, complete=dialect.complete)
    if "run_id" not in columns:
        return runs
    return [replace(run, origin=f"run {printable(str(run.run_id))}") for run in runs]


def _batches(table: pa.Table, dialect: Dialect) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in table.to_batches(BLOCK_ROWS):
        columns = {name: batch.column(name) for name in table.column_names}
        try:
            yield events_of(columns, dialect, first=first)
        except BadRow as bad:
            raise UserError(f"{TITLE}, row {first + bad.row}: {bad.why}") from None
        first += batch.num_rows
