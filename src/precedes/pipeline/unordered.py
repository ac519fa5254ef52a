"""Events in no order, sorted on Spark by way of blocks.

Stages: tasks ``pack`` rows of logs, or of a DataFrame, into blocks in a directory; the driver
numbers all names; tasks translate the blocks; tasks merge them. Only names of files pass through
Spark, except for the rows of a DataFrame, which only Spark can read.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from precedes.audit.logs import RANGE_ROWS
from precedes.files import write_aside
from precedes.model import Progress
from precedes.pipeline import reading
from precedes.pipeline.plan import pack
from precedes.pipeline.runner import ANSWERS, Order, Runner, answer_batch, answer_to, answers
from precedes.pipeline.spark import jobs
from precedes.stores import Address
from precedes.trace import Dialect
from precedes.trace.dialect import Notes
from precedes.trace.formats.tables import table_batches
from precedes.trace.sort.merge import (
    NAMES,
    NUMBERS,
    SortedRows,
    Stretch,
    merge_nodes,
    name_all,
    name_rest,
    pack_batches,
    sorted_runs,
    translate_block,
)
from precedes.trace.sort.naming import load_naming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE: Final = "sorted.json"  # says what was sorted, when all was

# CPU seconds: looking up the names of a block, merging a row.
TRANSLATE_S: Final = 0.1
MERGE_S: Final = 0.1e-6


class Packed(NamedTuple):
    """Blocks in a directory, and the notes of their readers."""

    blocks: list[str]
    notes: Notes


def pack_tables(
    runner: Runner,
    tables: Sequence[Address],
    directory: Path,
    *,
    progress: Progress | None = None,
) -> Packed:
    """Parquet files as blocks in a directory that all machines see."""
    orders = [order for table in tables for order in reading.table_orders(table)]
    return _pack(runner, _read_table, directory, orders, tables, progress)


def pack_log(
    runner: Runner,
    log: Address,
    directory: Path,
    *,
    format: str = "auto",
    dialect: Dialect | None = None,
    progress: Progress | None = None,
) -> Packed:
    """A log of any format as blocks in a directory that all machines see."""
    read = functools.partial(_read_log, format, dialect or Dialect())
    return _pack(runner, read, directory, reading.orders_of(log, format), [log], progress)


def _pack(
    runner: Runner,
    read: Callable[[Order, Notes], Iterator[pa.RecordBatch]],
    directory: Path,
    orders: Sequence[reading.Priced],
    logs: Sequence[Address],
    progress: Progress | None,
) -> Packed:
    # What a task reads goes into common blocks: of thousands of small files there are few.
    costs_s = [cost_s for _, cost_s in orders]
    grouped = sorted(map(sorted, pack(costs_s, at_least=2 * runner.parallelism)))
    done = runner.map(
        functools.partial(_pack_order, read, str(directory)),
        [{"parts": [orders[number].order for number in group]} for group in grouped],
        [sum(costs_s[number] for number in group) for group in grouped],
        title="pack events into blocks",
        progress=progress,
        addresses=logs,
        one_each=True,
    )
    log_notes = Notes()
    for answer in done:
        log_notes.skipped.update(answer["skipped"])
        for run_id, notes in answer["notes"].items():
            for note in notes:
                log_notes.note(run_id, note)
    return Packed([name for answer in done for name in answer["blocks"]], log_notes)


def _pack_order(
    read: Callable[[Order, Notes], Iterator[pa.RecordBatch]], directory: str, order: Order
) -> dict[str, Any]:
    """Pack the parts that an order names; names of blocks follow from its number."""
    log_notes = Notes()
    prefix = f"block-{order['number']:06d}"
    batches = (batch for part in order["parts"] for batch in read(part, log_notes))
    blocks = pack_batches(batches, Path(directory), prefix=prefix)
    return {"blocks": blocks, "skipped": log_notes.skipped, "notes": log_notes.doubts}


def _read_table(order: Order, _notes: Notes) -> Iterator[pa.RecordBatch]:
    return table_batches(Address.of(order["path"]), range(order["first"], order["last"]))


def _read_log(
    format: str, dialect: Dialect, order: Order, notes: Notes
) -> Iterator[pa.RecordBatch]:
    return reading.read_order(order, format, dialect, notes)


Prepare = Callable[[pa.RecordBatch], pa.RecordBatch]


def pack_frame(
    spark: SparkSession, events: DataFrame, directory: Path, *, prepare: Prepare
) -> Packed:
    """The rows of a DataFrame as blocks; its partitions are read as they are."""
    packed = events.mapInArrow(_PackFrame(directory, prepare), ANSWERS)
    rows = jobs.wait_for(
        spark, lambda: packed.toArrow().to_pylist(), title="pack events into blocks"
    )
    return Packed([name for names in answers(rows) for name in names], Notes())


class _PackFrame:
    """Packs a partition; a second attempt at it writes files of its own."""

    def __init__(self, directory: Path, prepare: Prepare) -> None:
        self._directory = str(directory)
        self._prepare = prepare

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        part = context.partitionId()
        prefix = f"block-{part:06d}-{context.taskAttemptId()}"
        work = functools.partial(self._pack, prefix=prefix)
        yield answer_batch(part, answer_to(work, batches))

    def _pack(self, batches: Iterator[pa.RecordBatch], *, prefix: str) -> list[str]:
        return pack_batches(map(self._prepare, batches), Path(self._directory), prefix=prefix)


def sort_blocks(
    runner: Runner,
    packed: Packed,
    directory: Path,
    *,
    progress: Progress | None = None,
) -> None:
    """Sort the runs in the blocks; ``runs_in`` has them then."""
    blocks = packed.blocks
    name_all(blocks, directory)
    runner.map(
        functools.partial(_translate, str(directory)),
        [{"block": name} for name in blocks],
        [TRANSLATE_S] * len(blocks),
        title="number the names of events",
    )
    name_rest(blocks, directory)
    rows = load_naming(directory / NAMES).rows
    spans = _spans(rows, max(2 * runner.parallelism, 1 + int(rows.sum()) // RANGE_ROWS))
    stretches = runner.map(
        functools.partial(_merge, str(directory), blocks),
        [{"first": first, "last": last} for first, last in spans],
        [MERGE_S * int(rows[first:last].sum()) for first, last in spans],
        title="merge blocks of events",
        progress=progress,
    )
    done = {
        "stretches": stretches,
        "skipped": packed.notes.skipped,
        "notes": packed.notes.doubts,
    }
    write_aside(directory / DONE, json.dumps(done).encode())
    for name in blocks:
        (directory / name).unlink()
        (directory / f"{name}{NUMBERS}").unlink()


def is_sorted(directory: Path) -> bool:
    """Return whether ``sort_blocks`` was completed in a directory."""
    return (directory / DONE).is_file()


def runs_in(
    directory: Path, *, complete: bool = False, origin: str | None = None
) -> list[SortedRows]:
    """The runs that ``sort_blocks`` left in a directory."""
    done = json.loads((directory / DONE).read_bytes())
    log_notes = Notes()
    log_notes.skipped.update(done["skipped"])
    log_notes.doubts.update(done["notes"])
    stretches = [Stretch(*one) for one in done["stretches"]]
    return sorted_runs(directory, stretches, complete=complete, origin=origin, notes=log_notes)


def _spans(rows: NDArray[np.int64], ranges: int) -> list[tuple[int, int]]:
    """About this many ranges of nodes with similar numbers of rows."""
    ends = np.cumsum(rows)
    total = int(ends[-1]) if ends.size else 0
    wanted = [total * number // ranges for number in range(1, ranges)]
    cuts = [0, *np.searchsorted(ends, wanted).tolist(), rows.size]
    return [(first, last) for first, last in itertools.pairwise(cuts) if first < last]


def _translate(directory: str, order: Order) -> None:
    """Look up the names of a block."""
    translate_block(order["block"], Path(directory))


def _merge(directory: str, blocks: list[str], order: Order) -> Stretch:
    """Merge the rows of some nodes."""
    return merge_nodes(blocks, Path(directory), order["first"], order["last"])
