"""Readers of the runs: of their results, and of the events of those that are traced.

Every node broadcasts once, so its number names a message. Two runs of one seed have the same
broadcasts. For Figure 8 the messages of the run with aggregation that arrived somewhere in a packet
of two are taken, each with the node where it did, and the same messages at the same nodes of the
run without.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from precedes.stores import Address
from precedes.trace.schema import KIND_NAMES
from precedes_papers.measured import Measured, Results, Run, measure, paired, ranged, select, value
from precedes_papers.p000 import PUBLISHED
from precedes_papers.p000.experiments import MIDDLE, named
from precedes_papers.rules import About

# The steps of Figure 9 by the least number of messages.
FIGURE_9_STEPS: Final = {
    0: "up_to_50",
    51: "51_to_100",
    101: "101_to_150",
    151: "151_to_200",
    201: "201_to_250",
    251: "over_250",
}
FIGURE_6_STEPS: Final = ((0, 0), (1, 4), *((low, low + 4) for low in range(5, 60, 5)))
PARTS: Final = 10  # of the broadcasts of a run, in their order

# Quantities of Figure 8.
RECEPTION: Final = "reception"
HELD: Final = "the time held"
DELIVERY: Final = "delivery"

ENTRY_BYTES: Final = 4  # section 5.2
CACHED_MAX: Final = 4096  # values of traces: more are read again

Int64s = NDArray[np.int64]
Read = Callable[[Run], float]


# --- Which runs ---


class Runs(NamedTuple):
    """The runs under one reading of the start times."""

    results: Results
    reading: str

    def about(self, item: str, statement: str, reading: str = "") -> About:
        """Subject of a claim under this reading, and under one more of the published value."""
        return item, statement, ", ".join(filter(None, (reading, f"reading {self.reading}")))

    def of(self, kind: str, nodes: int = MIDDLE) -> list[Run]:
        """The runs of a kind with this number of nodes."""
        return select(self.results[named(kind, self.reading)], nodes=nodes)

    def measure(self, read: Callable[..., float], *kinds: str, nodes: int = MIDDLE) -> Measured:
        """One quantity of these runs; of two kinds seed by seed, for seeds that both have."""
        return paired(read, *(self.of(kind, nodes) for kind in kinds))


def growth(read: Read, small: Sequence[Run], large: Sequence[Run]) -> Measured:
    """Ratio of the value of each large group to the mean of its share of the small ones."""
    parts = np.array_split([read(run) for run in small], len(large))
    below = {run["seed"]: float(part.mean()) for run, part in zip(large, parts, strict=True)}
    return measure(lambda run: read(run) / below[run["seed"]], large)


def change(read: Read) -> Callable[[Run, Run], float]:
    """% that the first run has more than the second."""
    return lambda run, other: 100.0 * (read(run) / read(other) - 1) if read(other) else 0.0


def fewer(read: Read) -> Callable[[Run, Run], float]:
    """% that the first run has less than the second."""
    return ranged(-math.inf, 100)(lambda run, other: -change(read)(run, other))


# --- Of results ---

packets: Final = value("packets", low=0)
bytes_sent: Final = value("bytes_sent")
# Mean times from a broadcast to a reception and to a delivery.
reception: Final = value("latency", "reception_mean")
delivery: Final = value("latency", "delivery_mean")
queue_wait: Final = value("extra", "queue_wait_ms", low=0)  # of a packet, a mean


def fewer_packets(run: Run) -> float:
    """% fewer packets than messages: without aggregation each travels alone."""
    return 100.0 * (1 - run["packets"] / run["messages_sent"])


@ranged(0, 100)
def aggregated(run: Run) -> float:
    """% of packets that carry two messages or more."""
    return _share(run["packets_by_messages"], 2, 99)


@ranged(0)
def aggregations(run: Run) -> float:
    """Packets that carry two messages or more."""
    return float(sum(run["packets_by_messages"][2:]))


def with_messages(low: int, high: int) -> Read:
    """% of packets with this number of messages."""
    return ranged(0, 100)(lambda run: _share(run["packets_by_messages"], low, high + 1))


def _of_aggregated(low: int, high: int) -> Read:
    """% of the packets with two messages or more that have this number."""
    return ranged(0, 100)(lambda run: _share(run["packets_by_messages"][2:], low - 2, high - 1))


def packets_of(count: int) -> Read:
    """Packets with exactly this number of messages."""
    return ranged(0)(lambda run: float(sum(run["packets_by_messages"][count : count + 1])))


def with_bytes(first: int, last: int) -> Read:
    """% of packets whose size is in these steps of 100 bytes."""
    return ranged(0, 100)(lambda run: _share(run["packets_by_bytes"], first, last))


def needing(name: str) -> Read:
    """% of broadcasts by the number of entries in their stamps."""
    return ranged(0)(
        lambda run: 100.0 * run["extra"][f"broadcasts_needing_{name}"] / run["broadcasts"]
    )


def needing_over_12(run: Run) -> float:
    """% of broadcasts with more than 12 entries."""
    fewer = ("0", "1_to_4", "5_to_9", "10_to_12")
    return 100.0 - sum(needing(name)(run) for name in fewer)


def extra(name: str) -> Read:
    """A counter of the protocol's own."""
    return value("extra", name, low=0)


