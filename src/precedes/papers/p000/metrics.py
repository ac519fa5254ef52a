"""What is read from the runs.

For Figure 8 it is read from traces, of messages that travelled two to a packet. Two runs of one
seed have the same broadcasts. Of the run with aggregation the messages that arrived somewhere in a
packet of two are taken, each with the node where it did, and the same messages at the same nodes
of the run without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.stores import Address
from precedes.trace.schema import KIND_NAMES

MIDDLE: Final = 256  # the group of Tables 2 and 3 and of Figure 6
TABLE_2: Final = {
    "1": (1, 1),
    "2": (2, 2),
    "3": (3, 3),
    "4": (4, 4),
    "5": (5, 5),
    "over 5": (6, 99),
}
TABLE_3: Final = {
    "up to 100": (0, 1),
    "101 to 200": (1, 2),
    "201 to 300": (2, 3),
    "301 to 400": (3, 4),
    "over 400": (4, 99),
}
FIGURE_6: Final = {"0": "0", "1 to 4": "1_to_4", "5 to 9": "5_to_9"}

# Quantities of Figure 8.
RECEPTION: Final = "reception"
HELD: Final = "the time held"
DELIVERY: Final = "delivery"

Int64s = NDArray[np.int64]


def sized(results: Results, name: str, nodes: int, **wanted: Any) -> list[Run]:
    """The runs of an experiment with so many nodes."""
    return select(results[name], nodes=nodes, **wanted)


def packets(run: Run) -> float:
    """Packets sent."""
    return float(run["packets"])


def fewer_packets(run: Run) -> float:
    """% fewer packets than messages: without aggregation each travels alone."""
    return 100.0 * (1 - run["packets"] / run["messages_sent"])


def aggregated(run: Run) -> float:
    """% of packets that carry two messages or more."""
    return 100.0 * sum(run["packets_by_messages"][2:]) / run["packets"]


def aggregations(run: Run) -> float:
    """Packets that carry two messages or more."""
    return float(sum(run["packets_by_messages"][2:]))


def with_messages(low: int, high: int) -> Callable[[Run], float]:
    """% of packets with so many messages."""
    return lambda run: 100.0 * sum(run["packets_by_messages"][low : high + 1]) / run["packets"]


def with_bytes(first: int, last: int) -> Callable[[Run], float]:
    """% of packets whose size is in these steps of 100 bytes."""
    return lambda run: 100.0 * sum(run["packets_by_bytes"][first:last]) / run["packets"]


def needing(name: str) -> Callable[[Run], float]:
    """% of broadcasts by the number of entries in their stamps."""
    return lambda run: 100.0 * run["extra"][f"broadcasts_needing_{name}"] / run["broadcasts"]


def needing_over_12(run: Run) -> float:
    """% of broadcasts with more than 12 entries."""
    fewer = ("0", "1_to_4", "5_to_9", "10_to_12")
    return 100.0 - sum(needing(name)(run) for name in fewer)


def extra(name: str) -> Callable[[Run], float]:
    """A counter of the protocol's own."""
    return lambda run: float(run["extra"][name])


def reception(run: Run) -> float:
    """Mean time from a broadcast to a reception."""
    return float(run["latency"]["reception_mean"])


def delivery(run: Run) -> float:
    """Mean time from a broadcast to a delivery."""
    return float(run["latency"]["delivery_mean"])


def held(run: Run) -> float:
    """Mean time from a reception to the delivery."""
    return delivery(run) - reception(run)


def queue_wait(run: Run) -> float:
    """Mean time that a packet waits to be sent."""
    return float(run["extra"]["queue_wait_ms"])


def change(read: Callable[[Run], float]) -> Callable[[Run, Run], float]:
    """% that the first run has more than the second."""
    return lambda run, other: 100.0 * (read(run) / read(other) - 1) if read(other) else 0.0


def largest_between(low: int, high: int) -> Callable[[Run], float]:
    """% of nodes whose largest packet has so many messages."""
    return lambda run: 100.0 * sum(run["nodes_by_largest_packet"][low : high + 1]) / run["nodes"]


def largest(run: Run) -> float:
    """Messages in the largest packet of all."""
    return float(len(run["nodes_by_largest_packet"]) - 1)


def measured_at(
    results: Results, read: Callable[[Run], float], name: str, nodes: int, **wanted: Any
) -> Measured:
    """One quantity of the runs with so many nodes."""
    return measure(read, sized(results, name, nodes, **wanted))


def of_reading(
    results: Results, reading: str, read: Callable[[Run], float], nodes: int
) -> Measured:
    """One quantity of the runs of reading A or B."""
    return measured_at(results, read, f"reading-{reading.lower()}", nodes)


def pair_change(quantity: str) -> Callable[[Run, Run], float]:
    """% that aggregation adds to the mean of a quantity over the messages in packets of two."""

    def read(run: Run, other: Run) -> float:
        means, others = _means_us(run["trace"], other["trace"])
        return 100.0 * (means[quantity] / others[quantity] - 1)

    return read


@functools.lru_cache(maxsize=64)
def _means_us(path: str, other: str) -> tuple[dict[str, float], dict[str, float]]:
    """Means over the same messages and nodes, with and without aggregation."""
    rows = _rows(path)
    chosen = _in_packets_of_two(rows)
    return _means_of(rows, chosen), _means_of(_rows(other), chosen)


def _rows(path: str) -> dict[str, Int64s]:
    """The events of a run in which every node broadcasts once: its number names a message."""
    with Address.of(path).open() as file, pq.ParquetFile(file) as trace:
        table = trace.read(columns=["node", "time_us", "kind", "source", "packet"])
    rows: dict[str, Any] = {
        name: table[name].fill_null(-1).to_numpy()
        for name in ("node", "time_us", "source", "packet")
    }
    kinds = table["kind"].combine_chunks().cast(pa.string())
    rows["kind"] = pc.index_in(kinds, pa.array(KIND_NAMES)).to_numpy()
    return rows


def _in_packets_of_two(rows: dict[str, Int64s]) -> Int64s:
    """Pairs of node and message, a row each."""
    received = rows["kind"] == KIND_NAMES.index("receive")
    packet = rows["packet"][received]
    _, place, count = np.unique(packet, return_inverse=True, return_counts=True)
    two = count[place] == 2
    return np.stack([rows["node"][received][two], rows["source"][received][two]], axis=1)


def _means_of(rows: dict[str, Int64s], chosen: Int64s) -> dict[str, float]:
    nodes = int(rows["node"].max()) + 1
    times_us = {}
    for kind in ("broadcast", "receive", "deliver"):
        these = rows["kind"] == KIND_NAMES.index(kind)
        times_us[kind] = np.zeros((nodes, nodes), np.int64)
        times_us[kind][rows["node"][these], rows["source"][these]] = rows["time_us"][these]
    node, source = chosen.T
    born_us = times_us["broadcast"][source, source]
    received_us = times_us["receive"][node, source]
    delivered_us = times_us["deliver"][node, source]
    return {
        RECEPTION: float((received_us - born_us).mean()),
        HELD: float((delivered_us - received_us).mean()),
        DELIVERY: float((delivered_us - born_us).mean()),
    }
