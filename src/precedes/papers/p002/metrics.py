"""What is read from the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from precedes.papers.measured import Results, Run, select
from precedes.papers.p002.experiments import BYTE_LOADS, REBALANCED_S, SHIFT_END_S, SHIFT_S

COUNTS: Final = ("deliveries", "messages")


def out_of_order(count: str) -> Callable[[Run], float]:
    """A reader of what was out of causal order: deliveries, or distinct messages."""
    return lambda run: float(run["violations"][count])


def errors(runs: Sequence[Run], count: str = "deliveries") -> float:
    """What was out of causal order in all runs together."""
    return sum(map(out_of_order(count), runs))


def times_fewer(count: str) -> Any:
    """A reader of how many times fewer errors some runs have than others.

    One more of each is counted, so that none is no division by zero.
    """

    def read(few: Sequence[Run], many: Sequence[Run]) -> float:
        return (errors(many, count) + 1) / (errors(few, count) + 1)

    return read


def share(run: Run) -> float:
    """The share of deliveries out of causal order."""
    return float(run["violations"]["deliveries"]) / run["deliveries"]


def entries(run: Run) -> float:
    """Entries of a clock, a mean over processes and time."""
    return float(run["extra"]["entries_mean"])


def growth_beyond_linear(one: Run, other: Run) -> float:
    """By what the growth of the clock exceeds that of the load."""
    return entries(other) / entries(one) - other["scenario"]["rate"] / one["scenario"]["rate"]


def header_bytes(run: Run) -> float:
    """Bytes that the protocol adds to a message, those of its other packets included."""
    scenario = run["scenario"]
    packets = scenario["packet_bytes"] * run["messages_sent"]
    payload = scenario["payload_bytes"] * run["messages_sent"]
    return (float(run["bytes_sent"]) - packets - payload) / run["messages_sent"]


def over_intervals(name: str, first_s: int, last_s: int) -> Any:
    """A reader of the mean of a series from one time to another; intervals have 10 s."""

    def read(run: Run) -> float:
        values = list(run["series"][name])[first_s // 10 : last_s // 10]
        return sum(values) / (last_s // 10 - first_s // 10)

    return read


def before_shift(runs: Sequence[Run]) -> float:
    """Figure 10: errors per second until senders shift."""
    return float(sum_between(0, SHIFT_S)(runs))


def after_rebalancing(runs: Sequence[Run]) -> float:
    """Figure 10: errors per second after components were rebalanced, if they were."""
    return float(sum_between(REBALANCED_S, SHIFT_END_S)(runs))


def sum_between(first_s: int, last_s: int) -> Any:
    """A reader of the errors per second of all runs together, from one time to another."""
    read = over_intervals("violations", first_s, last_s)

    def total(runs: Sequence[Run]) -> float:
        return float(sum(read(run) for run in runs)) / 10 / len(runs)

    return total


def byte_runs(results: Results) -> list[tuple[int, float, str, list[Run]]]:
    """Processes, load, kind of clock and runs in which bytes of messages are measured."""
    labels = {
        "dcs": "dcs with the hash",
        "probabilistic": "a fixed clock for the largest load",
        "vector": "a vector clock",
    }
    groups = sorted({run["nodes"] for run in results["bytes"]})
    return [
        (nodes, load, label, select(results["bytes"], nodes=nodes, rate=load, protocol=protocol))
        for nodes in groups
        for load in BYTE_LOADS
        for protocol, label in labels.items()
    ]
