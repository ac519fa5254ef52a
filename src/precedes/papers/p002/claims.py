"""What Wilhelm et al. 2023 print beside what was measured, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from precedes.papers.claims import (
    About,
    Claim,
    at_least,
    at_most,
    equal,
    finding,
    irreproducible,
    one_run,
    same_order,
    same_sign,
    within,
)
from precedes.papers.guarantees import EXACTLY_ONCE, kept
from precedes.papers.measured import Results, Run, measure, select
from precedes.papers.p002 import PAPER, metrics
from precedes.papers.p002.experiments import (
    BELL_S,
    COMPONENT_SIZES,
    LARGER,
    LARGER_ENTRIES,
    LOADS,
    LOADS_OVER_TIME,
    ONE_TARGET,
    OWN,
    PAPERS,
    ROUND_NODES,
    SIZES,
    TARGETS,
    WITH_OWN,
)
from precedes.papers.p002.metrics import COUNTS
from precedes.papers.p002.published import PUBLISHED


class Shown(NamedTuple):
    """Where the paper has a load, and what it is called in claims."""

    printed: str  # the key of PUBLISHED
    loads: str
    sizes: str
    text: str
    label: str


SHOWN: Final = {
    "bell": Shown("bell", "Figure 6", "Figure 7", "Section V-B1", "one bell"),
    "two-bells": Shown("bell", "Figure 6", "Figure 7", "Section V-B1", "two bells"),
    "random": Shown("random", "Figure 8", "Figure 9", "Section V-B2", "random load"),
}
COUNT_REASON: Final = (
    "the paper gives neither the target of its clocks, nor the shape and length of the load, nor "
    "what it counts: a message may be out of order at many receivers"
)
OWN_REASON: Final = "components of 16 entries; a process increments one entry in each of two"
PEAKS_REASON: Final = "while the load is above the middle of its range, in intervals of 10 s"


def claims(results: Results) -> list[Claim]:
    """What is printed beside what is measured, and findings."""
    return [
        *_figure_5_claims(results),
        *_formula_claims(results),
        *_pattern_claims(results),
        *(claim for name in LOADS_OVER_TIME for claim in _size_claims(results, name)),
        *(claim for name in LOADS_OVER_TIME for claim in _error_claims(results, name)),
        *(claim for name in LOADS_OVER_TIME for claim in _peak_claims(results, name)),
        *(claim for name in WITH_OWN for claim in _own_findings(results, name)),
        *_memory_claims(results),
        *_figure_10_claims(results),
        *_round_claims(results),
        *_guarantee_claims(results),
        *_byte_findings(results),
    ]


def _figure_5_claims(results: Results) -> list[Claim]:
    printed = PUBLISHED["Figure 5"]
    runs = {load: metrics.by_size(results["figure-5"], load) for load in LOADS}
    least = {
        (target, load): measure(metrics.least_entries(target), *runs[load])
        for target in TARGETS
        for load in LOADS
    }
    found = [
        finding(
            About(PAPER, "Figure 5", f"least entries for {target:g} at {load:g}/s"),
            measured=measured,
            reason="a plot without values; with clocks as large "
            f"{metrics.errors_from(measured.mean, runs[load])} deliveries were out of order",
        )
        for (target, load), measured in least.items()
    ]
    found += [
        at_least(
            About(PAPER, "Figure 5", f"growth of the least clock to {high:g}/s at {target:g}"),
            published=printed["entries as the load doubles, more than"],
            measured=measure(metrics.growth_of_least(target), *runs[low], *runs[high]),
            reason="the load doubles",
        )
        for target in TARGETS
        for low, high in pairwise(LOADS)
    ]
    return found + [
        same_order(
            About(PAPER, "Figure 5", f"least entries by accuracy at {load:g}/s"),
            published=[-target for target in printed["probability"]],
            measured=[least[target, load] for target in TARGETS],
            reason="a plot: only the order is published",
        )
        for load in LOADS
    ]


def _formula_claims(results: Results) -> list[Claim]:
    """The formula of section II, which section V-A explains the growth by."""
    printed = PUBLISHED["Figure 5"]
    found = []
    for load in LOADS:
        entries = SIZES[load][2]
        runs = select(results["figure-5"], rate=load, entries=entries)
        hit = 1 - (1 - 1 / entries) ** (load * printed["delay in s"] * printed["increments"])
        found.append(
            within(
                About(PAPER, "Section II", f"share out of order, {entries} entries at {load:g}/s"),
                published=hit ** printed["increments"],
                measured=measure(metrics.share, runs),
                reason="the formula is the chance that concurrent messages cover the entries of "
                "one that is missing; few deliveries miss one",
            )
        )
    return [
        *found,
        irreproducible(
            About(PAPER, "Section V-A", "growth beyond linear explained by the formula"),
            published="faster than linear",
            reason="for a given probability the formula depends on X / M but for terms in 1 / M: "
            "twice as many concurrent messages ask for twice as many entries; what grows is the "
            "chance that a message is missing",
        ),
    ]


def _pattern_claims(results: Results) -> list[Claim]:
    """Figures 6 and 8: the loads."""
    printed = PUBLISHED["bell"]
    middle = int(BELL_S) // 2
    times = {"lowest load": (0, 10), "highest load": (middle - 10, middle + 10)}
    return [
        *(
            one_run(
                About(PAPER, "Figure 6", f"{key}, broadcasts/s, {SHOWN[name].label}"),
                published=printed[key],
                measured=measure(metrics.per_second("broadcasts", *times[key]), results[name]),
                reason="read over intervals of 10 or 20 s, while the load is already on its way",
            )
            for name in ("bell", "two-bells")
            for key in times
        ),
        equal(
            About(PAPER, "Figure 8", "peaks of the load"),
            published=PUBLISHED["random"]["peaks"],
            measured=measure(metrics.peaks, results["random"]),
        ),
    ]


def _size_claims(results: Results, name: str) -> list[Claim]:
    """Figures 7 and 9: the clock over time."""
    shown, runs = SHOWN[name], results[name]
    printed = PUBLISHED[shown.printed]["entries"]
    found = [
        one_run(
            About(PAPER, shown.sizes, f"entries, mean over time, {shown.label}"),
            published=printed,
            measured=measure(metrics.entries, runs),
            rounding=0.5,
        ),
        same_sign(
            About(PAPER, shown.sizes, f"clocks adapt to the load: correlation, {shown.label}"),
            published=PUBLISHED["Over time"]["size with the load"],
            measured=measure(metrics.follows, runs),
            is_size=False,
            reason="a plot: only the direction is published",
        ),
    ]
    if name != "random":
        return found
    return [
        *found,
        at_least(
            About(PAPER, shown.sizes, "share of the time below the mean size, small most of it"),
            published=PUBLISHED["Over time"]["most of"],
            measured=measure(metrics.small, runs),
        ),
        one_run(
            About(PAPER, shown.sizes, "entries, mean over time, with the target of the bells"),
            published=printed,
            measured=measure(metrics.entries, results[ONE_TARGET]),
            rounding=0.5,
            reason="one target for both loads gives no clocks of both printed sizes",
        ),
    ]


def _error_claims(results: Results, name: str) -> list[Claim]:
    """Errors of clocks that follow the load, and of fixed ones as large."""
    shown = SHOWN[name]
    printed = PUBLISHED[shown.printed]
    ours, fixed = results[name], results[f"{name}-fixed"]
    readings = [("dcs", "dcs", ours), ("fixed", "fixed", fixed)]
    if name == "random":
        readings.append(("dcs", "dcs with the target of the bells", results[ONE_TARGET]))
    found = [
        *(
            one_run(
                About(PAPER, shown.text, f"{count} out of order, {label}, {shown.label}"),
                published=printed[key],
                measured=measure(metrics.out_of_order(count), runs),
                reason=COUNT_REASON,
            )
            for key, label, runs in readings
            for count in COUNTS
        ),
        *(
            same_sign(
                About(PAPER, shown.text, f"{count}, fixed less dcs, {shown.label}"),
                published=printed["fixed"] - printed["dcs"],
                measured=measure(metrics.fewer(count), ours, fixed),
            )
            for count in COUNTS
        ),
    ]
    return found + [
        _times_fewer(name, label, count, runs, fixed)
        for key, label, runs in readings
        if key == "dcs"
        for count in COUNTS
    ]


def _times_fewer(
    name: str, label: str, count: str, runs: Sequence[Run], fixed: Sequence[Run]
) -> Claim:
    shown = SHOWN[name]
    printed = PUBLISHED[shown.printed]
    about = About(PAPER, shown.text, f"times fewer {count} out of order, {label}, {shown.label}")
    measured = measure(metrics.times_fewer(count), runs, fixed)
    ratio = f"{printed['fixed'] / printed['dcs']:.1f} by the printed counts"
    if "times fewer" not in printed:
        return finding(about, measured=measured, reason=ratio)
    # "6x" where the counts give 6.8: what begins with a 6.
    times = printed["times fewer"]
    return one_run(about, published=times, measured=measured, rounding=1.0, reason=ratio)


def _peak_claims(results: Results, name: str) -> list[Claim]:
    """Errors are concentrated around the peaks of the load, for both clocks."""
    shown = SHOWN[name]
    found = []
    for label, runs in (("dcs", results[name]), ("fixed", results[f"{name}-fixed"])):
        found += [
            at_least(
                About(PAPER, shown.text, f"share of errors at the peaks, {label}, {shown.label}"),
                published=PUBLISHED["Over time"]["most of"],
                measured=measure(metrics.errors_at_peaks, runs, results[name]),
                reason=PEAKS_REASON,
            ),
            same_sign(
                About(PAPER, shown.text, f"errors less load at peaks, {label}, {shown.label}"),
                published=PUBLISHED["Over time"]["errors near the peaks"],
                measured=measure(metrics.errors_beyond_load, runs, results[name]),
                is_size=False,
                reason=PEAKS_REASON,
            ),
        ]
    return found


def _own_findings(results: Results, name: str) -> list[Claim]:
    """The same with the components of this project, which are not the paper's."""
    shown, runs = SHOWN[name], results[f"{name}-own"]
    fixed = results[f"{name}-fixed"][: len(runs)]
    found = {"entries, mean over time": measure(metrics.entries, runs)}
    for count in COUNTS:
        found[f"{count} out of order"] = measure(metrics.out_of_order(count), runs)
        ratio = measure(metrics.times_fewer(count), runs, fixed)
        found[f"times fewer {count} out of order"] = ratio
    return [
        finding(
            About(PAPER, shown.text, f"{key}, own components, {shown.label}"),
            measured=measured,
            reason=OWN_REASON,
        )
        for key, measured in found.items()
    ]


