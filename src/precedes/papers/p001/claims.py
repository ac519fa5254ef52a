"""Paper 001: best-effort broadcast on VCube trees, with messages bundled where trees overlap.

Tables 2 to 5 cell by cell, Figures 3 and 4, and what tests that share the port of the broadcasts
bring about. One unit of the paper's time is a millisecond here. What its simulator leaves open is
named in ``NETWORK``, ``REACTION_MS`` and ``CRASH_SPAN_S``.
"""

from __future__ import annotations

import math
import random
from typing import Any, Final

from precedes.papers.claims import About, Claim, equal, finding, irreproducible, within
from precedes.papers.measured import Measured, Results, Run, measure, select
from precedes.papers.p001.published import CASES, PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    published_series,
)
from precedes.sim import Fault, Scenario
from precedes.sim.experiment import Experiment

PAPER: Final = "001"
TITLE: Final = "Bundling messages to reduce the cost of tree-based broadcast algorithms"

# Table 1, as parameters of the protocol.
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "NO-AGGR": {"payload_max_bytes": 1, "tree_bytes": 1, "ack_bytes": 1, "delay_max_ms": 0.0},
    "SMALL2": {"payload_max_bytes": 1460, "tree_bytes": 24, "ack_bytes": 20, "delay_max_ms": 2.0},
    "BIG2": {"payload_max_bytes": 1460, "tree_bytes": 500, "ack_bytes": 20, "delay_max_ms": 2.0},
    "SMALL10": {"payload_max_bytes": 1460, "tree_bytes": 24, "ack_bytes": 20, "delay_max_ms": 10.0},
    "BIG10": {"payload_max_bytes": 1460, "tree_bytes": 500, "ack_bytes": 20, "delay_max_ms": 10.0},
}
# t_s = 0.1 in a FIFO port for each packet, t_t = 0.8 on the link, and after t_r = 0.1 at the
# receiver 0.1 more until it reacts, which is not in the paper but in its figures: a hop is 1.1.
NETWORK: Final[dict[str, Any]] = {
    "transmission_ms": 0.1,
    "delay": "constant:0.8",
    "processing_ms": 0.2,
}
REACTION_MS: Final = 0.1  # a source that is done reacts no more: its last 0.1 does not count
TICK_MS: Final = 0.1
# The tests of section 6.1, on a port of their own.
TESTS: Final[dict[str, Any]] = {"tests": True, "interval_ms": 30.0, "timeout_ms": 4.0}
CRASH_SPAN_S: Final = 0.010  # Table 5: crashes at uniform times; the paper does not say when
HEADER_BYTES: Final = 40
MEBIBYTE: Final = 1 << 20

SIZES: Final = (8, 16, 32, 64, 128, 256, 512, 1024)
TREES: Final = (1, 2, 4, 8, 16)
PROFILED: Final = ("SMALL2", "BIG2")
PROFILE: Final[dict[str, Any]] = {"profile_node": 0, "profile_ms": 2.0, "profile_slices": 50}
OVERLOADED: Final = (64, 256)

TIES: Final = "the order of what happens at one time is not given"
FY_REASON: Final = (
    "the paper gives neither the order of a round of tests nor of simultaneous events"
)
TREES_REASON: Final = (
    "with 16 trees this is the experiment of Table 3, which prints 8.7; four hops out and back "
    "alone take 8.7, so no number of trees can be faster"
)
CRASH_REASON: Final = "the paper does not say when the processes crash: here within 10 units"


def scenario(case: str, nodes: int, **parameters: Any) -> Scenario:
    """Every process broadcasts once at the start (section 6.1)."""
    return Scenario(
        protocol="bundled",
        nodes=nodes,
        workload="window:0",
        oracle=False,
        parameters={**SETTINGS[case], **parameters},
        **NETWORK,
    )


def crashing(case: str, nodes: int, seed: int) -> Scenario:
    """Table 5: log2(n) - 1 processes crash at random times."""
    rng = random.Random(f"paper 001, table 5, {nodes} {seed}")
    chosen = rng.sample(range(nodes), nodes.bit_length() - 2)
    faults = [Fault("crash", node=node, at_s=rng.uniform(0, CRASH_SPAN_S)) for node in chosen]
    base = scenario(case, nodes, rounds=12, **TESTS)
    return base.replace(faults=tuple(faults), seed=seed)


