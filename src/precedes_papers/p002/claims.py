"""What Wilhelm et al. 2023 publish and what was measured, and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from precedes_papers.measured import Results, Run, measure, select
from precedes_papers.p002 import PAPER, PUBLISHED, metrics
from precedes_papers.p002.experiments import (
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
from precedes_papers.p002.metrics import COUNTS
from precedes_papers.rules import (
    EXACTLY_ONCE,
    About,
    Claim,
    at_least,
    at_most,
    equal,
    finding,
    irreproducible,
    kept,
    one_run,
    same_order,
    same_sign,
    within,
)


class Shown(NamedTuple):
    """Where the paper has a load, and what it is called in claims."""

    printed: str  # the key of PUBLISHED
    sizes: str
    text: str
    label: str


SHOWN: Final = {
    "bell": Shown("bell", "Figure 7", "Section V-B1", "one bell"),
    "two-bells": Shown("bell", "Figure 7", "Section V-B1", "two bells"),
    "random": Shown("random", "Figure 9", "Section V-B2", "random load"),
}
COUNT_REASON: Final = (
    "the paper gives neither the target of its clocks, nor the shape and length of the load, nor "
    "what it counts: a message may be out of order at many receivers"
)
OWN_REASON: Final = "components of 16 entries; a process increments one entry in each of two"
PEAKS_REASON: Final = "while the load is above the middle of its range, in intervals of 10 s"
PLOT: Final = "a plot: only the direction is published"


def claims(results: Results) -> Iterator[Claim]:
    """What is published and what is measured, and findings."""
    yield from _figure_5(results)
    yield from _formula(results)
    yield from _patterns(results)
    for of_load in (_sizes, _errors, _peaks):
        for name in LOADS_OVER_TIME:
            yield from of_load(results, name)
    for name in WITH_OWN:
        yield from _own_components(results, name)
    yield from _memory(results)
    yield from _figure_10(results)
    yield from _rounds(results)
    yield from _guarantees(results)
    yield from _bytes(results)


def _figure_5(results: Results) -> Iterator[Claim]:
    printed = PUBLISHED["Figure 5"]
    runs = {load: metrics.by_size(results["figure-5"], load) for load in LOADS}
    least = {
        (target, load): measure(metrics.least_entries(target), *runs[load])
        for target in TARGETS
        for load in LOADS
    }
    for (target, load), measured in least.items():
        about = About(PAPER, "Figure 5", f"least entries for {target:g} at {load:g}/s")
        errors = metrics.errors_from(measured.mean, runs[load])
        why = f"a plot without values; with clocks as large {errors} deliveries were out of order"
        yield finding(about, measured, reason=why)
    for target in TARGETS:
        for low, high in pairwise(LOADS):
            key = f"growth of the least clock to {high:g}/s at {target:g}"
            growth = measure(metrics.growth_of_least(target), *runs[low], *runs[high])
            least_growth = printed["entries as the load doubles, more than"]
            about = About(PAPER, "Figure 5", key)
            yield at_least(about, least_growth, growth, reason="the load doubles")
    for load in LOADS:
        yield same_order(
            About(PAPER, "Figure 5", f"least entries by accuracy at {load:g}/s"),
            [-target for target in printed["probability"]],
            [least[target, load] for target in TARGETS],
            reason="a plot: only the order is published",
        )


def _formula(results: Results) -> Iterator[Claim]:
    """The formula of section II, which section V-A explains the growth by."""
    printed = PUBLISHED["Figure 5"]
    for load in LOADS:
        entries = SIZES[load][2]
        hit = 1 - (1 - 1 / entries) ** (load * printed["delay in s"] * printed["increments"])
        yield within(
            About(PAPER, "Section II", f"share out of order, {entries} entries at {load:g}/s"),
            hit ** printed["increments"],
            measure(metrics.share, select(results["figure-5"], rate=load, entries=entries)),
            reason="the formula is the chance that concurrent messages cover the entries of "
            "one that is missing; few deliveries miss one",
        )
    yield irreproducible(
        About(PAPER, "Section V-A", "growth beyond linear explained by the formula"),
        "faster than linear",
        reason="for a given probability the formula depends on X / M but for terms in 1 / M: "
        "twice as many concurrent messages ask for twice as many entries; what grows is the "
        "chance that a message is missing",
    )


def _patterns(results: Results) -> Iterator[Claim]:
    """Figures 6 and 8: the loads."""
    middle = int(BELL_S) // 2
    times = {"lowest load": (0, 10), "highest load": (middle - 10, middle + 10)}
    why = "read over intervals of 10 or 20 s, while the load is already on its way"
    for name in ("bell", "two-bells"):
        for key, span_s in times.items():
            about = About(PAPER, "Figure 6", f"{key}, broadcasts/s, {SHOWN[name].label}")
            load = measure(metrics.per_second("broadcasts", *span_s), results[name])
            yield one_run(about, PUBLISHED["bell"][key], load, reason=why)
    peaks = measure(metrics.peaks, results["random"])
    yield equal(About(PAPER, "Figure 8", "peaks of the load"), PUBLISHED["random"]["peaks"], peaks)


def _sizes(results: Results, name: str) -> Iterator[Claim]:
    """Figures 7 and 9: the clock over time."""
    shown, runs = SHOWN[name], results[name]
    printed, over_time = PUBLISHED[shown.printed]["entries"], PUBLISHED["Over time"]
    about = About(PAPER, shown.sizes, f"entries, mean over time, {shown.label}")
    yield one_run(about, printed, measure(metrics.entries, runs), rounding=0.5)
    about = About(PAPER, shown.sizes, f"clocks adapt to the load: correlation, {shown.label}")
    follows = measure(metrics.follows, runs)
    yield same_sign(about, over_time["size with the load"], follows, is_size=False, reason=PLOT)
    if name == "random":
        key = "share of the time below the mean size, small most of it"
        small = measure(metrics.small, runs)
        yield at_least(About(PAPER, shown.sizes, key), over_time["most of"], small)
        yield one_run(
            About(PAPER, shown.sizes, "entries, mean over time, with the target of the bells"),
            printed,
            measure(metrics.entries, results[ONE_TARGET]),
            rounding=0.5,
            reason="one target for both loads gives no clocks of both printed sizes",
        )


def _errors(results: Results, name: str) -> Iterator[Claim]:
    """Errors of clocks that follow the load, and of fixed ones as large."""
    shown = SHOWN[name]
    printed = PUBLISHED[shown.printed]
    fixed, ours = results[f"{name}-fixed"], {"dcs": results[name]}
    if name == "random":
        ours["dcs with the target of the bells"] = results[ONE_TARGET]

    def out_of_order(clock: str, label: str, runs: Sequence[Run]) -> Iterator[Claim]:
        for count in COUNTS:
            about = About(PAPER, shown.text, f"{count} out of order, {label}, {shown.label}")
            errors = measure(metrics.out_of_order(count), runs)
            yield one_run(about, printed[clock], errors, reason=COUNT_REASON)

    yield from out_of_order("dcs", "dcs", ours["dcs"])
    yield from out_of_order("fixed", "fixed", fixed)
    for label in list(ours)[1:]:
        yield from out_of_order("dcs", label, ours[label])
    for count in COUNTS:
        about = About(PAPER, shown.text, f"{count}, fixed less dcs, {shown.label}")
        fewer = measure(metrics.fewer(count), ours["dcs"], fixed)
        yield same_sign(about, printed["fixed"] - printed["dcs"], fewer)
    ratio = f"{printed['fixed'] / printed['dcs']:.1f} by the printed counts"
    for label, runs in ours.items():
        for count in COUNTS:
            key = f"times fewer {count} out of order, {label}, {shown.label}"
            about = About(PAPER, shown.text, key)
            times = measure(metrics.times_fewer(count), runs, fixed)
            if "times fewer" in printed:
                # "6x" where the counts give 6.8: what begins with a 6.
                yield one_run(about, printed["times fewer"], times, rounding=1.0, reason=ratio)
            else:
                yield finding(about, times, reason=ratio)


def _peaks(results: Results, name: str) -> Iterator[Claim]:
    """Errors are concentrated around the peaks of the load, for both clocks."""
    text, where = SHOWN[name].text, SHOWN[name].label
    printed = PUBLISHED["Over time"]
    for label, runs in (("dcs", results[name]), ("fixed", results[f"{name}-fixed"])):
        about = About(PAPER, text, f"share of errors at the peaks, {label}, {where}")
        share = measure(metrics.errors_at_peaks, runs, results[name])
        yield at_least(about, printed["most of"], share, reason=PEAKS_REASON)
        yield same_sign(
            About(PAPER, text, f"errors less load at peaks, {label}, {where}"),
            printed["errors near the peaks"],
            measure(metrics.errors_beyond_load, runs, results[name]),
            is_size=False,
            reason=PEAKS_REASON,
        )


def _own_components(results: Results, name: str) -> Iterator[Claim]:
    """The same with the components of this project, which are not the paper's."""
    runs = results[f"{name}-own"]
    fixed = results[f"{name}-fixed"][: len(runs)]
    found = {"entries, mean over time": measure(metrics.entries, runs)}
    for count in COUNTS:
        found[f"{count} out of order"] = measure(metrics.out_of_order(count), runs)
        ratio = measure(metrics.times_fewer(count), runs, fixed)
        found[f"times fewer {count} out of order"] = ratio
    for key, measured in found.items():
        about = About(PAPER, SHOWN[name].text, f"{key}, own components, {SHOWN[name].label}")
        yield finding(about, measured, reason=OWN_REASON)


