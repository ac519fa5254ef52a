"""Audit a stream with Spark: a producer adds files to a directory, and a query reports findings.

    python examples/stream_audit.py

The services of a shop log what they broadcast and deliver; each file has what some of them have
logged since the last one. docs/stream.md has the lines that read Kafka or Delta tables instead.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from precedes.pipeline import open_session
from precedes.spark import causal_audit_stream

SCHEMA = "run_id STRING, node STRING, local_seq LONG, kind STRING, message STRING"
FILES = [
    [("orders", 0, "broadcast", "placed"), ("billing", 0, "deliver", "placed")],
    [("store", 1, "deliver", "paid"), ("store", 2, "broadcast", "shipped")],  # 0 comes later
    [("store", 0, "deliver", "placed"), ("billing", 1, "broadcast", "paid")],
    [("mailbox", 0, "deliver", "placed"), ("mailbox", 1, "deliver", "shipped")],
    [("mailbox", 2, "deliver", "paid")],
]


def produce(directory: Path) -> Iterator[str]:
    """Write files, each whole when its name appears: Spark may list the directory at any time."""
    for number, rows in enumerate(FILES):
        part = directory / f".{number}.json"
        with part.open("w") as file:
            for node, local_seq, kind, message in rows:
                row = {"node": node, "local_seq": local_seq, "kind": kind, "message": message}
                file.write(json.dumps({"run_id": "monday", **row}) + "\n")
        part.rename(directory / f"{number}.json")
        yield f"{number}.json"


def main() -> None:
    with tempfile.TemporaryDirectory() as work, open_session(master="local[2]") as spark:
        incoming = Path(work, "incoming")
        incoming.mkdir()
        events = spark.readStream.schema(SCHEMA).json(str(incoming))
        findings = events.transform(causal_audit_stream())
        writer = findings.writeStream.option("checkpointLocation", f"{work}/checkpoint")
        query = writer.start(f"{work}/findings")
        for name in produce(incoming):
            query.processAllAvailable()  # for this output alone: a query goes on by itself
            found = spark.read.schema(findings.schema).parquet(f"{work}/findings").collect()
            print(f"after {name}: {len(found)} findings")
        print(*(row["sentence"] for row in found), sep="\n")
        query.stop()


if __name__ == "__main__":
    main()
