"""Loads a log of any format this package reads."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.errors import UserError, meant
from precedes.stores import Address, Place
from precedes.trace.blocks.tables import shown_files
from precedes.trace.collect import histories
from precedes.trace.dialect import Dialect, Found
from precedes.trace.history import History
from precedes.trace.importers import csv_table, graph, jsonl, otel, parquet, shiviz
from precedes.trace.members import holds_member_logs, member_batches, read_members
from precedes.trace.reader import MAGIC, read_opened
from precedes.trace.schema import METADATA_KEY
from precedes.trace.source import (
    STANDARD_INPUT,
    Log,
    Source,
    open_log,
    opening_of,
    title_of,
    unpacked,
)

# Each reads a format that is text into batches of ``EVENTS``, as a stream; what is said of them
# beside is in ``found`` when all have come.
TEXT: Final[dict[str, Callable[..., Iterator[pa.RecordBatch]]]] = {
    "jsonl": jsonl.batches,
    "shiviz": shiviz.batches,
    "csv": csv_table.batches,
    "otel": otel.batches,
    "edits": graph.edit_batches,
    "automerge": graph.change_batches,
}
FORMATS: Final = ("auto", "precedes", "jsonl", "members", "parquet", *list(TEXT)[1:])
TABLES: Final = {
    "parquet": (".parquet",),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst"),
}


def load(log: Log, format: str = "auto", *, dialect: Dialect | None = None) -> list[History]:
    """The histories in a log; ``auto`` looks at how its content begins.

    A log is a path (pipes too), a URL, ``-`` for standard input, or a file object opened in binary
    mode. A directory of the logs of a live group's members is one log, ``members``, and so is one
    of tables, if their format is named; an empty file is a log without events.
    """
    dialect = _dialect_of(log, dialect)
    if is_members(log, format):
        return [read_members(log)]
    found = Found()
    if _tables_in(log, format) is None:
        with open_log(log) as source:
            chosen = format if format != "auto" else _format_of(source, dialect)
            if chosen == "precedes":
                return read_opened(source)
            rows = _opened(source, chosen, dialect, found)
            return histories(rows, found, title=source.title, complete=dialect.complete)
    rows = event_batches(log, format, dialect=dialect, found=found)
    return histories(rows, found, title=title_of(log), complete=dialect.complete)


def event_batches(
    log: Log, format: str = "auto", *, dialect: Dialect | None = None, found: Found | None = None
) -> Iterator[pa.RecordBatch]:
    """The events of a log as batches of ``EVENTS``, as a stream; ``found`` is whole at its end.

    Only rows that an audit judges come; each node's are in the order of their ``local_seq``, which
    is that of the stream too unless the log is a table that has such a column.
    """
    dialect = _dialect_of(log, dialect)
    found = Found() if found is None else found
    if is_members(log, format):
        yield from member_batches(log)
        return
    files = _tables_in(log, format)
    for file in [log] if files is None else files:
        with open_log(file) as source:
            chosen = format if format != "auto" else _format_of(source, dialect)
            yield from _opened(source, chosen, _dialect_of(file, dialect), found)


def format_of(log: Place, *, dialect: Dialect | None = None) -> str | None:
    """The format that ``auto`` finds in a log; None if it cannot be read twice."""
    address = Address.of(log)
    if address.is_folder():
        return "members" if holds_member_logs(address) else None
    if address == STANDARD_INPUT or not address.is_file():
        return None
    with open_log(log) as source:
        return _format_of(source, Dialect() if dialect is None else dialect)


def is_members(log: Log, format: str) -> TypeGuard[Place]:
    """Whether a log is a directory of the logs of a live group's members."""
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
    """The tables of a directory, which are one log; None if it is no directory of them."""
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
    source: Source, format: str, dialect: Dialect, found: Found
) -> Iterator[pa.RecordBatch]:
    if format == "precedes":
        return parquet.trace_batches(source, found=found)
    if format == "parquet":
        return parquet.batches(source, dialect=dialect, found=found)
    return TEXT[format](unpacked(source), title=source.title, dialect=dialect, found=found)


def _format_of(source: Source, dialect: Dialect) -> str:
    """What a log is by its content, or by an option that only one format has."""
    if source.opening.startswith(MAGIC):
        return _parquet_of(source)
    if dialect.parser is not None:
        return "shiviz"
    if dialect.node_by:
        return "otel"
    packed = unpacked(source)
    source.stream = packed  # what was unpacked to look at it is read on from there
    opening = opening_of(packed)
    source.opening = opening
    text = opening.decode(errors="replace").lstrip()
    if text[:1] in ("", "{"):
        return _json_of(text)
    if shiviz.parser_for(_without_titles(text, dialect)) is not None:
        return "shiviz"
    header = text.partition("\n")[0].strip()
    cells = re.split(r'"?[,;\t|]"?', header.strip('"'))
    if {dialect.columns.get(name, name) for name in ("node", "kind")} <= set(cells):
        return "csv"
    raise UserError(
        f"{source.title} is no log that can be known by its content: say which with `format` "
        f"({', '.join(FORMATS[1:])})"
    )


def _parquet_of(source: Source) -> str:
    with source.seekable() as file:
        try:
            metadata = pq.read_schema(file).metadata or {}
        except (pa.ArrowException, OSError):
            metadata = {METADATA_KEY: b""}  # the reader of traces says what is wrong with it
        file.seek(len(source.opening))
    return "precedes" if METADATA_KEY in metadata else "parquet"


def _json_of(text: str) -> str:
    """Which of the formats that begin with a brace this is."""
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
    return "jsonl"


def _without_titles(text: str, dialect: Dialect) -> str:
    if dialect.delimiter is None or len(dialect.delimiter) == 1:
        return text
    return shiviz.compiled(dialect.delimiter, option="`delimiter`").sub("", text)
