"""Paper 002: a probabilistic Dynamic Clock Set to capture message causality.

The size of a clock over the load (Fig. 5), clocks that follow a bell and a random load beside fixed
ones of the same mean size (Figs 6 to 9), and rebalancing of components (Fig. 10); beside them what
rounds cost, and the bytes of messages with the hash detector on top.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from precedes.papers.claims import (
    About,
    Claim,
    at_most,
    equal,
    finding,
    same_order,
    same_sign,
    within,
)
from precedes.papers.measured import Results, Run, measure, pooled, select
from precedes.papers.p002 import experiments as readings
from precedes.papers.p002.experiments import (
    BYTE_LOADS,
    LOADS,
    LOADS_OVER_TIME,
    ROUND_NODES,
    TARGETS,
)
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    published_series,
)
from precedes.sim.experiment import Experiment

PAPER: Final = "002"
TITLE: Final = "A probabilistic Dynamic Clock Set to capture message causality"

# Section V: messages out of causal order with the Dynamic Clock Set and with a probabilistic clock
# of the same mean size, in groups of 1,000. Figures 5 and 10 are plots; the text says that clocks
# grow with the load, faster than linearly, and with the accuracy; that errors rise after 50 s and
# fall when components are rebalanced. A round takes three messages to or from each process.
PUBLISHED: Final[dict[str, Any]] = {
    "Figure 5": {
        "probability": [1e-4, 5e-5, 1e-5, 5e-6, 1e-6],
        "entries as the load doubles, more than": 2.0,
    },
    "bell": {"dcs": 58, "fixed": 231, "entries": 260},
    "random": {"dcs": 45, "fixed": 305, "entries": 97},
    "Figure 10": {"change after 50 s": 1, "change after rebalancing": -1},
    "Rounds": {"messages for a process": 3},
}
FIGURES: Final = {"bell": "Figures 6 and 7", "random": "Figures 8 and 9"}

COUNTS: Final = ("deliveries", "messages")
COUNT_REASON: Final = (
    "the paper gives neither the target of its clocks, nor the shape and length of the load, nor "
    "what it counts: a message may be out of order at many receivers"
)
FEW_REASON: Final = "errors come in clusters: few seeds give wide intervals"


def experiments(scale: str) -> list[Experiment]:
    """The paper's experiments and those beside them."""
    full = scale == "full"
    seeds = range(1, 11 if full else 3)
    found = [readings.sized_experiment(scale, seeds)]
    for name in LOADS_OVER_TIME:
        over = readings.SEEDS_OVER_TIME[scale]
        runs = tuple(readings.over_time(name, scale, seed) for seed in over)
        found.append(Experiment(name, runs))
        runs = tuple(readings.fixed(name, scale, seed) for seed in over)
        found.append(Experiment(f"{name}-fixed", runs))
    for name, balanced in (("balanced", True), ("unbalanced", False)):
        shifted = readings.SHIFT_SEEDS[scale]
        runs = tuple(readings.shifted(seed, balanced=balanced) for seed in shifted)
        found.append(Experiment(name, runs))
    return [*found, readings.round_experiment(), readings.byte_experiment(scale)]


def claims(results: Results) -> list[Claim]:
    """What is printed beside what is measured, and findings."""
    return [
        *_figure_5_claims(results),
        *(claim for name in LOADS_OVER_TIME for claim in _load_claims(results, name)),
        *_figure_10_claims(results),
        *_round_claims(results),
        *_byte_findings(results),
    ]


def _figure_5_claims(results: Results) -> list[Claim]:
    runs = results["figure-5"]
    found = []
    for target, published in zip(TARGETS, PUBLISHED["Figure 5"]["probability"], strict=True):
        for load in LOADS:
            key = f"share out of order, clock for {target:g} at {load:g}/s"
            found.append(
                at_most(
                    About(PAPER, "Figure 5", key),
                    published=published,
                    measured=measure(readings.share, select(runs, error=target, rate=load)),
                    reason=FEW_REASON,
                )
            )
        for low, high in pairwise(LOADS):
            found.append(
                same_sign(
                    About(PAPER, "Figure 5", f"growth beyond linear to {high:g}/s at {target:g}"),
                    published=PUBLISHED["Figure 5"]["entries as the load doubles, more than"],
                    measured=measure(
                        readings.growth_beyond_linear,
                        select(runs, error=target, rate=low),
                        select(runs, error=target, rate=high),
                    ),
                    reason="more than linear, no number is printed",
                )
            )
    for load in LOADS:
        sizes = [
            measure(readings.entries, select(runs, error=target, rate=load)) for target in TARGETS
        ]
        found.append(
            same_order(
                About(PAPER, "Figure 5", f"entries by accuracy at {load:g}/s"),
                published=[-target for target in PUBLISHED["Figure 5"]["probability"]],
                measured=sizes,
                reason="a plot: only the order is published",
            )
        )
    return found


