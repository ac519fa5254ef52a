"""Latency and buffer occupancy from the events of one run: kernels without Spark.

Latency is the time from a message's broadcast to a delivery at another node, in whole
microseconds, of every ``deliver`` row (duplicates included, as in a result).

A message is *held* at a node from its first ``receive`` row there to its first ``deliver`` or
``discard`` row, or to the end of the run; one that is delivered when it arrives has no receive
row, or one of the same time, and is not held. Occupancy is the number of pairs (node, message)
that are held, over all nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.trace import History
from precedes.trace.reader import kind_numbers
from precedes.trace.rows import DELIVER

# Bins of a histogram: whole microseconds up to 16, then eight to each power of two.
SUB_BITS: Final = 3
SHARES: Final = {"p50": 0.50, "p90": 0.90, "p99": 0.99, "p999": 0.999}
OCCUPANCY_BINS: Final = 100

# Kinds of events that begin (0) and end the holding of a message.
HOLDING: Final = {"receive": 0, "deliver": 1, "discard": 2}

Int64s = NDArray[np.int64]


class Held(NamedTuple):
    """Times for which messages were held: from ``start_us`` up to ``end_us``, a pair a row."""

    start_us: Int64s
    end_us: Int64s


def measure(history: History, path: Path) -> dict[str, Any]:
    """Latency and occupancy of a run, as plain values."""
    latency_us = latencies_us(history)
    end_us = 0 if history.time_us is None else int(history.time_us.max(initial=0))
    held, end_us = read_held(path, end_us)
    return {
        "latency_us": percentiles_us(latency_us),
        "latency_histogram": histogram(latency_us),
        "held": occupancy(held, end_us=end_us),
        "held_bins": occupancy_bins(held, end_us=end_us),
    }


def row_count(path: Path) -> int:
    """Number of events in a trace."""
    return int(pq.read_metadata(path).num_rows)


def latencies_us(history: History) -> Int64s:
    """The latency of every delivery at a node other than the message's source."""
    if history.time_us is None:
        return np.empty(0, np.int64)
    source = history.message_source[history.message]
    node = np.repeat(np.arange(history.nodes, dtype=np.int32), np.diff(history.offsets))
    delivered = history.kind == DELIVER
    born_us = np.zeros(history.messages, np.int64)
    born_us[history.message[~delivered]] = history.time_us[~delivered]
    counted = delivered & (source != node) & (source >= 0)
    return history.time_us[counted] - born_us[history.message[counted]]


def percentiles_us(latency_us: Int64s) -> dict[str, float | int | None]:
    """Mean, maximum and percentiles: the least value that the share does not exceed."""
    if latency_us.size == 0:
        return dict.fromkeys(("mean", *SHARES, "max"))
    ranks = {
        name: max(int(np.ceil(share * latency_us.size)) - 1, 0) for name, share in SHARES.items()
    }
    ordered = np.partition(latency_us, sorted(set(ranks.values())))
    return {
        "mean": int(latency_us.sum()) / latency_us.size,
        **{name: int(ordered[rank]) for name, rank in ranks.items()},
        "max": int(latency_us.max()),
    }


def bin_low_us(bins: Int64s) -> Int64s:
    """Lower bounds of bins; bin b ends where b + 1 begins."""
    octave = np.maximum((bins >> SUB_BITS) - 1, 0)
    inside = np.where(bins < 2 << SUB_BITS, bins, (bins & 7) + (1 << SUB_BITS))
    return inside << octave


def histogram(latency_us: Int64s) -> list[list[int]]:
    """Rows [low_us, high_us, deliveries] of the bins that are not empty."""
    value = np.maximum(latency_us, 0)
    # frexp is exact below 2^53 us: the exponent of v is the number of its bits.
    bits = np.frexp(value.astype(np.float64))[1].astype(np.int64)
    octave = np.maximum(bits - SUB_BITS - 1, 0)
    number = np.where(octave > 0, ((octave + 1) << SUB_BITS) + (value >> octave) - 8, value)
    bins, count = np.unique(number, return_counts=True)
    rows = zip(bin_low_us(bins), bin_low_us(bins + 1), count, strict=True)
    return [[int(cell) for cell in row] for row in rows]


