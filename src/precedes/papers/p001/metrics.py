"""What is read from the runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.papers.p001.experiments import SETTINGS, shared_trees

REACTION_MS: Final = 0.1  # a source that is done reacts no more: its last 0.1 does not count
TICK_MS: Final = 0.1
HEADER_BYTES: Final = 40
MEBIBYTE: Final = 1 << 20


def latency_ms(run: Run) -> float:
    """Until the last ACK is back at the last source, in whole ticks as the paper's clock."""
    ticks = math.floor(run["extra"]["last_completion_ms"] / TICK_MS + 1e-4)
    return ticks * TICK_MS - REACTION_MS


def messages(run: Run) -> float:
    """Packets of the broadcast, without those of the tests."""
    return float(run["extra"]["bundles"])


def header_mib(run: Run) -> float:
    """Headers of these packets."""
    return messages(run) * HEADER_BYTES / MEBIBYTE


def items_per_packet(run: Run) -> float:
    """Messages and ACKs that share a packet."""
    extra = run["extra"]
    return float((extra["trees"] + extra["acks"]) / extra["bundles"])


def suspicions(run: Run) -> float:
    """Processes that a test found crashed."""
    return float(run["extra"]["suspicions_by_test"])


class Column(NamedTuple):
    """Where the cells of a printed table come from."""

    experiment: str
    read: Callable[[Run], float]
    places: int  # decimals in print


COLUMNS: Final = {
    "Table 2, latency": Column("trees", latency_ms, 1),
    "Table 2, messages": Column("trees", messages, 0),
    "Table 3, FF": Column("fault-free", latency_ms, 1),
    "Table 3, FY": Column("one-crash", latency_ms, 1),
    "Table 4, FF": Column("fault-free", messages, 0),
    "Table 4, FY": Column("one-crash", messages, 0),
    "Table 5": Column("crashes", latency_ms, 1),
}


def cell(results: Results, item: str, case: str, row: int) -> Measured:
    """A cell of a table: the row is a number of trees in Table 2, of processes in the others."""
    experiment, read, _ = COLUMNS[item]
    if experiment == "trees":
        return measure(read, runs_of(results, experiment, case, workload=shared_trees(row)))
    return measure(read, runs_of(results, experiment, case, nodes=row))


def runs_of(results: Results, experiment: str, case: str, **wanted: Any) -> list[Run]:
    """The runs of an experiment in one of the five scenarios."""
    return select(results[experiment], **SETTINGS[case], **wanted)
