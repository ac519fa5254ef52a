"""The columns and the metadata of a trace file; docs/trace-format.md explains them.

Time is in microseconds: the low bits of nanoseconds are random and would cost more than a byte an
event, and nothing is ever ordered by time.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import EventKind

SCHEMA_VERSION: Final = 1
METADATA_KEY: Final = b"precedes"
KIND_NAMES: Final = [kind.name.lower() for kind in EventKind]

SCHEMA: Final = pa.schema(
    [
        pa.field("run_id", pa.int32(), nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("local_seq", pa.int64(), nullable=False),
        pa.field("time_us", pa.int64(), nullable=False),
        pa.field("kind", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("source", pa.int32(), nullable=False),
        pa.field("seq", pa.int32(), nullable=False),
        pa.field("packet", pa.int64(), nullable=True),
    ]
)

# The common rows of every format for the audit: an event a row, each node's in the order of its
# local_seq. A crash, a leave and a join with nothing have no message.
EVENTS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("node", pa.string(), nullable=False),
        pa.field("local_seq", pa.int64(), nullable=False),
        pa.field("time_us", pa.int64(), nullable=True),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=True),
    ]
)

# The same for a picture: with the text of an event, and where a log says what an event follows, one
# row of the kind EDGE for each of these causes instead of deliveries of all that they follow.
EDGE: Final = "edge"
DRAWN: Final = EVENTS.append(pa.field("text", pa.string()))

# Measured on 4 M events of 200 nodes at 100 broadcasts a second, bytes an event as dictionary
# and as delta: local_seq 1.86 and 0.01, time_us 2.60 and 1.98, seq 0.88 and 0.75, source 1.01
# and 1.17. Higher levels of zstd gain less than 1 %. Spark reads both encodings. Together 3.79;
# with BYTE_STREAM_SPLIT for seq and source in pages of 16 KiB 3.72. Columns are compressed one by
# one, and what is random in them is 1.84 for time_us (exponential gaps of 10 ms), 0.96 for source
# (any of 200), 0.59 for seq (around its trend) and 0.03 for kind: 3.4 in all. Less would take one
# column for both, a message's number in the order of broadcasts, 0.65 as delta: another schema.
DELTA_COLUMNS: Final = ("local_seq", "time_us", "seq", "packet")
DICTIONARY_COLUMNS: Final = ("run_id", "node", "kind", "source")
COMPRESSION_LEVEL: Final = 1


def encode_metadata(*, nodes: int, complete: bool, more: dict[str, Any]) -> dict[bytes, bytes]:
    """The file's metadata; ``more`` cannot override the three fixed keys."""
    fixed = {"schema_version": SCHEMA_VERSION, "nodes": nodes, "complete": complete}
    try:
        return {METADATA_KEY: json.dumps({**more, **fixed}, sort_keys=True).encode()}
    except (TypeError, ValueError) as error:
        message = f"trace metadata must be plain JSON values: {error}"
        raise UserError(message) from None


def decode_metadata(metadata: dict[bytes, bytes] | None, *, path: str) -> dict[str, Any]:
    """The metadata of a trace; a trace newer than this reader is refused."""
    text = (metadata or {}).get(METADATA_KEY)
    if text is None:
        raise UserError(f"{path} is a Parquet file but not a trace of precedes")
    try:
        fields = json.loads(text)
        version, nodes = int(fields["schema_version"]), int(fields["nodes"])
        complete, run_id = bool(fields["complete"]), int(fields.get("run_id", 0))
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path} has damaged trace metadata: record it again") from None
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{path} was written by a newer precedes (schema {version}, this one reads up to "
            f"{SCHEMA_VERSION}): upgrade precedes"
        )
    known = {"schema_version": version, "nodes": nodes, "complete": complete, "run_id": run_id}
    return {**fields, **known}