def _memory_claims(results: Results) -> list[Claim]:
    """Less memory than a fixed clock that errs as seldom: a larger one still errs more often."""
    return [
        same_sign(
            About(PAPER, "Section VII", f"{count}, a larger fixed clock less dcs, one bell"),
            published=PUBLISHED["Section VII"]["errors of a larger fixed clock less those of dcs"],
            measured=measure(metrics.fewer(count), results["bell"], results[LARGER]),
            is_size=False,
            reason=f"{LARGER_ENTRIES} entries, a quarter more than dcs has on average",
        )
        for count in COUNTS
    ]


def _figure_10_claims(results: Results) -> list[Claim]:
    printed = PUBLISHED["Figure 10"]
    phases = {
        "change at 50 s": (metrics.before_shift, metrics.after_shift),
        "change at 70 s": (metrics.after_shift, metrics.after_moves),
        "change at 90 s": (metrics.after_moves, metrics.after_rebalancing),
    }
    found = [
        same_sign(
            About(PAPER, "Figure 10", f"{key}, errors per second"),
            published=printed[key],
            measured=measure(
                lambda run, before=before, after=after: after(run) - before(run),
                results["balanced"],
            ),
            is_size=False,
            reason="a plot: only the direction is published",
        )
        for key, (before, after) in phases.items()
    ]
    readings = {
        "before 50 s": (metrics.before_shift, "balanced"),
        "from 50 to 70 s": (metrics.after_shift, "balanced"),
        "from 70 to 90 s": (metrics.after_moves, "balanced"),
        "after 90 s": (metrics.after_rebalancing, "balanced"),
        "after 90 s, without rebalancing": (metrics.after_rebalancing, "unbalanced"),
    }
    return found + [
        finding(
            About(PAPER, "Figure 10", f"errors per second {key}"),
            measured=measure(read, results[name]),
        )
        for key, (read, name) in readings.items()
    ]