def _load_claims(results: Results, name: str) -> list[Claim]:
    printed = PUBLISHED[name]
    ours, fixed = results[name], results[f"{name}-fixed"]
    item = FIGURES[name]
    return [
        within(
            About(PAPER, item, f"entries, mean over time, {name} load"),
            published=printed["entries"],
            measured=measure(readings.entries, ours),
            rounding=0.5,
            reason="the target error was chosen for a clock of about this size",
        ),
        *(
            within(
                About(PAPER, item, f"{count} out of order, {label}, {name} load"),
                published=printed[label],
                measured=measure(functools.partial(_count, count=count), runs),
                reason=COUNT_REASON,
            )
            for label, runs in (("dcs", ours), ("fixed", fixed))
            for count in COUNTS
        ),
        same_sign(
            About(PAPER, item, f"errors of the fixed clock less those of dcs, {name} load"),
            published=printed["fixed"] - printed["dcs"],
            measured=pooled(
                lambda few, many: readings.errors(many) - readings.errors(few), ours, fixed
            ),
            reason="sums over seeds",
        ),
        *(
            finding(
                About(PAPER, item, f"times fewer {count} out of order than fixed, {name} load"),
                measured=pooled(readings.times_fewer(count), ours, fixed),
                reason=f"{printed['fixed'] / printed['dcs']:.1f} in the paper; sums over seeds",
            )
            for count in COUNTS
        ),
    ]


def _count(run: Run, *, count: str) -> float:
    return float(run["violations"][count])


def _figure_10_claims(results: Results) -> list[Claim]:
    balanced, unbalanced = results["balanced"], results["unbalanced"]
    before, after = readings.before_shift, readings.after_rebalancing
    shifted = readings.sum_between(readings.SHIFT_S, readings.SHIFT_S + 10)
    printed = PUBLISHED["Figure 10"]
    return [
        same_sign(
            About(PAPER, "Figure 10", "change of errors after 50 s"),
            published=printed["change after 50 s"],
            measured=pooled(lambda runs: shifted(runs) - before(runs), balanced),
            reason="a plot: only the direction is published",
        ),
        same_sign(
            About(PAPER, "Figure 10", "change of errors after rebalancing"),
            published=printed["change after rebalancing"],
            measured=pooled(lambda runs: after(runs) - shifted(runs), balanced),
            reason="a plot: only the direction is published",
        ),
        finding(
            About(PAPER, "Figure 10", "errors per second before 50 s"),
            measured=pooled(before, balanced),
        ),
        finding(
            About(PAPER, "Figure 10", "errors per second after 90 s"),
            measured=pooled(after, balanced),
        ),
        finding(
            About(PAPER, "Figure 10", "errors per second after 90 s, without rebalancing"),
            measured=pooled(after, unbalanced),
        ),
    ]


def _round_claims(results: Results) -> list[Claim]:
    found = []
    for nodes in ROUND_NODES:
        runs = select(results["rounds"], nodes=nodes)

        def packets(run: Run) -> float:
            return float(run["extra"]["rounds_packets"]) / run["extra"]["rounds"]

        found += [
            equal(
                About(PAPER, "Rounds", f"messages of a round for each other of {nodes} processes"),
                published=PUBLISHED["Rounds"]["messages for a process"],
                measured=measure(lambda run: packets(run) / (run["nodes"] - 1), runs),
                reason="O(N) messages a round",
            ),
            finding(
                About(PAPER, "Rounds", f"rounds while a load came and went, {nodes} processes"),
                measured=measure(lambda run: run["extra"]["rounds"], runs),
            ),
        ]
    return found


def _byte_findings(results: Results) -> list[Claim]:
    return [
        finding(
            About(PAPER, "Bytes", f"{label}, {nodes} processes, {load:g}/s"),
            measured=measure(readings.header_bytes, runs),
            reason=f"{sum(run['violations']['deliveries'] for run in runs)} out of order",
        )
        for nodes, load, label, runs in _byte_runs(results)
    ]


def _byte_runs(results: Results) -> list[tuple[int, float, str, list[Run]]]:
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


