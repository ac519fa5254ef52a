"""Paper 000: what is printed, how its experiments can be read, and what is read from the runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.sim import Scenario

PUBLISHED: Final[dict[str, Any]] = {
    # Nodes: packets without and with aggregation, % fewer packets, % of packets aggregated.
    "Table 1": {
        16: [240, 232, 3.33, 3.02],
        32: [992, 919, 7.36, 5.77],
        64: [4032, 3513, 12.87, 9.05],
        128: [16256, 13759, 15.36, 11.04],
        256: [65280, 49262, 24.54, 15.41],
        512: [261632, 191528, 26.79, 16.70],
        1024: [1047552, 745943, 28.79, 19.14],
    },
    # Messages in a packet: % of all packets, 256 nodes.
    "Table 2": {"1": 84.59, "2": 9.16, "3": 3.12, "4": 1.26, "5": 0.66, "over 5": 1.2},
    "largest packet": 15,  # section 5.1, 256 nodes
    # Bytes of a packet: % of packets as printed under "No Aggr." and "Aggr.", 256 nodes.
    "Table 3": {
        "up to 100": [52.66, 63.67],
        "101 to 200": [31.28, 30.30],
        "201 to 300": [7.62, 6.03],
        "301 to 400": [3.91, 0.00],
        "over 400": [4.54, 0.00],
    },
    # % of messages with so many causal dependencies, 256 nodes; the largest number of them.
    "Figure 6": {"0": 27.0, "1 to 4": 28.5, "5 to 9": 18.4, "over 12": 23.0, "most": 54},
    "Figure 7": {
        "reception, 1024 nodes over 8, with": 2.1,
        "reception, 1024 nodes over 8, without": 2.2,
        "reception, 256": 8.1,  # % that aggregation adds
        "reception, 1024": -7.4,
        "delivery, 1024": -12.2,
        "delivery, up to 512": 3.2,  # the largest difference in %
        "held, 16": -5.0,  # % that aggregation adds to the time messages are held
        "held, 1024": -53.4,
        "queue, 1024": 53.4,  # % longer that packets wait to be sent without aggregation
    },
    # % that aggregation adds, over messages in packets of two.
    "Figure 8": {"aggregated packets, 8": 0, "reception": 13.6, "held, 64": -74, "held, 512": -59},
    # Nodes of 1024 that buffered at most 50, and over 250 messages at some time.
    "Figure 9": {
        "up to 50, with": 569,
        "up to 50, without": 256,  # fewer than a quarter of the nodes
        "over 250, with": 24,
        "over 250, without": 212,
    },
    # % of 1024 nodes whose largest packet has 7 to 11 (8 to 12) messages; the largest of all.
    "Figure 10": {"50 bytes, 7 to 11": 95.5, "50 bytes, largest": 14, "5 bytes, 8 to 12": 81.3},
    # % fewer with one tree than with a tree for each source.
    "Figure 11": {"aggregations, 32": 86.0, "delayed messages, 128": 84.0},
}

SIZES: Final = tuple(PUBLISHED["Table 1"])
READINGS: Final = {
    "A": {"workload": "window:500", "delay": "normal:100:25"},
    "B": {"workload": "window:600", "delay": "normal:100:50"},
}
# Other ways to read "Poisson with interval 1000", at the printed standard deviation of 25.
OTHERS: Final = {
    "uniform on (0, 1000)": {"workload": "window:1000", "delay": "normal:100:25"},
    "exponential of mean 1000": {"workload": "exponential:1000", "delay": "normal:100:25"},
}
ORACLE_MAX: Final = 256  # larger groups run without the oracle: half the time


def scenario(nodes: int, reading: dict[str, str], seed: int, **changes: Any) -> Scenario:
    """A run of section 5: a unit of time is a millisecond, every node broadcasts once."""
    parameters = {"aggregation": True, "trees": "source", "tolerant": False}
    own = {name: changes.pop(name) for name in list(changes) if name in parameters}
    fields = {"payload_bytes": 50, "oracle": nodes <= ORACLE_MAX, **reading, **changes}
    return Scenario(
        protocol="vcube",
        nodes=nodes,
        processing_ms=1.0,
        transmission_ms=1.0,
        packet_bytes=20,
        mtu_bytes=1500,
        seed=seed,
        parameters={**parameters, **own},
        **fields,
    )


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
