"""Readers of the runs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Final

from precedes_papers.measured import Pair, Reader, Results, Run, less, ranged, select, value
from precedes_papers.p002.experiments import BYTE_LOADS, SHIFT_END_S, SHIFT_S, Shift

COUNTS: Final = ("messages", "deliveries")
ROUNDS: Final = ("deactivate", "remove")
STEP_S: Final = 10  # of a series

# The least clock is read from sizes within this factor of it.
NEAR: Final = 8.0
DELAY_S: Final = 0.1  # the mean
INCREMENTS: Final = 2


def out_of_order(count: str) -> Reader:
    """A reader of what was out of causal order: distinct messages, or deliveries."""
    return value("violations", count, low=0)


def fewer(count: str) -> Pair:
    """A reader of how many errors fewer a run has than another."""
    more = less(out_of_order(count))
    return lambda few, many: more(many, few)


def times_fewer(count: str) -> Pair:
    """A reader of how many times fewer errors a run has than another.

    One more of each is counted, so that a count of zero does not divide by zero.
    """
    errors = out_of_order(count)
    return ranged(0)(lambda few, many: (errors(many) + 1) / (errors(few) + 1))


@ranged(0, 1)
def share(run: Run) -> float:
    """The share of deliveries out of causal order."""
    return float(run["violations"]["deliveries"]) / run["deliveries"]


entries: Final = value("extra", "entries_mean", low=0)  # of a clock, over processes and time


def least_entries(target: float) -> Callable[..., float]:
    """A reader of the least clock with which a share of deliveries is out of causal order.

    It takes runs of one load with clocks of several sizes, those within a factor of 8 of what all
    of them give. The published formula of section II interpolates between sizes. It is the chance
    that what is missing goes unnoticed; how often something is missing is counted. A pair of
    messages that goes wrong does so at many receivers, so a few sizes together say more than the
    two around the target. Without any error it is the least of the sizes.
    """

    @ranged(0)
    def read(*runs: Run) -> float:
        first = _crossing(runs, target)
        near = [run for run in runs if first / NEAR <= _entries_given(run) <= first * NEAR]
        return _crossing(near, target) if any(map(share, near)) else first

    return read


def _crossing(runs: Sequence[Run], target: float) -> float:
    """Size at which the formula, scaled to the errors of these runs, meets a target."""
    errors = sum(run["violations"]["deliveries"] for run in runs)
    if not errors:
        return float(min(map(_entries_given, runs)))
    hits = runs[0]["scenario"]["rate"] * DELAY_S * INCREMENTS
    unnoticed = sum(
        run["deliveries"] * (1 - (1 - 1 / _entries_given(run)) ** hits) ** INCREMENTS
        for run in runs
    )
    one = min(target * unnoticed / errors, 1.0) ** (1 / INCREMENTS)
    return float(1 / (1 - (1 - one) ** (1 / hits)))


def _entries_given(run: Run) -> int:
    return int(run["scenario"]["parameters"]["entries"])


def growth_of_least(target: float) -> Callable[..., float]:
    """A reader of how many times larger the least clock is under the larger of two loads."""
    least = least_entries(target)

    @ranged(0)
    def read(*runs: Run) -> float:
        loads = [run["scenario"]["rate"] for run in runs]
        few, many = (
            [run for run, load in zip(runs, loads, strict=True) if load == one]
            for one in (min(loads), max(loads))
        )
        return least(*many) / least(*few)

    return read


def errors_from(entries: float, runs: Sequence[Sequence[Run]]) -> int:
    """Number of deliveries out of order with clocks of at least this size."""
    return sum(
        int(run["violations"]["deliveries"])
        for same in runs
        for run in same
        if _entries_given(run) >= entries
    )


def by_size(runs: Sequence[Run], load: float) -> list[list[Run]]:
    """Runs of a load for each size of a clock, seed after seed."""
    chosen = select(runs, rate=load)
    sizes = dict.fromkeys(map(_entries_given, chosen))
    return [select(chosen, entries=size) for size in sizes]


@ranged(0)
def best_increments(*runs: Run) -> float:
    """Entries of a process with the fewest wrong deliveries, among runs of one seed."""
    best = min(runs, key=lambda run: run["violations"]["deliveries"])
    return float(best["scenario"]["parameters"]["per_process"])


def header_bytes(run: Run) -> float:
    """Bytes that the protocol adds to a message, those of its other packets included."""
    scenario = run["scenario"]
    packets = scenario["packet_bytes"] * run["messages_sent"]
    payload = scenario["payload_bytes"] * run["messages_sent"]
    return (float(run["bytes_sent"]) - packets - payload) / run["messages_sent"]


def over_intervals(name: str, first_s: int, last_s: int) -> Reader:
    """A reader of the mean of a series over the intervals from one time to another."""

    @ranged(0)
    def read(run: Run) -> float:
        values = list(run["series"][name])[first_s // STEP_S : last_s // STEP_S]
        return sum(values) / (last_s // STEP_S - first_s // STEP_S)

    return read


def per_second(name: str, first_s: int, last_s: int) -> Reader:
    """A reader of what a series counts in a second, from one time to another."""
    read = over_intervals(name, first_s, last_s)
    return ranged(0)(lambda run: read(run) / STEP_S)


def load_in(run: Run) -> list[float]:
    """Broadcasts per second, interval after interval, of those that are whole."""
    whole = int(run["scenario"]["duration_s"]) // STEP_S
    return [count / STEP_S for count in list(run["series"]["broadcasts"])[:whole]]


def _series(run: Run, name: str, length: int) -> list[float]:
    values = list(run["series"][name])[:length]
    return values + [0.0] * (length - len(values))


@ranged(-1, 1)
def follows(run: Run) -> float:
    """The correlation of the clock's size and the load, over time."""
    load = load_in(run)
    return statistics.correlation(load, _series(run, "entries", len(load)))


