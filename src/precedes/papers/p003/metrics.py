"""What is read from the runs, and what the formula of precedes size expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.papers.p003.experiments import BROADCASTS, ENTRIES, LOADS, PER_PROCESS, SIZED
from precedes.parts.sizing import error_rate

# The paper counts "messages": deliveries out of order, or distinct messages with one.
COUNTED: Final = ("deliveries", "messages")


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


def error_settings() -> list[tuple[str, int, list[tuple[float, int]]]]:
    """Experiment, nodes and (load, entries) of all measurements of the error rate."""
    return [
        ("load", 200, [(rate, entries) for rate in LOADS for entries in ENTRIES]),
        ("sized", 2_000, list(SIZED)),
    ]


def error_share(results: Results, name: str, rate: float, entries: int) -> Measured:
    """The share of deliveries out of causal order at a point of an experiment."""

    def read(run: Run) -> float:
        return float(run["violations"]["deliveries"]) / run["deliveries"]

    return measure(read, select(results[name], rate=rate, entries=entries))


def expected_errors(rate: float, entries: int, nodes: int) -> float:
    """The share that the formula gives."""
    return error_rate(rate=rate, entries=entries, per_process=PER_PROCESS, nodes=nodes)
