"""The tables of a sweep as files: each as Parquet and as CSV, written atomically."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from precedes.pipeline import metrics, tables
from precedes.pipeline.directory import Records, aside
from precedes.pipeline.plan import PlannedRun
from precedes.pipeline.spark.jobs import Summary
from precedes.stores import Address

# Every table, with the columns that its rows are ordered by.
ORDER: Final = {
    "runs": ("number",),
    "run_metrics": ("number",),
    "protocol_summary": (),
    "audit_runs": ("run_id",),
    "violations": ("run_id", "kind", "node", "source", "seq"),
    "latency_hist": ("run_id", "low_us"),
    "latency_by_protocol": (),
    "occupancy": ("run_id", "bin"),
    "occupancy_by_protocol": (),
    "manifest": ("run_id",),
    "timings": ("run_id",),
    "timings_spark": ("job",),
}

# Parts of the records besides whole tables, and the columns used of longer ones.
KEPT: Final = {
    "results": None,
    "measures": None,
    "latency_hist": ("run_id", "low_us", "high_us", "deliveries"),
    "occupancy": ("run_id", "bin", "held_mean", "held_max"),
}

# Records in memory at a time; reading them is mostly waiting, in a store.
RUNS_AT_ONCE: Final = 200
READERS: Final = 8


class _Sink:
    """A table that is written bit by bit, as Parquet and as CSV."""

    def __init__(self, parquet: Path, csv: Path, order: Sequence[str]) -> None:
        self._order = [(name, "ascending") for name in order]
        self._paths = (parquet, csv)
        self._files: list[BinaryIO] = []
        self._writers: tuple[pq.ParquetWriter, pa.csv.CSVWriter] | None = None

    def write(self, data: pa.Table) -> None:
        """Add rows, those of each call in order."""
        data = data.sort_by(self._order) if self._order else data
        data = data.combine_chunks()
        if self._writers is None:
            # Opened here, so that errors of the disk are reported.
            self._files = [path.open("wb") for path in self._paths]
            parquet = pq.ParquetWriter(self._files[0], data.schema, compression="zstd")
            self._writers = parquet, pa.csv.CSVWriter(self._files[1], data.schema)
        for writer in self._writers:
            writer.write_table(data)

    def close(self) -> None:
        """Write the rest; the files can be read now."""
        for writer in self._writers or ():
            writer.close()
        for file in self._files:
            file.close()

    def abandon(self) -> None:
        """Discard unwritten rows: after an error, writing them would fail again."""
        if self._writers is not None:
            self._writers[0].is_open = False
        for file in self._files:
            with contextlib.suppress(OSError):
                file.close()


@contextlib.contextmanager
def _sinks(directory: Address) -> Iterator[dict[str, _Sink]]:
    """A sink for every table; after the block all files are in place."""
    with contextlib.ExitStack() as stack:

        def place(name: str) -> Path:
            return stack.enter_context(aside(directory / name))

        sinks = {
            name: _Sink(place(f"{name}.parquet"), place(f"{name}.csv"), order)
            for name, order in ORDER.items()
        }
        try:
            yield sinks
        except BaseException:
            for sink in sinks.values():
                sink.abandon()
            raise


def write_tables(
    directory: Address,
    runs: Sequence[PlannedRun],
    finished: Records,
    errors: Mapping[int, str],
    *,
    params: Mapping[tuple[str, int], str],
    took: Sequence[Summary],
) -> None:
    """Compute the tables and write them into the directory.

    ``finished`` are the records of runs that finished, ``errors`` are of the others, by run id;
    ``took`` is the cost of Spark's jobs. A portion of the records is in memory at a time.
    """
    kept: dict[str, list[pa.Table]] = {name: [] for name in KEPT}
    run_ids = sorted(finished)
    with _sinks(directory) as sinks, ThreadPoolExecutor(READERS) as pool:
        for first in range(0, max(len(run_ids), 1), RUNS_AT_ONCE):
            portion = run_ids[first : first + RUNS_AT_ONCE]
            records = dict(zip(portion, pool.map(finished.__getitem__, portion), strict=True))
            for name, data in tables.plain_tables(records).items():
                if name in sinks:
                    sinks[name].write(data)
                if name in KEPT:
                    kept[name].append(data.select(KEPT[name] or data.column_names))
        # Runs of another protocol have other counters: a missing column is null.
        whole = {n: pa.concat_tables(k, promote_options="default") for n, k in kept.items()}
        all_runs = tables.runs_table(runs, whole["results"], errors, params)
        run_metrics = metrics.run_metrics(all_runs, whole["measures"])
        derived = {
            "runs": all_runs,
            "run_metrics": run_metrics,
            "protocol_summary": metrics.protocol_summary(run_metrics),
            "latency_by_protocol": metrics.latency_by_protocol(all_runs, whole["latency_hist"]),
            "occupancy_by_protocol": metrics.occupancy_by_protocol(all_runs, whole["occupancy"]),
            "timings_spark": tables.table(tables.job_rows(took), tables.TIMINGS_SPARK),
        }
        for name, data in derived.items():
            sinks[name].write(data)
        for sink in sinks.values():
            sink.close()