def _memory(results: Results) -> Iterator[Claim]:
    """Less memory than a fixed clock that errs as seldom: a larger one still errs more often."""
    for count in COUNTS:
        yield same_sign(
            About(PAPER, "Section VII", f"{count}, a larger fixed clock less dcs, one bell"),
            PUBLISHED["Section VII"]["errors of a larger fixed clock less those of dcs"],
            measure(metrics.fewer(count), results["bell"], results[LARGER]),
            is_size=False,
            reason=f"{LARGER_ENTRIES} entries, a quarter more than dcs has on average",
        )


def _figure_10(results: Results) -> Iterator[Claim]:
    phases = {
        "before 50 s": metrics.before_shift,
        "from 50 to 70 s": metrics.after_shift,
        "from 70 to 90 s": metrics.after_moves,
        "after 90 s": metrics.after_rebalancing,
    }

    def change(
        before: Callable[[Run], float], after: Callable[[Run], float]
    ) -> Callable[[Run], float]:
        return lambda run: after(run) - before(run)

    for (key, published), phase in zip(
        PUBLISHED["Figure 10"].items(), pairwise(phases.values()), strict=True
    ):
        about = About(PAPER, "Figure 10", f"{key}, errors per second")
        measured = measure(change(*phase), results["balanced"])
        yield same_sign(about, published, measured, is_size=False, reason=PLOT)
    for key, read in phases.items():
        about = About(PAPER, "Figure 10", f"errors per second {key}")
        yield finding(about, measure(read, results["balanced"]))
    about = About(PAPER, "Figure 10", "errors per second after 90 s, without rebalancing")
    yield finding(about, measure(metrics.after_rebalancing, results["unbalanced"]))