def held(run: Run) -> float:
    """Mean time from a reception to the delivery."""
    return delivery(run) - reception(run)


def largest_between(low: int, high: int) -> Read:
    """% of nodes whose largest packet has this number of messages."""
    return ranged(0, 100)(lambda run: _share(run["nodes_by_largest_packet"], low, high + 1))


@ranged(0)
def largest(run: Run) -> float:
    """Messages in the largest packet of all."""
    return float(len(run["nodes_by_largest_packet"]) - 1)


@ranged(0)
def largest_mean(run: Run) -> float:
    """Messages in a node's largest packet, over all nodes."""
    counts = run["nodes_by_largest_packet"]
    return sum(size * count for size, count in enumerate(counts)) / sum(counts)


@ranged(0)
def nodes_apart(run: Run) -> float:
    """Nodes that never send two messages in a packet."""
    return float(sum(run["nodes_by_largest_packet"][:2]))


def _share(counts: Sequence[int], first: int, last: int) -> float:
    return 100.0 * sum(counts[first:last]) / max(sum(counts), 1)


# --- Of traces ---


class Rows(NamedTuple):
    """The events of a run, each node's in its own order."""

    node: Int64s
    time_us: Int64s
    source: Int64s
    packet: Int64s
    kind: Int64s

    def of(self, kind: str) -> Rows:
        """The rows of one kind."""
        chosen = self.kind == KIND_NAMES.index(kind)
        return Rows(*(column[chosen] for column in self))

    def times_us(self, kind: str, nodes: int) -> Int64s:
        """Times at which messages were received or delivered, by node and source."""
        times = np.zeros((nodes, nodes), np.int64)
        these = self.of(kind)
        times[these.node, these.source] = these.time_us
        return times

    @property
    def nodes(self) -> int:
        """Number of nodes of the run."""
        return int(self.node.max()) + 1

    @property
    def born_us(self) -> Int64s:
        """Time of each broadcast."""
        return self.times_us("broadcast", self.nodes).diagonal()

    def received_us(self) -> Int64s:
        """Times of receptions; a message that did not wait may have its delivery alone."""
        received = self.times_us("receive", self.nodes)
        return np.where(received > 0, received, self.times_us("deliver", self.nodes))


def _rows(path: str) -> Rows:
    with Address.of(path).open() as file, pq.ParquetFile(file) as trace:
        table = trace.read(columns=["node", "time_us", "kind", "source", "packet"])
    kinds = table["kind"].combine_chunks().cast(pa.string())
    return Rows(
        node=table["node"].to_numpy(),
        time_us=table["time_us"].to_numpy(),
        source=table["source"].to_numpy(),
        packet=table["packet"].fill_null(-1).to_numpy(),
        kind=pc.index_in(kinds, pa.array(KIND_NAMES)).to_numpy(),
    )


@ranged(0)
def slowest(run: Run) -> float:
    """The longest time from a broadcast to a reception."""
    return _slowest_ms(run["trace"])


@functools.lru_cache(maxsize=CACHED_MAX)
def _slowest_ms(path: str) -> float:
    return float(_latency_ms(_rows(path)).max())


def reception_of_part(part: int) -> Read:
    """Mean reception latency of a tenth of the messages, in the order of their broadcasts."""
    return ranged(0)(lambda run: _receptions_ms(run["trace"])[part])


@functools.lru_cache(maxsize=CACHED_MAX)
def _receptions_ms(path: str) -> tuple[float, ...]:
    rows = _rows(path)
    means_ms = _latency_ms(rows).sum(axis=0) / (rows.nodes - 1)
    parts = np.array_split(means_ms[np.argsort(rows.born_us, kind="stable")], PARTS)
    return tuple(float(part.mean()) for part in parts)


