"""Paper 003: causal broadcast with probabilistic clocks and a hash error detector.

What ``probabilistic`` covers: Table 1 without a detector, and how the errors grow with the load.
"""

from __future__ import annotations

from typing import Any, Final

from precedes.papers.claims import About, Claim, finding, within
from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    model_series,
)
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, grid
from precedes.sizing import error_rate

PAPER: Final = "003"
TITLE: Final = "Causal broadcast with probabilistic clocks and a hash error detector"

# Table 1: 200 processes, a clock of 50 entries, 100 broadcasts per second, 100,000 of them:
# messages delivered out of causal order, by error detector.
PUBLISHED: Final[dict[str, Any]] = {
    "Table 1": {"none": 507, "Mostefaoui and Weiss": 502, "hash": 0},
}

# "Poisson with parameter delta" can mean gaps that are a Poisson number of milliseconds, which
# are nearly periodic, or a Poisson process, whose gaps are exponential. The paper counts
# "messages": deliveries out of order, or distinct messages with one.
READINGS: Final = ("periodic", "poisson")
COUNTED: Final = ("deliveries", "messages")
REASON: Final = (
    "the paper gives neither the entries per process nor the way of counting; with larger clocks "
    "its value is passed (docs/protocols/probabilistic.md), so this number is no claim to hold"
)

# Points of a figure that is not in the paper: errors over the load for clocks of three sizes.
LOADS: Final = (30.0, 60.0, 100.0, 140.0, 200.0)
ENTRIES: Final = (25, 50, 100)
# (broadcasts per second, entries) that the formula of precedes.sizing is checked at.
SIZED: Final = ((25.0, 20), (50.0, 40), (100.0, 60), (100.0, 120), (200.0, 160))
PER_PROCESS: Final = 2


def table_1(reading: str, seed: int) -> Scenario:
    """One run of Table 1 without a detector."""
    return Scenario(
        protocol="probabilistic",
        nodes=200,
        messages=100_000,
        rate=100.0,
        workload=reading,
        delay="normal:100:20",
        seed=seed,
        parameters={"entries": 50, "per_process": PER_PROCESS},
    )


def experiments(scale: str) -> list[Experiment]:
    """Table 1 for both readings; errors over load in a group of 200; sized clocks in one of 2,000.

    A run at the full scale is as long as one of the paper's.
    """
    full = scale == "full"
    seeds = range(1, 11 if full else 4)
    base = table_1("poisson", 1)
    load = base.replace(messages=100_000 if full else 5_000)
    large = base.replace(nodes=2_000, messages=10_000 if full else 1_000)
    sized = [
        scenario
        for rate, entries in SIZED
        for scenario in grid(large, vary={"rate": [rate], "entries": [entries]}, seeds=seeds)
    ]
    return [
        Experiment("table-1", grid(base, vary={"workload": READINGS}, seeds=seeds)),
        Experiment("load", grid(load, vary={"rate": LOADS, "entries": ENTRIES}, seeds=seeds)),
        Experiment("sized", tuple(sized)),
    ]


def claims(results: Results) -> list[Claim]:
    """Table 1 for both readings and both ways of counting, and findings about the load."""
    found = [
        within(
            About(PAPER, "Table 1", f"out of order without detector, {reading} senders, {counted}"),
            published=PUBLISHED["Table 1"]["none"],
            measured=_out_of_order(results, reading, counted),
            reason=REASON,
        )
        for reading in READINGS
        for counted in COUNTED
    ]
    for name, nodes, points in _settings():
        for rate, entries in points:
            expected = _expected(rate, entries, nodes)
            measured = _error_share(results, name, rate, entries)
            ratio = measured.mean / expected
            found.append(
                finding(
                    About(
                        PAPER,
                        "Errors over load",
                        f"share of deliveries out of order, {nodes} nodes, {entries} entries, "
                        f"{rate:g} broadcasts/s",
                    ),
                    measured=measured,
                    reason=f"the formula of precedes.sizing gives {expected:.3g}; "
                    f"measured is {ratio:.2f} times that",
                )
            )
    return found


def tables(results: Results) -> list[Table]:
    """Table 1 with each reading in a column of its own, and the measured rates by the formula."""
    first: list[tuple[Cell, ...]] = []
    for detector, value in PUBLISHED["Table 1"].items():
        here = [
            _out_of_order(results, reading, counted) if detector == "none" else None
            for reading in READINGS
            for counted in COUNTED
        ]
        first.append((detector, Printed(value), *here))
    header = [f"{reading} senders, {counted}" for reading in READINGS for counted in COUNTED]
    rates: list[tuple[Cell, ...]] = [
        (
            nodes,
            entries,
            rate,
            _error_share(results, name, rate, entries),
            _expected(rate, entries, nodes),
        )
        for name, nodes, points in _settings()
        for rate, entries in points
    ]
    return [
        Table(
            name="Table 1",
            header=("error detector", "published", *header),
            rows=tuple(first),
            note="Messages delivered out of causal order, of 100,000 broadcasts among 200 "
            "processes with 50 entries. The detectors are not part of these runs.",
        ),
        Table(
            name="Errors over load",
            header=("nodes", "entries", "broadcasts/s", "measured", "formula"),
            rows=tuple(rates),
            note="The share of deliveries out of causal order, and what the formula of "
            "precedes.sizing expects. Errors come in clusters, so few seeds leave wide intervals.",
        ),
    ]


def figures(results: Results) -> list[Figure]:
    """Errors over load, measured and by the formula."""
    series: list[Series] = []
    for entries in ENTRIES:
        points = [(rate, _error_share(results, "load", rate, entries)) for rate in LOADS]
        series.append(measured_series(f"{entries} entries", points))
    for entries in ENTRIES:
        formula = [(rate, _expected(rate, entries, 200)) for rate in LOADS]
        series.append(model_series(f"{entries} entries, formula", formula))
    return [
        Figure(
            name="Errors over load, 200 nodes",
            title="Deliveries out of causal order, 200 nodes",
            x_label="broadcasts per second, whole group",
            y_label="share of deliveries",
            series=tuple(series),
            alt="The share of deliveries out of causal order over the load, for clocks of 25, 50 "
            "and 100 entries, beside the formula's.",
            log_y=True,
        )
    ]


def _settings() -> list[tuple[str, int, list[tuple[float, int]]]]:
    """Experiment, nodes and (load, entries) of all measurements of the error rate."""
    return [
        ("load", 200, [(rate, entries) for rate in LOADS for entries in ENTRIES]),
        ("sized", 2_000, list(SIZED)),
    ]


def _out_of_order(results: Results, reading: str, counted: str) -> Measured:
    def read(run: Run) -> float:
        return run["violations"][counted]

    return measure(read, select(results["table-1"], workload=reading))


def _error_share(results: Results, name: str, rate: float, entries: int) -> Measured:
    def read(run: Run) -> float:
        return run["violations"]["deliveries"] / run["deliveries"]

    return measure(read, select(results[name], rate=rate, entries=entries))


def _expected(rate: float, entries: int, nodes: int) -> float:
    return error_rate(rate=rate, entries=entries, per_process=PER_PROCESS, nodes=nodes)