def experiments(scale: str) -> list[Experiment]:
    """The crashes of Table 5 are drawn ten times at the full scale, else thrice."""
    seeds = range(1, 11 if scale == "full" else 4)
    cells = [(case, nodes) for nodes in SIZES for case in CASES]
    return [
        Experiment(
            "trees",
            tuple(
                scenario(case, 16).replace(workload=f"burst:{trees}:{16 // trees}")
                for trees in TREES
                for case in CASES
            ),
        ),
        Experiment("fault-free", tuple(scenario(case, nodes) for case, nodes in cells)),
        Experiment(
            "one-crash",
            tuple(
                scenario(case, nodes, rounds=2, **TESTS).replace(faults=(Fault("crash", node=1),))
                for case, nodes in cells
            ),
        ),
        Experiment(
            "crashes",
            tuple(crashing(case, nodes, seed) for case, nodes in cells for seed in seeds),
        ),
        Experiment("profile", tuple(scenario(case, SIZES[-1], **PROFILE) for case in PROFILED)),
        Experiment(
            "port",
            tuple(
                scenario("NO-AGGR", nodes, rounds=2, own_channel=own_channel, **TESTS)
                for nodes in OVERLOADED
                for own_channel in (True, False)
            ),
        ),
    ]


def latency_ms(run: Run) -> float:
    """Until the last ACK is back at the last source, in whole ticks as the paper's clock."""
    ticks = math.floor(run["extra"]["last_completion_ms"] / TICK_MS + 1e-4)
    return ticks * TICK_MS - REACTION_MS


def messages(run: Run) -> float:
    """Packets of the broadcast, without those of the tests."""
    return float(run["extra"]["bundles"])


def _cell(results: Results, name: str, read: Any, case: str, **wanted: Any) -> Measured:
    return measure(read, select(results[name], **SETTINGS[case], **wanted))


# Tables by size: the name, the experiment, what is read, decimals in print, why it may differ.
BY_SIZE: Final = (
    ("Table 3, FF", "fault-free", latency_ms, 1, TIES),
    ("Table 3, FY", "one-crash", latency_ms, 1, FY_REASON),
    ("Table 4, FF", "fault-free", messages, 0, TIES),
    ("Table 4, FY", "one-crash", messages, 0, FY_REASON),
)
BY_TREES: Final = (("Table 2, latency", latency_ms, 1), ("Table 2, messages", messages, 0))


def claims(results: Results) -> list[Claim]:
    """Every cell of Tables 2 to 5, the headers, and findings about bundles and the port."""
    found = []
    for item, read, places in BY_TREES:
        for case in CASES:
            for trees in TREES:
                workload = f"burst:{trees}:{16 // trees}"
                measured = _cell(results, "trees", read, case, workload=workload)
                about = About(PAPER, item, f"{case}, {trees} trees")
                published = PUBLISHED[item][case][trees]
                if read is latency_ms and case == "NO-AGGR" and trees >= 4:
                    found.append(
                        irreproducible(
                            about, published=published, measured=measured, reason=TREES_REASON
                        )
                    )
                else:
                    found.append(
                        equal(
                            about,
                            published=published,
                            measured=measured,
                            places=places,
                            reason=TIES,
                        )
                    )
    for item, name, read, places, reason in BY_SIZE:
        for case in CASES:
            for nodes in SIZES:
                found.append(
                    equal(
                        About(PAPER, item, f"{case}, {nodes} processes"),
                        published=PUBLISHED[item][case][nodes],
                        measured=_cell(results, name, read, case, nodes=nodes),
                        places=places,
                        reason=reason,
                    )
                )
    return [*found, *_crash_claims(results), *_header_claims(results), *_findings(results)]


def _crash_claims(results: Results) -> list[Claim]:
    return [
        within(
            About(PAPER, "Table 5", f"{case}, {nodes} processes"),
            published=PUBLISHED["Table 5"][case][nodes],
            measured=_cell(results, "crashes", latency_ms, case, nodes=nodes),
            rounding=0.05,
            reason=CRASH_REASON,
        )
        for case in CASES
        for nodes in SIZES
    ]


def _header_mib(run: Run) -> float:
    return messages(run) * HEADER_BYTES / MEBIBYTE


def _header_claims(results: Results) -> list[Claim]:
    return [
        within(
            About(PAPER, "Section 6.3", f"MiB of headers, {case}, {SIZES[-1]} processes"),
            published=published,
            measured=_cell(results, "fault-free", _header_mib, case, nodes=SIZES[-1]),
            rounding=0.5,
        )
        for case, published in PUBLISHED["Headers"].items()
    ]