def _latency_ms(rows: Rows) -> NDArray[np.float64]:
    """From broadcast to reception, by node and source; 0 at the source."""
    latency_ms = (rows.received_us() - rows.born_us) / 1000
    np.fill_diagonal(latency_ms, 0)
    return np.asarray(latency_ms)


def added_delay(run: Run, other: Run) -> float:
    """The largest time in ms by which the first run delivers a message later than the second."""
    late, early = (_rows(one["trace"]) for one in (run, other))
    added_us = late.times_us("deliver", late.nodes) - early.times_us("deliver", early.nodes)
    return float(added_us.max()) / 1000


def depending_on(low: int, high: int) -> Read:
    """% of messages whose sources had delivered this number of others."""

    def read(run: Run) -> float:
        counts = _dependencies(run["trace"])
        return 100.0 * sum(low <= count <= high for count in counts) / len(counts)

    return ranged(0, 100)(read)


def variation(run: Run, other: Run) -> float:
    """The largest difference, in % of all messages, between two distributions of dependencies."""
    shares = [depending_on(*step) for step in FIGURE_6_STEPS]
    return max(abs(share(run) - share(other)) for share in shares)


@functools.lru_cache(maxsize=CACHED_MAX)
def _dependencies(path: str) -> tuple[int, ...]:
    return tuple(_dependencies_of(_rows(path)).tolist())


def _dependencies_of(rows: Rows) -> Int64s:
    """Number of messages that the source of each had delivered before it."""
    delivered = np.cumsum(rows.kind == KIND_NAMES.index("deliver"))
    broadcast = np.flatnonzero(rows.kind == KIND_NAMES.index("broadcast"))
    first = np.searchsorted(rows.node, rows.node[broadcast])
    before = np.concatenate(([0], delivered))
    return np.asarray(before[broadcast] - before[first])


class Packets(NamedTuple):
    """The packets of a run, in the order of their senders and of what each sent."""

    size_bytes: Int64s
    receiver: Int64s
    follows: NDArray[np.bool_]  # sent in the same step of its sender as the one before it


def packets_in(run: Run) -> Packets:
    """Sizes as section 5 has them: header, and of each message the clock's entries and payload."""
    scenario, rows = run["scenario"], _rows(run["trace"])
    entries = 1 + _dependencies_of(rows)
    sent, arrived = rows.of("send"), rows.of("receive")
    # A packet's messages are rows one after the other, and so are the packets of a step.
    first = np.flatnonzero(np.diff(sent.packet, prepend=-1))
    place = np.flatnonzero(rows.kind == KIND_NAMES.index("send"))
    number, index = np.unique(arrived.packet, return_index=True)
    message_bytes = scenario["payload_bytes"] + ENTRY_BYTES * entries[sent.source]
    return Packets(
        size_bytes=scenario["packet_bytes"] + np.add.reduceat(message_bytes, first),
        receiver=arrived.node[index][np.searchsorted(number, sent.packet[first])],
        follows=np.diff(place, prepend=-2)[first] == 1,
    )


@ranged(0, 100)
def larger_than_any(run: Run, other: Run) -> float:
    """% of packets larger than the largest of the other run."""
    limit_bytes = packets_in(other).size_bytes.max()
    return 100.0 * float((packets_in(run).size_bytes > limit_bytes).mean())


@ranged(0)
def cut_at_mtu(run: Run) -> float:
    """Packets sent for want of room: in the same step another one goes to the same node."""
    all_packets = packets_in(run)
    again = np.diff(all_packets.receiver, prepend=-1) == 0
    return float((again & all_packets.follows).sum())


def pair_change(quantity: str) -> Callable[[Run, Run], float]:
    """% that aggregation adds to the mean of a quantity over the messages in packets of two."""

    def read(run: Run, other: Run) -> float:
        means, others = _means_ms(run["trace"], other["trace"])
        return 100.0 * (means[quantity] / others[quantity] - 1)

    return read


def pair_mean(quantity: str, place: int) -> Callable[[Run, Run], float]:
    """The mean itself: of the run with aggregation, or (1) of the one without."""
    return lambda run, other: _means_ms(run["trace"], other["trace"])[place][quantity]


@functools.lru_cache(maxsize=CACHED_MAX)
def _means_ms(path: str, other: str) -> tuple[dict[str, float], dict[str, float]]:
    """Means over the same messages and nodes, with and without aggregation."""
    rows = _rows(path)
    chosen = _in_packets_of_two(rows)
    return _means_of(rows, *chosen), _means_of(_rows(other), *chosen)


