"""Traces: the file format of a run, its writer and reader, and readers of foreign logs."""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.trace.dialect import Dialect, Notes
    from precedes.trace.event_handler import EventHandler
    from precedes.trace.formats.tables import from_arrow, from_pandas
    from precedes.trace.members import join, read_members
    from precedes.trace.opening import FORMATS, event_batches, load
    from precedes.trace.reader import read_metadata, read_trace
    from precedes.trace.rows import History
    from precedes.trace.schema import EVENTS, SCHEMA, SCHEMA_VERSION
    from precedes.trace.writer import TraceWriter

# Loaded on first use: a live member logs its events without pyarrow.
_HOMES = {
    "Dialect": ".dialect",
    "EVENTS": ".schema",
    "EventHandler": ".event_handler",
    "FORMATS": ".opening",
    "History": ".rows",
    "Notes": ".dialect",
    "SCHEMA": ".schema",
    "SCHEMA_VERSION": ".schema",
    "TraceWriter": ".writer",
    "event_batches": ".opening",
    "from_arrow": ".formats.tables",
    "from_pandas": ".formats.tables",
    "join": ".members",
    "load": ".opening",
    "read_members": ".members",
    "read_metadata": ".reader",
    "read_trace": ".reader",
}

__all__ = [
    "EVENTS",
    "FORMATS",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Dialect",
    "EventHandler",
    "History",
    "Notes",
    "TraceWriter",
    "event_batches",
    "from_arrow",
    "from_pandas",
    "join",
    "load",
    "read_members",
    "read_metadata",
    "read_trace",
]

__getattr__, __dir__ = exports(__name__, _HOMES)
