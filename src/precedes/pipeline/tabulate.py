"""Records of finished runs become rows: tasks read the records, and Arrow tables come back.

A record of a traced run is a hundred kilobytes of JSON, in a store a request of its own, and its
rows are a few kilobytes: the driver never opens one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from precedes.errors import UserError
from precedes.pipeline import tables
from precedes.pipeline.directory import Record, Records
from precedes.pipeline.spark import jobs
from precedes.stores import Address, handed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Records in a task's memory at a time, and tasks whose rows the driver holds at a time.
RUNS_AT_ONCE: Final = 200
PORTIONS_AT_ONCE: Final = 50
# Reading is mostly waiting, in a store.
READERS: Final = 8

T = TypeVar("T")

ROW: Final = "portion int, name string, content binary"
ERROR: Final = "error"


def tabulated(
    spark: SparkSession, directory: Address, run_ids: Sequence[int]
) -> Iterator[dict[str, pa.Table]]:
    """What the records of these runs say, portion by portion in this order; at least one."""
    work = handed(_Work(directory), directory)
    portions = _portions(run_ids, RUNS_AT_ONCE) or [run_ids]
    for some in _portions(portions, PORTIONS_AT_ONCE):
        tasks = [[json.dumps([number, ids])] for number, ids in enumerate(some)]
        frame = jobs.packed(spark, tasks).mapInArrow(work, ROW)
        found = jobs.wait_for(spark, frame.toArrow, title="read records").to_pylist()
        by_portion: list[dict[str, pa.Table]] = [{} for _ in some]
        for row in found:
            if row["name"] == ERROR:
                raise UserError(row["content"].decode())
            with pa.ipc.open_stream(row["content"]) as reader:
                by_portion[row["portion"]][row["name"]] = reader.read_all()
        yield from by_portion


def _portions(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


class _Work:
    """What a task does with the ids of runs."""

    def __init__(self, directory: Address) -> None:
        self._directory = directory.absolute()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("order").to_pylist():
                portion, run_ids = json.loads(text)
                rows = self._rows(run_ids)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([portion] * len(rows), pa.int32()),
                        pa.array(rows.keys(), pa.string()),
                        pa.array(rows.values(), pa.binary()),
                    ],
                    names=["portion", "name", "content"],
                )

    def _rows(self, run_ids: list[int]) -> dict[str, bytes]:
        try:
            found = read_all(Records(self._directory, dict.fromkeys(run_ids, 0.0)))
        except UserError as error:
            return {ERROR: str(error).encode()}
        return {name: _streamed(table) for name, table in plain_tables(found).items()}


def read_all(records: Records) -> dict[int, Record]:
    """The records, read side by side."""
    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip(records, pool.map(records.__getitem__, records), strict=True))


def _streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def plain_tables(found: Mapping[int, Record]) -> dict[str, pa.Table]:
    """What records say, without any computing."""
    bins = ("low_us", "high_us", "deliveries")
    stretches = ("start_us", "end_us", "held_mean", "held_max")
    rows = {
        "measures": (tables.measure_rows(found), tables.MEASURES),
        "audit_runs": (tables.audit_rows(found), tables.AUDIT_RUNS),
        "violations": (tables.violation_rows(found), tables.VIOLATIONS),
        "latency_hist": (
            tables.listed_rows(found, "latency_histogram", bins),
            tables.LATENCY_HIST,
        ),
        "occupancy": (tables.listed_rows(found, "held_bins", stretches), tables.OCCUPANCY),
        "manifest": (tables.manifest_rows(found), tables.MANIFEST),
        "timings": (tables.timing_rows(found), tables.TIMINGS),
    }
    plain = {name: tables.table(*pair) for name, pair in rows.items()}
    return {"results": tables.results_table(found), **plain}