@ranged(0, 1)
def small(run: Run) -> float:
    """The share of the time in which the clock is smaller than on average."""
    sizes = _series(run, "entries", len(load_in(run)))
    mean = statistics.fmean(sizes)
    return statistics.fmean(size < mean for size in sizes)


@ranged(0, 1)
def errors_at_peaks(run: Run, loaded: Run) -> float:
    """The share of errors while the load, that of the other run, is above its middle.

    The two runs meet the same broadcasts. Errors of which there are none are nowhere.
    """
    load = load_in(loaded)
    counts = _series(run, "violations", len(load))
    return _at_peaks(counts, load)


@ranged(-1, 1)
def errors_beyond_load(run: Run, loaded: Run) -> float:
    """By what the share of errors at the peaks exceeds that of broadcasts."""
    load = load_in(loaded)
    return errors_at_peaks(run, loaded) - _at_peaks(load, load)


def _middle(load: Sequence[float]) -> float:
    return (min(load) + max(load)) / 2


def _at_peaks(counts: Sequence[float], load: Sequence[float]) -> float:
    middle = _middle(load)
    near = sum(count for count, now in zip(counts, load, strict=True) if now > middle)
    return near / max(sum(counts), 1)


def phases(shift: Shift) -> dict[str, Reader]:
    """Readers of errors per second for Figure 10, before the shift and between looks."""
    first_s, second_s = shift.first_s, shift.second_s
    return {
        f"before {SHIFT_S} s": per_second("violations", 0, SHIFT_S),
        f"from {SHIFT_S} to {first_s} s": per_second("violations", SHIFT_S, first_s),
        f"from {first_s} to {second_s} s": per_second("violations", first_s, second_s),
        f"after {second_s} s": per_second("violations", second_s, SHIFT_END_S),
    }


def round_packets(kind: str) -> Reader:
    """A reader of the packets of a round of a kind, for each other process."""

    def read(run: Run) -> float:
        extra = run["extra"]
        return float(extra[f"{kind}_packets"]) / extra[f"{kind}_rounds"] / (run["nodes"] - 1)

    return read


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
