"""Readers of the runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from precedes_papers.measured import Pair, Reader, Results, Run, ranged, select, value
from precedes_papers.p004.experiments import RADIOS, TCPS


def extra(name: str, factor: float = 1.0) -> Reader:
    """Reads a counter of the radio."""
    return value("extra", name, factor=factor, low=0)


delay_s: Final = extra("delay_ms", 0.001)


def on_radio(results: Results, experiment: str, radio: str, **wanted: object) -> list[Run]:
    """The runs of an experiment on one radio; flooding in the first reading of its TCP."""
    if wanted.get("protocol") == "flooding":
        wanted = {**next(iter(TCPS.values())), **wanted}
    access = {"mac": RADIOS[radio]["mac"], "mac_retries": RADIOS[radio].get("mac_retries", 0)}
    return select(results[experiment], **access, **wanted)


def times(read: Reader) -> Pair:
    """Ratio of a run's value to another run's."""
    return ranged(0)(lambda run, other: read(run) / read(other))


@ranged(0)
def bytes_per_datagram(run: Run) -> float:
    """The mean size on the air."""
    return float(run["extra"]["bytes_per_s"] / run["extra"]["sent_per_s"])


def at_second(name: str, second: int) -> Reader:
    """Reads a series, at the end of a second counted from 1."""
    return ranged(0)(lambda run: float(run["series"][name][second - 1]))


def per_delivery_until(second: int) -> Reader:
    """Datagrams sent by deliveries, from the start to a second."""

    @ranged(0)
    def read(run: Run) -> float:
        series = run["series"]
        return sum(series["sent"][:second]) / max(sum(series["deliveries"][:second]), 1)

    return read


def growth(name: str, factor: float = 1.0) -> Reader:
    """From the second quarter of a run to its last: how much more a series has then, on average."""

    def read(run: Run) -> float:
        length_s = int(run["scenario"]["duration_s"])
        values = run["series"][name][:length_s]
        quarter = len(values) // 4
        before, after = values[quarter : 2 * quarter], values[-quarter:]
        return factor * (statistics.fmean(after) - statistics.fmean(before))

    return read


delay_growth_s: Final = growth("delay_ms", 0.001)


@ranged(0)
def variation(run: Run) -> float:
    """Deviation divided by the mean of the messages stored at a station over time."""
    begin_s = int(run["scenario"]["parameters"]["warm_up_s"])
    values = run["series"]["stored"][begin_s : int(run["scenario"]["duration_s"])]
    return statistics.pstdev(values) / statistics.fmean(values)


@ranged(0)
def median_s(run: Run) -> float:
    """Half of the deliveries are faster."""
    return float(run["latency"]["p50"]) / 1000


@ranged(0)
def dozens(run: Run) -> float:
    """Messages stored at a station."""
    return float(run["extra"]["stored_mean"]) / 12


def beyond_the_buffer(run: Run) -> float:
    """Length of the longest list of a handoff less that of the fullest buffer."""
    return float(run["extra"]["undelivered_max"] - run["extra"]["stored_max"])


def most_discarded(runs: Sequence[Run]) -> float:
    """Messages of a handoff that the new station had discarded: the most of any handoff."""
    return max(float(run["extra"]["discarded_max"]) for run in runs)


def discarded(runs: Sequence[Run]) -> float:
    """The same, of a handoff on average."""
    handoffs = sum(run["extra"]["handoffs"] for run in runs)
    return float(sum(run["extra"]["discarded"] for run in runs) / max(handoffs, 1))


def one_id_or_none(run: Run) -> float:
    """The share of copies that at most one host of the cell had from elsewhere."""
    counts = run["extra"]
    return 1 - float(counts["copies_skipped_by_more"]) / max(counts["copies"], 1)


def above_others(run: Run) -> float:
    """Excess stored at the station of the faults over another one, while hosts were down."""
    series, stations = run["series"], run["scenario"]["parameters"]["stations"]
    excesses = []
    for number in range(3):
        begin_s, end_s = _span(run, number)
        for second in range(begin_s, end_s):
            mean, own = series["stored"][second], series["stored_at_fault"][second]
            excesses.append(own - (mean * stations - own) / (stations - 1))
    return statistics.fmean(excesses)


def peak(run: Run, number: int) -> float:
    """The most that the station stored during a fault and five seconds after."""
    begin_s, end_s = _span(run, number)
    return max(_stored(run, second) for second in range(begin_s, end_s + 6))


def recovery_s(run: Run, number: int) -> float:
    """Until the station stores no more than a quarter above what it did before the fault."""
    begin_s, end_s = _span(run, number)
    before = sum(_stored(run, second) for second in range(begin_s - 5, begin_s)) / 5
    last_s = min(int(run["scenario"]["duration_s"]), begin_s + 30)
    for second in range(end_s, last_s):
        if _stored(run, second) <= 1.25 * before + 1:
            return float(second - end_s)
    return float(last_s - end_s)


def left_behind(fault_s: int, next_s: int) -> Reader:
    """Reads by how much more its station stores before the next fault than before this one."""
    return lambda run: (
        _mean(run, "stored_at_fault", next_s - 5, next_s)
        - _mean(run, "stored_at_fault", fault_s - 5, fault_s)
    )


def more_elsewhere(begin_s: int, end_s: int) -> Reader:
    """Reads by how much more another station stores in a span of time than in the 15 s before."""
    return lambda run: (
        _mean(run, "stored_elsewhere", begin_s, end_s)
        - _mean(run, "stored_elsewhere", begin_s - 15, begin_s)
    )


def _mean(run: Run, name: str, begin_s: int, end_s: int) -> float:
    return statistics.fmean(run["series"][name][begin_s:end_s])


@ranged(0)
def outstanding(run: Run) -> float:
    """Messages stored at the station at the end of the first fault."""
    _, end_s = _span(run, 0)
    return _stored(run, end_s)


def grown_since(run: Run) -> float:
    """Increase of stored messages by the end of the load."""
    return _stored(run, int(run["scenario"]["duration_s"])) - outstanding(run)


def _stored(run: Run, second: int) -> float:
    return float(run["series"]["stored_at_fault"][second - 1])


def _span(run: Run, number: int) -> tuple[int, int]:
    parameters = run["scenario"]["parameters"]
    begin_s = parameters["fault_start_s"] + number * parameters["fault_every_s"]
    length_s = parameters["fault_length_s"] + number * parameters["fault_longer_s"]
    return round(begin_s), round(begin_s + length_s)