def _rounds(results: Results) -> Iterator[Claim]:
    printed = PUBLISHED["Rounds"]

    def about(key: str) -> About:
        return About(PAPER, "Rounds", key)

    by_nodes = {nodes: select(results["rounds"], nodes=nodes) for nodes in ROUND_NODES}
    by_size = {
        size: select(results["round-sizes"], component_entries=size) for size in COMPONENT_SIZES
    }
    for nodes, runs in by_nodes.items():
        for kind in metrics.ROUNDS:
            key = f"messages of a {kind} round for each other of {nodes} processes"
            packets = measure(metrics.round_packets(kind), runs)
            published = printed["messages for a process"]
            yield equal(about(key), published, packets, reason="O(N) messages a round")
        key = f"rounds while a load came and went, {nodes} processes"
        yield finding(about(key), measure(lambda run: run["extra"]["rounds"], runs))
    for kind, name, letter, runs_of, why in (
        ("deactivate", "Deactivate", "M", by_size, "a hash stands for the component"),
        ("remove", "Remove", "N", by_nodes, "a hash stands for the vector of N counters"),
    ):
        for low in runs_of:
            if 2 * low in runs_of:
                key = f"growth of {name} messages, {letter} from {low} to {2 * low}"
                growth = measure(metrics.round_growth(kind), runs_of[low], runs_of[2 * low])
                most = printed[f"size as {letter} doubles, at most"]
                yield at_most(about(key), most, growth, reason=why)


def _guarantees(results: Results) -> Iterator[Claim]:
    """Section IV-F: every message is delivered by all, while components come and go."""
    for entries in (PAPERS["component_entries"], OWN["component_entries"]):
        about = About(PAPER, "Theorem 3", f"everything is delivered once, components of {entries}")
        yield kept(about, select(results["guarantees"], component_entries=entries), EXACTLY_ONCE)


def _bytes(results: Results) -> Iterator[Claim]:
    for nodes, load, label, runs in metrics.byte_runs(results):
        about = About(PAPER, "Bytes", f"{label}, {nodes} processes, {load:g}/s")
        wrong = sum(run["violations"]["deliveries"] for run in runs)
        yield finding(about, measure(metrics.header_bytes, runs), reason=f"{wrong} out of order")