def _in_packets_of_two(rows: Rows) -> tuple[Int64s, Int64s]:
    """Nodes, and the messages that they received so."""
    received = rows.of("receive")
    _, place, count = np.unique(received.packet, return_inverse=True, return_counts=True)
    two = count[place] == 2
    return received.node[two], received.source[two]


def _means_of(rows: Rows, node: Int64s, source: Int64s) -> dict[str, float]:
    born_us = rows.born_us[source]
    received_us = rows.times_us("receive", rows.nodes)[node, source]
    delivered_us = rows.times_us("deliver", rows.nodes)[node, source]
    return {
        RECEPTION: float((received_us - born_us).mean()) / 1000,
        HELD: float((delivered_us - received_us).mean()) / 1000,
        DELIVERY: float((delivered_us - born_us).mean()) / 1000,
    }


# --- What is published of one run of 256 nodes ---


class Item(NamedTuple):
    """A published value: the item and key of its claims, its reader, half a unit of its last place.

    ``kinds`` are the runs that it is read from.
    """

    item: str
    key: str
    read: Callable[..., float]
    rounding: float
    kinds: tuple[str, ...] = ("with",)


_MESSAGES: Final = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "4": (4, 4), "5": (5, 5)} | {
    "over 5": (6, 99)
}
_HUNDREDS: Final = {
    "up to 100": (0, 1),
    "101 to 200": (1, 2),
    "201 to 300": (2, 3),
    "301 to 400": (3, 4),
    "over 400": (4, 99),
}
# Table 3 as the paper's text has it: the columns change places, as only aggregation makes larger
# packets.
COLUMNS: Final = {"Table 3, with": 0, "Table 3, without": 1}


def published(table: str, name: str) -> float:
    """The published value of an item."""
    if table in COLUMNS:
        return float(PUBLISHED["Table 3"][name][COLUMNS[table]])
    return float(PUBLISHED[table][name])


def span(table: str, name: str) -> float | None:
    """The range of the shares that are published with this one, if it is one of several."""
    if table.startswith("section") or name == "most":
        return None
    shares = [published(table, one) for one in ITEMS[table] if one != "most"]
    return max(shares) - min(shares)


def _of_messages(key: str, read: Callable[[int, int], Read], first: int) -> dict[str, Item]:
    return {
        name: Item("Table 2", key.format(name), read(low, high), 0.005)
        for name, (low, high) in _MESSAGES.items()
        if low >= first
    }


def _of_bytes(how: str, kind: str) -> dict[str, Item]:
    key = f"% of packets of {{}} bytes, {how} (swapped)"
    return {
        name: Item("Table 3", key.format(name), with_bytes(*steps), 0.005, (kind,))
        for name, steps in _HUNDREDS.items()
    }


# By the names in PUBLISHED.
ITEMS: Final[Mapping[str, Mapping[str, Item]]] = {
    "Table 2": _of_messages("% of packets with {} messages", with_messages, 1),
    "Table 2, aggregated": _of_messages(
        "% of aggregated packets with {} messages", _of_aggregated, 2
    ),
    "section 5.1": {
        name: Item("Table 2", key, read, 0.5)
        for name, key, read in (
            ("two or three", "% of aggregated packets with 2 or 3", _of_aggregated(2, 3)),
            ("largest packet", "messages in the largest packet", largest),
            ("packets of 15", "packets with 15 messages", packets_of(15)),
        )
    },
    "Table 3, with": _of_bytes("with", "with"),
    "Table 3, without": _of_bytes("without", "alone"),
    "section 5.2": {
        "larger": Item(
            "Table 3",
            "% of packets larger than any without aggregation",
            larger_than_any,
            0.005,
            ("packets", "packets-alone"),
        ),
        "over 1400": Item("Table 3", "% of packets over 1400 bytes", with_bytes(14, 99), 0.005),
        "cut": Item("Table 3", "packets cut at the MTU", cut_at_mtu, 0.5, ("packets",)),
    },
    "Figure 6": {
        name: Item("Figure 6", key, read, rounding)
        for name, key, read, rounding in (
            ("0", "% of messages with 0 dependencies", needing("0"), 0.5),
            ("1 to 4", "% of messages with 1 to 4 dependencies", needing("1_to_4"), 0.05),
            ("5 to 9", "% of messages with 5 to 9 dependencies", needing("5_to_9"), 0.05),
            ("over 12", "% of messages with over 12 dependencies", needing_over_12, 0.5),
            ("most", "dependencies of the message with most", extra("dependencies_max"), 0.0),
        )
    },
}
