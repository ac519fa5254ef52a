"""What Wilhelm et al. 2023 print beside what was measured, and findings."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

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
from precedes.papers.p002 import PAPER, metrics
from precedes.papers.p002.experiments import (
    LOADS,
    LOADS_OVER_TIME,
    ROUND_NODES,
    SHIFT_S,
    TARGETS,
)
from precedes.papers.p002.metrics import COUNTS
from precedes.papers.p002.published import PUBLISHED

FIGURES: Final = {"bell": "Figures 6 and 7", "random": "Figures 8 and 9"}
COUNT_REASON: Final = (
    "the paper gives neither the target of its clocks, nor the shape and length of the load, nor "
    "what it counts: a message may be out of order at many receivers"
)
FEW_REASON: Final = "errors come in clusters: few seeds give wide intervals"


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
                    measured=measure(metrics.share, select(runs, error=target, rate=load)),
                    reason=FEW_REASON,
                )
            )
        for low, high in pairwise(LOADS):
            found.append(
                same_sign(
                    About(PAPER, "Figure 5", f"growth beyond linear to {high:g}/s at {target:g}"),
                    published=PUBLISHED["Figure 5"]["entries as the load doubles, more than"],
                    measured=measure(
                        metrics.growth_beyond_linear,
                        select(runs, error=target, rate=low),
                        select(runs, error=target, rate=high),
                    ),
                    reason="more than linear, no number is printed",
                )
            )
    for load in LOADS:
        sizes = [
            measure(metrics.entries, select(runs, error=target, rate=load)) for target in TARGETS
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
            measured=measure(metrics.entries, ours),
            rounding=0.5,
            reason="the target error was chosen for a clock of about this size",
        ),
        *(
            within(
                About(PAPER, item, f"{count} out of order, {label}, {name} load"),
                published=printed[label],
                measured=measure(metrics.out_of_order(count), runs),
                reason=COUNT_REASON,
            )
            for label, runs in (("dcs", ours), ("fixed", fixed))
            for count in COUNTS
        ),
        same_sign(
            About(PAPER, item, f"errors of the fixed clock less those of dcs, {name} load"),
            published=printed["fixed"] - printed["dcs"],
            measured=pooled(
                lambda few, many: metrics.errors(many) - metrics.errors(few), ours, fixed
            ),
            reason="sums over seeds",
        ),
        *(
            finding(
                About(PAPER, item, f"times fewer {count} out of order than fixed, {name} load"),
                measured=pooled(metrics.times_fewer(count), ours, fixed),
                reason=f"{printed['fixed'] / printed['dcs']:.1f} in the paper; sums over seeds",
            )
            for count in COUNTS
        ),
    ]


def _figure_10_claims(results: Results) -> list[Claim]:
    balanced, unbalanced = results["balanced"], results["unbalanced"]
    before, after = metrics.before_shift, metrics.after_rebalancing
    shifted = metrics.sum_between(SHIFT_S, SHIFT_S + 10)
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
            measured=measure(metrics.header_bytes, runs),
            reason=f"{sum(run['violations']['deliveries'] for run in runs)} out of order",
        )
        for nodes, load, label, runs in metrics.byte_runs(results)
    ]
