"""Logs of every format as the data source ``precedes`` of Spark, in batches and as a stream.

    spark.read.format("precedes").option("columns", "node=host").load(["logs/a", "logs/b"])
    spark.readStream.format("precedes").load("logs")

Rows have the columns of ``EVENTS`` and, as strings, those that only folders ``name=value`` have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from precedes.errors import UserError, meant
from precedes.pipeline import reading
from precedes.stores import Address
from precedes.trace import Dialect, Notes
from precedes.trace.arrays import repeated, strings
from precedes.trace.dialect import COLUMNS, RECEIVERS, folder_columns
from precedes.trace.formats.tables import shown_files
from precedes.trace.member_log import is_member_log
from precedes.trace.opening import format_of
from precedes.trace.schema import EVENTS
from precedes.trace.tail import SUFFIXES, LinesFile, MemberFile

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

OPTIONS: Final = (
    "logFormat", "columns", "kinds", "parser", "delimiter", "nodeBy", "maxBytesPerTrigger",
)  # fmt: skip
BYTES_PER_TRIGGER: Final = 256 << 20
FILES_MAX: Final = 1_000  # that grow: an offset has an entry for each
# Formats in which a folder's name is the value of every row, which must agree with it.
FOLDERED: Final = ("csv", "jsonl", "parquet")


class _Asked(NamedTuple):
    """The options of a query."""

    places: list[Address]
    format: str
    dialect: Dialect


class EventsSource(DataSource):  # type: ignore[misc]
    """Logs of any format, as ``spark.read`` and ``spark.readStream`` load them."""

    @classmethod
    def name(cls) -> str:
        """The format's name for ``spark.read.format``."""
        return "precedes"

    def schema(self) -> StructType:
        """The columns of ``EVENTS``, and those that only folders have."""
        asked = self._asked()
        known = {*COLUMNS, RECEIVERS, *asked.dialect.columns.values()}
        files = [file for place in asked.places if place.is_folder() for file in shown_files(place)]
        names = dict.fromkeys(name for file in files for name in folder_columns(file))
        fields = [pa.field(name, pa.string()) for name in names if name not in known]
        return from_arrow_schema(pa.schema([*EVENTS, *fields]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read all that is there."""
        return _EventsReader(self._asked(), _folders_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Read on as files grow."""
        bound = self.options.get("maxBytesPerTrigger", str(BYTES_PER_TRIGGER))
        if not bound.isdecimal() or not int(bound):
            raise UserError(f"the option maxBytesPerTrigger is a number of bytes, not {bound!r}")
        return _GrowingReader(self._asked(), _folders_of(schema), int(bound))

    def _asked(self) -> _Asked:
        options = dict(self.options)
        texts = json.loads(options.pop("paths", "[]"))
        if "path" in options:
            texts.append(options.pop("path"))
        if not texts:
            raise UserError("no log is named: call load(PATH), or load([PATH, ...])")
        if "complete" in options:
            raise UserError(
                "the option complete has no effect here: rows do not mark the end of a log, so "
                "pass complete=True to causal_audit"
            )
        for name in options:
            if name.lower() not in map(str.lower, OPTIONS):
                hint = meant(name, OPTIONS)
                raise UserError(f"unknown option {name!r}{hint}: choose from {', '.join(OPTIONS)}")
        dialect = Dialect.from_texts(
            columns=self._listed("columns"),
            kinds=self._listed("kinds"),
            parser=options.get("parser"),
            delimiter=options.get("delimiter"),
            node_by=tuple(name for text in self._listed("nodeBy") for name in text.split(",")),
        )
        return _Asked([*map(Address.of, texts)], self.options.get("logFormat", "auto"), dialect)

    def _listed(self, name: str) -> list[str]:
        return [self.options[name]] if name in self.options else []


def _folders_of(schema: StructType) -> list[str]:
    """The columns of a query that only folders have; a schema that is not ours is refused."""
    names = schema.fieldNames()
    if schema.fields[: len(EVENTS)] != from_arrow_schema(EVENTS).fields:
        raise UserError(
            f"a log has the columns {', '.join(EVENTS.names)}: leave out schema(), map the names "
            "in the log with the option columns, and choose columns with select()"
        )
    return list(names[len(EVENTS) :])


class _Columns:
    """The columns that folders give the rows of their files, and which rows are wanted."""

    def __init__(self, folders: Sequence[str], dialect: Dialect) -> None:
        self.folders = folders
        self.dialect = dialect
        self.wanted: dict[str, set[str]] = {}

    def take(self, filter: Filter) -> bool:
        """Note a filter; False if Spark has to apply it."""
        if not isinstance(filter, EqualTo | In) or len(filter.attribute) != 1:
            return False
        (name,) = filter.attribute
        values = set(filter.value) if isinstance(filter, In) else {filter.value}
        if name not in ("run_id", "node", *self.folders):
            return False
        if not all(isinstance(value, str) for value in values):
            return False
        self.wanted[name] = values & self.wanted.get(name, values)
        return True

    def may_hold(self, log: Address, format: str) -> bool:
        """Check by its folders if a log may have rows that are wanted."""
        folders = folder_columns(log)
        for name, values in self.wanted.items():
            if name in self.folders:
                if folders.get(name) not in values:
                    return False
                continue
            theirs = self.dialect.columns.get(name, name)
            if theirs in folders and folders[theirs] not in values:
                log_format = format_of(log, dialect=self.dialect) if format == "auto" else format
                if log_format in FOLDERED:
                    return False
        return True

    def added(self, batch: pa.RecordBatch, log: Address) -> pa.RecordBatch:
        """The rows that are wanted, with the columns of their folders."""
        for name in EVENTS.names:
            if name in self.wanted:
                values = strings(sorted(self.wanted[name]))
                batch = batch.filter(pc.is_in(batch.column(name), values))
        folders = folder_columns(log) if self.folders else {}
        for name in self.folders:
            field = pa.field(name, pa.string())
            batch = batch.append_column(field, repeated(folders.get(name), batch.num_rows))
        return batch


class _EventsReader(DataSourceReader):  # type: ignore[misc]
    """Read logs, a partition a task."""

    def __init__(self, asked: _Asked, folders: Sequence[str]) -> None:
        self._asked = asked
        self._columns = _Columns(folders, asked.dialect)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over what asks for runs, nodes and folders by their names."""
        return [filter for filter in filters if not self._columns.take(filter)]

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, each with its orders."""
        places, format, dialect = self._asked
        candidates = [log for place in places for log in reading.logs_at(place)]
        logs = [log for log in candidates if self._columns.may_hold(log, format)]
        wanted = {n: v for n, v in self._columns.wanted.items() if n not in self._columns.folders}
        tasks = reading.tasks_of(logs, format, dialect, at_least=1, wanted=wanted)
        return [InputPartition(task) for task in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of a task."""
        for text in partition.value:
            order = json.loads(text)
            log = Address.of(order["path"])
            for batch in reading.read_order(order, self._asked.format, self._asked.dialect):
                yield self._columns.added(batch, log)


class _GrowingReader(DataSourceStreamReader):  # type: ignore[misc]
    """Read on in files of lines, and in the logs of a live group's members, as they grow.

    An offset has the place in each file. Files may be added, at most ``FILES_MAX`` in all; one that
    shrinks or is replaced ends the query. A line without its end is left for later.
    """

    def __init__(self, asked: _Asked, folders: Sequence[str], bytes_max: int) -> None:
        self._asked = asked
        self._columns = _Columns(folders, asked.dialect)
        self._bytes_max = bytes_max
        self._latest: dict[str, Any] = {}
        (self._place,) = asked.places  # Spark takes one for a stream

    def initialOffset(self) -> dict[str, Any]:
        """The beginning of every file."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The bytes of a batch."""
        from pyspark.sql.streaming.datasource import ReadMaxBytes  # Spark 4.2

        return ReadMaxBytes(self._bytes_max)

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """The place in each file up to which the next batch reads; Spark 4.1 gives no start."""
        left = getattr(limit, "max_bytes", None)
        offset = dict(self._latest if start is None else start)
        for path in self._files():
            file = self._file(path, offset.get(path))
            before = file.offset
            while (left is None or left > 0) and (block := file.read()):
                file.advance(block)
                left = None if left is None else left - len(block)
            if file.offset > before:
                offset[path] = file.pack()
        self._latest = offset
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A task for each file that has grown."""
        return [
            InputPartition((path, start.get(path), place["offset"]))
            for path, place in end.items()
            if place != start.get(path)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events between two places of a file."""
        path, place, end = partition.value
        file = self._file(path, place)
        while file.offset < end:
            block = file.read()[: end - file.offset]
            if not block:
                raise UserError(f"{path} has become shorter: a log that is followed only grows")
            for batch in file.events(block).to_batches():
                yield self._columns.added(batch, Address.of(path))
            file.advance(block)

    def _file(self, path: str, place: dict[str, Any] | None) -> LinesFile | MemberFile:
        local = Address.of(path).local
        file: LinesFile | MemberFile = MemberFile(local)
        if not is_member_log(path):
            format = self._asked.format
            if format not in SUFFIXES:
                format = "csv" if path.endswith(SUFFIXES["csv"]) else "jsonl"
            file = LinesFile(local, format, self._asked.dialect, Notes())
        if place is not None:
            file.unpack(place)
        return file

    def _files(self) -> list[str]:
        dialect = self._asked.dialect
        if dialect.parser or dialect.node_by:
            raise UserError("the options parser and nodeBy are for logs that do not grow")
        if self._asked.format not in ("auto", "members", *SUFFIXES):
            raise UserError(
                f"files of format {self._asked.format!r} do not grow: choose from members, "
                f"{', '.join(SUFFIXES)}, or read finished files with a stream of Spark's own"
            )
        if not self._place.is_local:
            raise UserError(f"{self._place} cannot be followed: only files of this machine grow")
        if self._place.kind() is None:
            raise UserError(f"there is no log {self._place}: check the path")
        files = shown_files(self._place) if self._place.is_folder() else [self._place]
        if len(files) > FILES_MAX:
            raise UserError(
                f"{self._place} holds more than {FILES_MAX:,} files: read finished files with a "
                "stream of Spark's own, or move them elsewhere"
            )
        return [str(file.absolute()) for file in files]
