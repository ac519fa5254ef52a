"""Traces: the file format of a run, its writer and reader, and readers of foreign logs."""

from precedes.trace.detect import FORMATS, load
from precedes.trace.history import History
from precedes.trace.importers.jsonl import read_jsonl
from precedes.trace.members import join, read_members
from precedes.trace.reader import read_metadata, read_trace
from precedes.trace.schema import SCHEMA, SCHEMA_VERSION
from precedes.trace.tables import from_arrow, from_pandas
from precedes.trace.writer import TraceWriter

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
