"""What paper 003 measures: the points of its experiments, and how results are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from precedes.papers.claims import About, Claim, finding
from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.papers.shown import Cell, Figure, Series, Table, measured_series, model_series
from precedes.sizing import error_rate

# "Poisson with parameter delta" can mean gaps that are a Poisson number of milliseconds, which
# are nearly periodic, or a Poisson process, whose gaps are exponential. The paper counts
# "messages": deliveries out of order, or distinct messages with one.
READINGS: Final = ("periodic", "poisson")
COUNTED: Final = ("deliveries", "messages")
BROADCASTS: Final = 100_000  # of Table 1: counts of shorter runs are scaled to it
PER_PROCESS: Final = 2

# Points of a figure that is not in the paper: errors over the load for clocks of three sizes.
LOADS: Final = (30.0, 60.0, 100.0, 140.0, 200.0)
ENTRIES: Final = (25, 50, 100)
# (broadcasts per second, entries) that the formula of precedes.sizing is checked at.
SIZED: Final = ((25.0, 20), (50.0, 40), (100.0, 60), (100.0, 120), (200.0, 160))

# Figure 1.
REQUEST_LOADS: Final = (30.0, 60.0, 90.0, 110.0, 140.0)
REQUEST_ENTRIES: Final = (20, 25, 50)

# Where the printed protocol tips over; not in the paper.
RISING_LOADS: Final = (45.0, 60.0, 75.0, 90.0, 110.0)
RISING_ENTRIES: Final = 25


def out_of_order(results: Results, reading: str, counted: str, detector: str) -> Measured:
    """Table 1: what is out of order and not tagged, for 100,000 broadcasts."""

    def read(run: Run) -> float:
        found = run["violations"][counted]
        if detector == "Mostefaoui and Weiss":
            missed = "untagged_violations" if counted == "deliveries" else "untagged_messages"
            found = run["extra"][missed]
        return float(found) * BROADCASTS / run["broadcasts"]

    name = "table-1-hash" if detector == "hash" else "table-1"
    return measure(read, select(results[name], workload=reading))


def caught(runs: Sequence[Run]) -> float:
    """The share of wrong deliveries that the detector tagged."""
    wrong = sum(run["violations"]["deliveries"] for run in runs)
    missed = sum(run["extra"]["untagged_violations"] for run in runs)
    return 1 - missed / wrong if wrong else 0.0


def tagged(run: Run) -> float:
    """The share of deliveries that the detector tagged."""
    return float(run["extra"]["tagged"]) / run["deliveries"]


def hashes(run: Run) -> float:
    """Hashes compared for a delivery."""
    return float(run["extra"]["hashes"]) / run["deliveries"]


def requests(run: Run) -> float:
    """Requests for a delivery."""
    return float(run["extra"]["requests"]) / run["deliveries"]


def false_requests(run: Run) -> float:
    """Requests for a delivery that lacked nothing."""
    return float(run["extra"]["requests_false"]) / run["deliveries"]


def requests_of_all(runs: Sequence[Run]) -> float:
    """Requests for a delivery, of several runs together."""
    return sum(run["extra"]["requests"] for run in runs) / sum(run["deliveries"] for run in runs)


def request_rate(results: Results, name: str, unit: float, **wanted: float) -> Measured:
    """Requests for ``unit`` deliveries at a point of an experiment."""
    return measure(lambda run: unit * requests(run), select(results[name], **wanted))


def nodes_run(results: Results) -> list[int]:
    """The groups of Table 2 that there are results for."""
    return sorted({run["nodes"] for run in results["table-2"]})


def error_findings(paper: str, results: Results) -> list[Claim]:
    """The share of wrong deliveries without a detector, and what the formula expects."""
    found = []
    for name, nodes, points in _settings():
        for rate, entries in points:
            expected = _expected(rate, entries, nodes)
            measured = _error_share(results, name, rate, entries)
            what = f"{nodes} nodes, {entries} entries, {rate:g} broadcasts/s"
            found.append(
                finding(
                    About(paper, "Errors over load", f"share of deliveries out of order, {what}"),
                    measured=measured,
                    reason=f"the formula of precedes.sizing gives {expected:.3g}; "
                    f"measured is {measured.mean / expected:.2f} times that",
                )
            )
    return found


def error_table(results: Results) -> Table:
    """Errors over load as a table."""
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
    return Table(
        name="Errors over load",
        header=("nodes", "entries", "broadcasts/s", "measured", "formula"),
        rows=tuple(rates),
        note="The share of deliveries out of causal order without a detector, and what the "
        "formula of precedes.sizing expects. Errors come in clusters, so few seeds leave wide "
        "intervals.",
    )


def figures(results: Results) -> list[Figure]:
    """Requests over load, the same for the printed protocol, and errors over load."""
    asked = [
        measured_series(
            f"{entries} entries",
            [
                (rate, request_rate(results, "figure-1", 1e4, rate=rate, entries=entries))
                for rate in REQUEST_LOADS
            ],
        )
        for entries in REQUEST_ENTRIES
    ]
    rising = [
        measured_series(
            label,
            [
                (rate, request_rate(results, f"rising-{name}", 1.0, rate=rate))
                for rate in RISING_LOADS
            ],
        )
        for name, label in (("printed", "as printed"), ("grace", "with grace and retries"))
    ]
    return [
        Figure(
            name="Figure 1",
            title="Requests for dependencies, 500 nodes",
            x_label="broadcasts per second, whole group",
            y_label="requests, 1e-4 of deliveries",
            series=tuple(asked),
            alt="Requests for dependencies over the load, for clocks of 20, 25 and 50 entries: "
            "more with the load, fewer with a larger clock.",
        ),
        Figure(
            name="Rising load, 100 nodes",
            title=f"Requests as the load rises, {RISING_ENTRIES} entries, 100 nodes",
            x_label="broadcasts per second, whole group",
            y_label="requests for a delivery",
            series=tuple(rising),
            alt="Requests for a delivery over the load: as printed they jump from a few in "
            "thousand to half of all deliveries, because messages that wait for an answer are "
            "concurrent to more others; with grace and retries they stay few.",
        ),
        _error_figure(results),
    ]


def _error_figure(results: Results) -> Figure:
    series: list[Series] = []
    for entries in ENTRIES:
        points = [(rate, _error_share(results, "load", rate, entries)) for rate in LOADS]
        series.append(measured_series(f"{entries} entries", points))
    for entries in ENTRIES:
        formula = [(rate, _expected(rate, entries, 200)) for rate in LOADS]
        series.append(model_series(f"{entries} entries, formula", formula))
    return Figure(
        name="Errors over load, 200 nodes",
        title="Deliveries out of causal order, 200 nodes",
        x_label="broadcasts per second, whole group",
        y_label="share of deliveries",
        series=tuple(series),
        alt="The share of deliveries out of causal order over the load, for clocks of 25, 50 "
        "and 100 entries, beside the formula's.",
        log_y=True,
    )


def _settings() -> list[tuple[str, int, list[tuple[float, int]]]]:
    """Experiment, nodes and (load, entries) of all measurements of the error rate."""
    return [
        ("load", 200, [(rate, entries) for rate in LOADS for entries in ENTRIES]),
        ("sized", 2_000, list(SIZED)),
    ]


def _error_share(results: Results, name: str, rate: float, entries: int) -> Measured:
    def read(run: Run) -> float:
        return float(run["violations"]["deliveries"]) / run["deliveries"]

    return measure(read, select(results[name], rate=rate, entries=entries))


def _expected(rate: float, entries: int, nodes: int) -> float:
    return error_rate(rate=rate, entries=entries, per_process=PER_PROCESS, nodes=nodes)
