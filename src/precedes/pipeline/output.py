"""The tables of a sweep as files: each as Parquet and as CSV, there whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from precedes.pipeline import metrics, tables
from precedes.pipeline.directory import aside
from precedes.pipeline.plan import PlannedRun
from precedes.pipeline.spark import jobs
from precedes.pipeline.spark.monitor import Summary
from precedes.pipeline.tabulate import tabulated
from precedes.stores import Address, StoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Every table, with the columns that give its rows their order.
ORDER: Final = {
    "runs": ("number",),
    "run_metrics": ("number",),
    "protocol_summary": ("first", "metric"),
    "audit_runs": ("run_id",),
    "violations": ("run_id", "kind", "node", "source", "seq"),
    "latency_hist": ("run_id", "low_us"),
    "latency_by_protocol": ("first", "low_us"),
    "occupancy": ("run_id", "bin"),
    "occupancy_by_protocol": ("first", "bin"),
    "manifest": ("run_id",),
    "timings": ("run_id",),
    "timings_spark": ("job",),
}
HIDDEN: Final = ("first",)

# Tables with one row per run, which the driver keeps, and longer ones that tasks read again.
SMALL: Final = ("results", "measures")
LONG: Final = ("latency_hist", "occupancy")
UNFINISHED: Final = ".tables"  # where the latter are meanwhile, in a store


class _Sink:
    """A table that is written bit by bit, as Parquet and as CSV."""

    def __init__(self, parquet: Path, csv: Path) -> None:
        self.parquet = parquet
        self._paths = (parquet, csv)
        self._files: list[BinaryIO] = []
        self._writers: tuple[pq.ParquetWriter, pa.csv.CSVWriter] | None = None

    def write(self, data: pa.Table) -> None:
        """Add rows."""
        if self._writers is None:
            # Opened here, so that errors say what is wrong with the disk.
            self._files = [path.open("wb") for path in self._paths]
            parquet = pq.ParquetWriter(self._files[0], data.schema, compression="zstd")
            self._writers = parquet, pa.csv.CSVWriter(self._files[1], data.schema)
        for writer in self._writers:
            writer.write_table(data)

    def close(self) -> None:
        """Write what is left; the files can be read now."""
        for writer in self._writers or ():
            writer.close()
        for file in self._files:
            file.close()

    def abandon(self) -> None:
        """Forget what was not written: after an error, writing it would fail again."""
        if self._writers is not None:
            self._writers[0].is_open = False
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()


@contextlib.contextmanager
def _sinks(directory: Address) -> Iterator[dict[str, _Sink]]:
    """A sink for every table; after the block all are in place."""
    with contextlib.ExitStack() as stack:

        def place(name: str) -> Path:
            return stack.enter_context(aside(directory / name))

        sinks = {name: _Sink(place(f"{name}.parquet"), place(f"{name}.csv")) for name in ORDER}
        try:
            yield sinks
        except BaseException:
            for sink in sinks.values():
                sink.abandon()
            raise


def write_tables(
    spark: SparkSession,
    directory: Address,
    *,
    runs: Sequence[PlannedRun],
    finished: Collection[int],
    errors: Mapping[int, str],
    params: Mapping[tuple[str, int], str],
    took: Sequence[Summary],
) -> None:
    """Compute the tables and write them into the directory; ``finished`` runs have records.

    ``took`` is what Spark's jobs have taken; those that are started here are added by who listens.

    What is longer than a row a run is written as it comes and read again by the tasks that compute
    with it, so that the driver never has it all.
    """
    gathered: dict[str, list[pa.Table]] = {name: [] for name in SMALL}
    with _sinks(directory) as sinks, contextlib.ExitStack() as stack:
        for portion in tabulated(spark, directory, sorted(finished)):
            for name, data in portion.items():
                if name in SMALL:
                    gathered[name].append(data)
                else:
                    sinks[name].write(_ordered(name, data))
        for name in LONG:
            sinks[name].close()
        # Runs of another protocol have other counters: a column that is not there is null.
        results = pa.concat_tables(gathered["results"], promote_options="default")
        small = {
            "runs": tables.runs_table(runs, results, errors, params),
            "measures": pa.concat_tables(gathered["measures"]),
        }
        sinks["runs"].write(_ordered("runs", small["runs"]))
        long = {name: stack.enter_context(_shared(sinks[name].parquet, directory)) for name in LONG}
        for name, frame in derived_frames(spark, small, long).items():
            sinks[name].write(_ordered(name, jobs.wait_for(spark, frame.toArrow, title=name)))
        sinks["timings_spark"].write(tables.table(tables.job_rows(took), tables.TIMINGS_SPARK))
        for sink in sinks.values():
            sink.close()


@contextlib.contextmanager
def _shared(path: Path, directory: Address) -> Iterator[Address]:
    """A table that is not in its place yet, where all machines see it."""
    if directory.is_local:
        yield Address.of(path.absolute())
        return
    shared = directory / UNFINISHED / path.name
    shared.put_file(path)
    try:
        yield shared
    finally:
        with contextlib.suppress(StoreError):  # the next time it is replaced
            shared.remove()


def _ordered(name: str, data: pa.Table) -> pa.Table:
    """The rows in the order of the table, without the columns that only give it."""
    keys = [(column, "ascending") for column in ORDER[name]]
    shown = [column for column in data.column_names if column not in HIDDEN]
    return data.sort_by(keys).select(shown).replace_schema_metadata(None).combine_chunks()


def derived_frames(
    spark: SparkSession, small: Mapping[str, pa.Table], long: Mapping[str, Address]
) -> dict[str, DataFrame]:
    """What Spark computes from them."""
    runs = tables.frame(spark, small["runs"].select(tables.RUNS.names), tables.RUNS)
    measures = tables.frame(spark, small["measures"], tables.MEASURES)
    histogram = tables.written_frame(spark, long["latency_hist"], tables.LATENCY_HIST)
    occupancy = tables.written_frame(spark, long["occupancy"], tables.OCCUPANCY)
    run_metrics = metrics.run_metrics(runs, measures)
    seeds_max = len(set(small["runs"].column("seed").to_pylist()))
    return {
        "run_metrics": run_metrics,
        "protocol_summary": metrics.protocol_summary(run_metrics, seeds_max=seeds_max),
        "latency_by_protocol": metrics.latency_by_protocol(runs, histogram),
        "occupancy_by_protocol": metrics.occupancy_by_protocol(runs, occupancy),
    }
