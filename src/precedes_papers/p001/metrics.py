"""Readers of the runs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from precedes.intervals import student_t
from precedes.stores import Address
from precedes_papers.measured import (
    Fitted,
    Measured,
    Reader,
    Results,
    Run,
    fitted_reader,
    measure,
    pooled,
    ranged,
    select,
    value,
)
from precedes_papers.p001.experiments import (
    PROFILE,
    SETTINGS,
    SIZES,
    TABLE_3,
    TESTS,
    TREES,
    shared_trees,
)

REACTION_MS: Final = 0.1  # a source that is done reacts no more: its last 0.1 does not count
REACTION: Final = Fitted("reaction, ms", REACTION_MS, "Table 3", items=TABLE_3)
TICK_MS: Final = 0.1
HEADER_BYTES: Final = 40
MEBIBYTE: Final = 1 << 20
DRAWINGS: Final = 10  # of crashes, as published


@fitted_reader(REACTION)
def latency_ms(run: Run) -> float:
    """Until the last ACK is back at the last source, in whole ticks as the paper's clock."""
    ticks = math.floor(run["extra"]["last_completion_ms"] / TICK_MS + 1e-4)
    return ticks * TICK_MS - REACTION_MS


messages: Final = value("extra", "bundles")  # packets, without those of the tests
suspicions: Final = value("extra", "suspicions_by_test")  # processes that a test found crashed


def header_mib(run: Run) -> float:
    """Headers of these packets."""
    return messages(run) * HEADER_BYTES / MEBIBYTE


def items_per_packet(run: Run) -> float:
    """Messages and ACKs that share a packet."""
    extra = run["extra"]
    return float((extra["trees"] + extra["acks"]) / extra["bundles"])


def packets_of_a_broadcast(run: Run) -> float:
    """Packets for each broadcast; processes that crashed at the start broadcast nothing."""
    return messages(run) / (run["nodes"] - len(run["scenario"]["faults"]))


def packets_less(run: Run) -> float:
    """Packets that a broadcast needs less than two for each other process."""
    return 2 * (run["nodes"] - 1) - packets_of_a_broadcast(run)


@ranged(0)
def rounds_to_know(run: Run) -> float:
    """Until the last correct process knows of the last crash, counted from the beginning.

    A round rests for so long and takes longer than that: these are more than there were.
    """
    return float(run["extra"]["last_suspicion_ms"] / TESTS["interval_ms"])


def power_of_rounds(run: Run) -> float:
    """The power of log2(n) that these rounds are."""
    return math.log(rounds_to_know(run)) / math.log(math.log2(run["nodes"]))


def early_items(run: Run) -> float:
    """Items in a packet of the first half of the time less those of the second half, at p0."""
    packets = _profile(run, "packets")
    items = _profile(run, "items")
    end = max(place for place, count in enumerate(packets) if count) + 1
    middle = end // 2
    return sum(items[:middle]) / sum(packets[:middle]) - sum(items[middle:end]) / sum(
        packets[middle:end]
    )


def _profile(run: Run, kind: str) -> list[float]:
    return [run["extra"][f"profile_{kind}_{place}"] for place in range(PROFILE["profile_slices"])]


def profile_of(kind: str, runs: Sequence[Run]) -> Iterator[tuple[int, Reader]]:
    """Readers of the mean items or bytes of a packet of p0, by slice of time with packets."""
    for place in range(PROFILE["profile_slices"]):
        if all(run["extra"][f"profile_packets_{place}"] for run in runs):

            def read(run: Run, place: int = place) -> float:
                extra = run["extra"]
                return float(extra[f"profile_{kind}_{place}"] / extra[f"profile_packets_{place}"])

            yield place, read


@fitted_reader(REACTION)
def _half_width(*runs: Run) -> float:
    """Half of the 95 % interval of the mean latency, of as many drawings as the paper has."""
    spread = statistics.stdev(map(latency_ms, runs))
    return student_t(DRAWINGS - 1) * spread / math.sqrt(DRAWINGS)


def half_widths(runs: Sequence[Run]) -> Measured:
    """The same for one group of drawings after the other."""
    many = len(runs) // DRAWINGS
    return measure(_half_width, *(runs[n * many : (n + 1) * many] for n in range(DRAWINGS)))


def crossover(results: Results, case: str) -> Measured:
    """The least number of processes for which bundling is faster; beyond all if none is."""

    @fitted_reader(REACTION)
    def read(alone: Sequence[Run], bundled: Sequence[Run]) -> float:
        faster = [
            one["nodes"]
            for one, other in zip(alone, bundled, strict=True)
            if latency_ms(other) < latency_ms(one)
        ]
        return float(min(faster, default=2 * SIZES[-1]))

    alone, bundled = (runs_of(results, "fault-free", one) for one in ("NO-AGGR", case))
    return pooled(read, alone, bundled)


@ranged(0)
def not_once(run: Run) -> float:
    """Pairs of a correct source and another correct process that did not deliver its message once.

    Its own message a process delivers as it broadcasts it, without a row.
    """
    with Address.of(run["trace"]).open() as file, pq.ParquetFile(file) as trace:
        table = trace.read(columns=["node", "kind", "source"])
    kinds = table["kind"].combine_chunks().cast(pa.string()).to_pylist()
    rows = list(zip(table["node"].to_pylist(), kinds, table["source"].to_pylist(), strict=True))
    crashed = {node for node, kind, _ in rows if kind == "crash"}
    correct = [node for node in range(run["nodes"]) if node not in crashed]
    delivered = Counter((node, source) for node, kind, source in rows if kind == "deliver")
    pairs = itertools.permutations(correct, 2)
    return float(sum(delivered[pair] != 1 for pair in pairs))


class Column(NamedTuple):
    """Source of the cells of a published table."""

    experiment: str
    read: Reader
    places: int  # published decimals
    rows: tuple[int, ...] = SIZES  # processes, or trees in Table 2

    @property
    def axis(self) -> str:
        """Unit of the rows."""
        return "trees" if self.experiment == "trees" else "processes"

    def cell(self, results: Results, case: str, row: int) -> Measured:
        """A cell of the table."""
        wanted = {"workload": shared_trees(row)} if self.axis == "trees" else {"nodes": row}
        return measure(self.read, runs_of(results, self.experiment, case, **wanted))


COLUMNS: Final = {
    "Table 2, latency": Column("trees", latency_ms, 1, TREES),
    "Table 2, messages": Column("trees", messages, 0, TREES),
    "Table 3, FF": Column("fault-free", latency_ms, 1),
    "Table 3, FY": Column("one-crash", latency_ms, 1),
    "Table 4, FF": Column("fault-free", messages, 0),
    "Table 4, FY": Column("one-crash", messages, 0),
    "Table 5": Column("crashes", latency_ms, 1),
}


def runs_of(results: Results, experiment: str, case: str, **wanted: Any) -> list[Run]:
    """The runs of an experiment in one of the five scenarios."""
    return select(results[experiment], **SETTINGS[case], **wanted)
