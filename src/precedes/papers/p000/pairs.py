"""Paper 000, Figure 8: messages that travelled two to a packet, with and without aggregation.

Two runs of one seed have the same broadcasts. Of the run with aggregation the messages that
arrived somewhere in a packet of two are taken, each with the node where it did, and the same
messages at the same nodes of the run without.
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

from precedes.papers.measured import Run
from precedes.trace.schema import KIND_NAMES

RECEPTION: Final = "reception"
HELD: Final = "the time held"
DELIVERY: Final = "delivery"

Int64s = NDArray[np.int64]


def change(quantity: str) -> Callable[[Run, Run], float]:
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
    table = pq.read_table(path, columns=["node", "time_us", "kind", "source", "packet"])
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
