"""Traces: the file format of a run, its writer and reader, and readers of foreign logs."""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.trace.detect import FORMATS, load
    from precedes.trace.history import History
    from precedes.trace.importers.jsonl import read_jsonl
    from precedes.trace.members import join, read_members
    from precedes.trace.reader import read_metadata, read_trace
    from precedes.trace.schema import SCHEMA, SCHEMA_VERSION
    from precedes.trace.tables import from_arrow, from_pandas
    from precedes.trace.writer import TraceWriter

# Loaded on first use: a live member logs its events without pyarrow.
_HOMES = {
    "FORMATS": ".detect",
    "History": ".history",
    "SCHEMA": ".schema",
    "SCHEMA_VERSION": ".schema",
    "TraceWriter": ".writer",
    "from_arrow": ".tables",
    "from_pandas": ".tables",
    "join": ".members",
    "load": ".detect",
    "read_jsonl": ".importers.jsonl",
    "read_members": ".members",
    "read_metadata": ".reader",
    "read_trace": ".reader",
}

__all__ = [
    "FORMATS",
    "SCHEMA",
    "SCHEMA_VERSION",
    "History",
    "TraceWriter",
    "from_arrow",
    "from_pandas",
    "join",
    "load",
    "read_jsonl",
    "read_members",
    "read_metadata",
    "read_trace",
]

__getattr__, __dir__ = exports(__name__, _HOMES)