def _round_claims(results: Results) -> list[Claim]:
    printed = PUBLISHED["Rounds"]
    found = []
    for nodes in ROUND_NODES:
        runs = select(results["rounds"], nodes=nodes)
        found += [
            equal(
                About(
                    PAPER,
                    "Rounds",
                    f"messages of a {kind} round for each other of {nodes} processes",
                ),
                published=printed["messages for a process"],
                measured=measure(metrics.round_packets(kind), runs),
                reason="O(N) messages a round",
            )
            for kind in metrics.ROUNDS
        ]
        found.append(
            finding(
                About(PAPER, "Rounds", f"rounds while a load came and went, {nodes} processes"),
                measured=measure(lambda run: run["extra"]["rounds"], runs),
            )
        )
    for low, high in pairwise(COMPONENT_SIZES):
        sizes = results["round-sizes"]
        few, many = (select(sizes, component_entries=size) for size in (low, high))
        found.append(
            at_most(
                About(PAPER, "Rounds", f"growth of Deactivate messages, M from {low} to {high}"),
                published=printed["size as M doubles, at most"],
                measured=measure(metrics.round_growth("deactivate"), few, many),
                reason="a hash stands for the component",
            )
        )
    for low, high in ((one, 2 * one) for one in ROUND_NODES if 2 * one in ROUND_NODES):
        few, many = (select(results["rounds"], nodes=nodes) for nodes in (low, high))
        found.append(
            at_most(
                About(PAPER, "Rounds", f"growth of Remove messages, N from {low} to {high}"),
                published=printed["size as N doubles, at most"],
                measured=measure(metrics.round_growth("remove"), few, many),
                reason="a hash stands for the vector of N counters",
            )
        )
    return found


def _guarantee_claims(results: Results) -> list[Claim]:
    """Section IV-F: every message is delivered by all, while components come and go."""
    return [
        kept(
            About(PAPER, "Theorem 3", f"everything is delivered once, components of {entries}"),
            runs=select(results["guarantees"], component_entries=entries),
            against=EXACTLY_ONCE,
        )
        for entries in (PAPERS["component_entries"], OWN["component_entries"])
    ]


def _byte_findings(results: Results) -> list[Claim]:
    return [
        finding(
            About(PAPER, "Bytes", f"{label}, {nodes} processes, {load:g}/s"),
            measured=measure(metrics.header_bytes, runs),
            reason=f"{sum(run['violations']['deliveries'] for run in runs)} out of order",
        )
        for nodes, load, label, runs in metrics.byte_runs(results)
    ]