def _findings(results: Results) -> list[Claim]:
    found = []
    for case in PROFILED:
        run = select(results["profile"], **SETTINGS[case])
        about = About(PAPER, "Figure 4", f"items in a packet, {case}, {run[0]['nodes']} processes")
        found.append(finding(about, measured=measure(_items_per_packet, run)))
    for nodes in OVERLOADED:
        for own_channel, port in ((True, "a port of their own"), (False, "the broadcasts' port")):
            runs = select(results["port"], nodes=nodes, own_channel=own_channel)
            found.append(
                finding(
                    About(PAPER, "Tests", f"false suspicions, {nodes} processes, {port}"),
                    measured=measure(_suspicions, runs),
                    reason="nobody crashes; a process suspected wrongly is fenced, and what it "
                    "was to forward or to answer is left to others",
                )
            )
    return found


def _items_per_packet(run: Run) -> float:
    extra = run["extra"]
    return float((extra["trees"] + extra["acks"]) / extra["bundles"])


def _suspicions(run: Run) -> float:
    return float(run["extra"]["suspicions_by_test"])


def tables(results: Results) -> list[Table]:
    """Tables 2 to 5, each cell published beside measured."""
    note = "Time in the paper's units. Left of each pair what is printed, right what is measured."
    header = [text for case in CASES for text in (f"{case}, published", f"{case}, measured")]
    found = []
    for item, read, _ in BY_TREES:
        rows = []
        for trees in TREES:
            row: list[Cell] = [trees]
            for case in CASES:
                row.append(Printed(PUBLISHED[item][case][trees]))
                workload = f"burst:{trees}:{16 // trees}"
                row.append(_cell(results, "trees", read, case, workload=workload))
            rows.append(tuple(row))
        found.append(Table(name=item, header=("trees", *header), rows=tuple(rows), note=note))
    by_size = [*BY_SIZE, ("Table 5", "crashes", latency_ms, 1, "")]
    for item, name, read, _, _ in by_size:
        rows = []
        for nodes in SIZES:
            row = [nodes]
            for case in CASES:
                row.append(Printed(PUBLISHED[item][case][nodes]))
                row.append(_cell(results, name, read, case, nodes=nodes))
            rows.append(tuple(row))
        found.append(Table(name=item, header=("processes", *header), rows=tuple(rows), note=note))
    return found


def figures(results: Results) -> list[Figure]:
    """Figure 3 from the fault-free runs, and Figure 4 from those in which p0 is watched."""
    return [
        _figure_3(results, "Figure 3, latency", "Table 3, FF", latency_ms, "latency"),
        _figure_3(results, "Figure 3, messages", "Table 4, FF", messages, "messages per process"),
        _figure_4(results, "Figure 4, items", "items", "items in a packet"),
        _figure_4(results, "Figure 4, bytes", "bytes", "bytes of a packet"),
    ]


def _figure_3(results: Results, name: str, item: str, read: Any, label: str) -> Figure:
    def share(nodes: int) -> int:
        return 1 if read is latency_ms else nodes

    series: list[Series] = []
    for case in CASES:
        points = [
            (
                float(nodes),
                _cell(
                    results,
                    "fault-free",
                    lambda run: read(run) / share(run["nodes"]),
                    case,
                    nodes=nodes,
                ),
            )
            for nodes in SIZES
        ]
        series.append(measured_series(case, points))
    for case in CASES:
        printed = [(float(n), PUBLISHED[item][case][n] / share(n)) for n in SIZES]
        series.append(published_series(case, printed))
    return Figure(
        name=name,
        title=f"One broadcast by each process, fault-free: {label}",
        x_label="processes",
        y_label=label,
        series=tuple(series),
        alt=f"The {label} of the five scenarios over the number of processes, measured and "
        "published.",
        log_x=True,
        log_y=True,
    )


def _figure_4(results: Results, name: str, what: str, label: str) -> Figure:
    series: list[Series] = []
    for case in PROFILED:
        runs = select(results["profile"], **SETTINGS[case])
        points = []
        for place in range(PROFILE["profile_slices"]):
            if not all(run["extra"][f"profile_packets_{place}"] for run in runs):
                continue

            def read(run: Run, place: int = place) -> float:
                extra = run["extra"]
                return float(extra[f"profile_{what}_{place}"] / extra[f"profile_packets_{place}"])

            points.append((place * PROFILE["profile_ms"], measure(read, runs)))
        series.append(measured_series(case, points))
    nodes = results["profile"][0]["nodes"]
    return Figure(
        name=name,
        title=f"What p0 sends over time, {nodes} processes",
        x_label="time",
        y_label=label,
        series=tuple(series),
        alt=f"The mean {label} that process 0 sends, over time, for SMALL2 and BIG2.",
    )