def tables(results: Results) -> list[Table]:
    """Errors beside the published ones, sizes and measured errors, bytes of messages."""
    sized: list[tuple[Cell, ...]] = []
    for target in TARGETS:
        for load in LOADS:
            runs = select(results["figure-5"], error=target, rate=load)
            sized.append(
                (target, load, measure(readings.entries, runs), measure(readings.share, runs))
            )
    loads: list[tuple[Cell, ...]] = []
    for name in LOADS_OVER_TIME:
        for label, over in (("dcs", results[name]), ("fixed", results[f"{name}-fixed"])):
            mean = measure(readings.entries, over) if label == "dcs" else None
            wrong = [measure(functools.partial(_count, count=count), over) for count in COUNTS]
            loads.append((name, label, Printed(PUBLISHED[name][label]), *wrong, mean))
    group = results["bell"][0]["nodes"]
    return [
        Table(
            name="Figure 5, measured",
            header=("target", "broadcasts/s", "entries", "share out of order"),
            rows=tuple(sized),
            note="2,000 processes; clocks that begin with the size that the load asks for.",
        ),
        Table(
            name="Loads over time",
            header=("load", "clock", "published", "deliveries", "messages", "entries"),
            rows=tuple(loads),
            note=f"What was out of order in a run of {group:,} processes. The fixed clocks "
            "have 260 and 97 entries.",
        ),
        Table(
            name="Bytes of a message",
            header=("processes", "broadcasts/s", "clock", "bytes added"),
            rows=tuple(
                (nodes, load, label, measure(readings.header_bytes, runs))
                for nodes, load, label, runs in _byte_runs(results)
            ),
            note="Packets of rounds and requests included. Of the three, the fixed clock errs.",
        ),
    ]


def figures(results: Results) -> list[Figure]:
    """Sizes and measured errors over the load, clocks and errors over time."""
    found = _figure_5(results)
    for name, figure in (("bell", "Figure 7"), ("random", "Figure 9")):
        found.append(_over_time(results, figure, name, (name,), "entries", "entries of a clock"))
    for name in LOADS_OVER_TIME:
        both = (name, f"{name}-fixed")
        found.append(_over_time(results, f"Errors, {name} load", name, both, "violations", ERRORS))
    names = ("balanced", "unbalanced")
    found.append(_over_time(results, "Figure 10", "shifted", names, "violations", ERRORS))
    return found


def _figure_5(results: Results) -> list[Figure]:
    runs = results["figure-5"]

    def over_loads(read: Callable[[Run], float]) -> list[Series]:
        return [
            measured_series(
                f"{target:g}",
                [(load, measure(read, select(runs, error=target, rate=load))) for load in LOADS],
            )
            for target in TARGETS
        ]

    asked = [published_series(f"{target:g}", [(x, target) for x in LOADS]) for target in TARGETS]
    return [
        Figure(
            name="Figure 5",
            title="Entries of a clock by load and share of errors, 2,000 nodes",
            x_label="broadcasts per second, whole group",
            y_label="entries",
            series=tuple(over_loads(readings.entries)),
            alt="Entries of the clock over the load for five shares of errors: more with the load, "
            "faster than linearly, and more for fewer errors.",
            log_y=True,
        ),
        Figure(
            name="Figure 5, errors",
            title="Share of deliveries out of order with these clocks, and the share aimed at",
            x_label="broadcasts per second, whole group",
            y_label="share out of order",
            series=(*over_loads(readings.share), *asked),
            alt="Measured shares of deliveries out of causal order over the load for five targets, "
            "beside the targets. Where no delivery was out of order there is no point.",
            log_y=True,
        ),
    ]


ERRORS: Final = "deliveries out of order, in 10 s"


def _over_time(
    results: Results, figure: str, load: str, names: tuple[str, ...], series: str, label: str
) -> Figure:
    lines = []
    for name in names:
        end_s = int(results[name][0]["scenario"]["duration_s"]) // 10 * 10
        points = [
            (
                start_s + 5.0,
                measure(readings.over_intervals(series, start_s, start_s + 10), results[name]),
            )
            for start_s in range(0, end_s, 10)
        ]
        lines.append(measured_series(name, points))
    return Figure(
        name=figure,
        title=f"{label[0].upper()}{label[1:]}, {load} load",
        x_label="seconds",
        y_label=label,
        series=tuple(lines),
        alt=f"{label} over time under the {load} load, for {' and '.join(names)}.",
    )