def read_held(path: Path, end_us: int) -> tuple[Held, int]:
    """The held messages of a run, and the time of its last event."""
    keys, times, kinds = [], [], []
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=["node", "kind", "source", "seq", "time_us"])
            kind = kind_numbers(table.column("kind"), HOLDING)
            time_us = table.column("time_us").to_numpy()
            end_us = max(end_us, int(time_us.max(initial=0)))
            rows = np.flatnonzero(kind >= 0)
            keys.append(_keys(table, rows))
            times.append(time_us[rows])
            kinds.append(kind[rows])
    if not keys:
        return Held(np.empty(0, np.int64), np.empty(0, np.int64)), end_us
    return pair(np.concatenate(keys), np.concatenate(times), np.concatenate(kinds), end_us), end_us


def _keys(table: pa.Table, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """(node, source, seq) in one number: nodes are below 65,536 and seq fits 32 bits."""
    node = table.column("node").to_numpy()[rows].astype(np.uint64)
    source = table.column("source").to_numpy()[rows].astype(np.uint64)
    seq = table.column("seq").to_numpy()[rows].astype(np.uint64)
    return (node << np.uint64(48)) | ((source & np.uint64(0xFFFF)) << np.uint64(32)) | seq


def pair(key: NDArray[np.uint64], time_us: Int64s, kind: NDArray[np.int8], end_us: int) -> Held:
    """The first receive (kind 0) of each key with its first end (another kind).

    Rows are in each node's own order, so of equal keys the first row is the first event.
    """
    received = np.flatnonzero(kind == 0)
    held_key, first = np.unique(key[received], return_index=True)
    start_row = received[first]
    ends = np.flatnonzero(kind != 0)
    end_row = np.full(held_key.size, key.size, np.int64)
    if held_key.size and ends.size:
        place = np.minimum(np.searchsorted(held_key, key[ends]), held_key.size - 1)
        known = held_key[place] == key[ends]
        # Backwards, so that the first end is the one that stays.
        end_row[place[known][::-1]] = ends[known][::-1]
    later = end_row > start_row
    times = np.append(time_us, end_us)  # the row after the last is the end of the run
    start_us, stop_us = times[start_row][later], times[end_row][later]
    lasting = stop_us > start_us
    return Held(start_us[lasting], stop_us[lasting])


def occupancy(held: Held, *, end_us: int) -> dict[str, float | int]:
    """The mean over time and the maximum of the number of pairs that are held."""
    total_us = int((held.end_us - held.start_us).sum())
    _, level = _levels(held)
    return {"mean": total_us / end_us if end_us else 0.0, "max": int(level.max(initial=0))}


def _levels(held: Held) -> tuple[Int64s, Int64s]:
    """Times at which the number changes, in order, and the number from then on."""
    times, place = np.unique(np.concatenate((held.start_us, held.end_us)), return_inverse=True)
    change = np.zeros(times.size, np.int64)
    np.add.at(change, place[: held.start_us.size], 1)
    np.add.at(change, place[held.start_us.size :], -1)
    return times, np.cumsum(change)


def occupancy_bins(held: Held, *, end_us: int) -> list[list[float]]:
    """Rows [start_us, end_us, mean, max] of equal stretches of the run, ``OCCUPANCY_BINS`` at most.

    The maximum is of the numbers that lasted for a while within the stretch.
    """
    width_us = -(-end_us // OCCUPANCY_BINS)
    if width_us == 0:
        return []
    edges = np.append(np.arange(0, end_us, width_us), end_us)
    times, level = _levels(held)
    # The integral of the number up to each change, and from there up to each edge.
    before = np.concatenate(([0], np.cumsum(level[:-1] * np.diff(times)))) if times.size else times
    at = np.searchsorted(times, edges, side="right") - 1
    inside = at >= 0
    integral = np.zeros(edges.size, np.int64)
    since = at[inside]
    integral[inside] = before[since] + level[since] * (edges[inside] - times[since])
    rows = []
    for number in range(edges.size - 1):
        start, stop = int(edges[number]), int(edges[number + 1])
        changes = slice(int(at[number]) + 1, int(np.searchsorted(times, stop)))
        entering = int(level[at[number]]) if at[number] >= 0 else 0
        most = max(entering, int(level[changes].max(initial=0)))
        mean = int(integral[number + 1] - integral[number]) / (stop - start)
        rows.append([start, stop, mean, most])
    return rows
