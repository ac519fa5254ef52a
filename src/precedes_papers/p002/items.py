"""Published and measured values of Wilhelm et al. 2023: claims, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from precedes.parts.sizing import size
from precedes_papers import rules
from precedes_papers.measured import Reader, Results, Run, field, measure, regardless, select
from precedes_papers.p002 import PUBLISHED, metrics
from precedes_papers.p002.experiments import (
    INCREMENTS_TRIED,
    LARGER,
    LARGER_ENTRIES,
    LOADS,
    LOADS_OVER_TIME,
    ONE_TARGET,
    OPTIMUM_ENTRIES,
    OPTIMUM_LOAD,
    OWN,
    PAPERS,
    ROUND_NODES,
    SHIFTS,
    SIZES,
    TARGETS,
    WITH_OWN,
)
from precedes_papers.p002.metrics import COUNTS
from precedes_papers.rules import Claim
from precedes_papers.shown import (
    Cell,
    Claims,
    Figure,
    Headlines,
    Published,
    Statement,
    Table,
    measured_series,
    model_series,
    published_series,
)


class Shown(NamedTuple):
    """Place of a load in the paper, and its name in claims."""

    place: str  # the key of PUBLISHED
    sizes: str
    text: str
    label: str


SHOWN: Final = {
    "bell": Shown("bell", "Figure 7", "Section V-B1", "one bell"),
    "two-bells": Shown("bell", "Figure 7", "Section V-B1", "two bells"),
    "random": Shown("random", "Figure 9", "Section V-B2", "random load"),
    "bell-periodic": Shown("bell", "Figure 7", "Section V-B1", "one bell, near-periodic"),
    "random-periodic": Shown("random", "Figure 9", "Section V-B2", "random load, near-periodic"),
}
SHIFTED_AS: Final = {  # readings of Figure 10
    "balanced": "looks at 70 and 90 s",
    "balanced-early": "looks at 60 and 80 s",
    "balanced-periodic": "looks at 70 and 90 s, near-periodic senders",
    "unbalanced": "without rebalancing",
}
PHASES: Final = ("before the shift", "to the first look", "to the second look", "after it")
OTHER_TARGET: Final = "random load, target of the bells"
BELLS: Final = {label: f"messages, {label}" for label in ("one bell", "two bells")}
LABELS: Final = {  # of series of the results
    "entries": "entries of a clock",
    "broadcasts": "broadcasts per second",
    "violations": "deliveries out of order per second",
}
MEANS: Final = {"Figure 7": "bell", "Figure 9": "random"}  # figures with a published mean size
COUNT_REASON: Final = (
    "the paper gives neither the target of its clocks, nor the shape and length of the load, nor "
    "what it counts: a message may be out of order at many receivers"
)
OWN_REASON: Final = "components of 16 entries; a process increments one entry in each of two"
PEAKS_REASON: Final = "while the load is above the middle of its range, in intervals of 10 s"
PLOT: Final = "a plot: only the direction is published"
FORMULA_REASON: Final = (
    "the formula is the chance that concurrent messages cover the entries of one that is missing; "
    "few deliveries miss one"
)
LINEAR_REASON: Final = (
    "for a given probability the formula depends on X / M but for terms in 1 / M: twice as many "
    "concurrent messages ask for twice as many entries; what grows is the chance that a message "
    "is missing"
)
COUNTEREXAMPLE: Final = (
    "of two messages of a process the later carries fewer components once some were deactivated, "
    "and III-C asks for as many"
)
TARGET_REASON: Final = "one target for both loads gives no clocks of both printed sizes"
LARGER_REASON: Final = f"{LARGER_ENTRIES} entries, a quarter more than dcs has on average"

HEADLINES: Final = Headlines(
    (
        Statement(
            "under a load that comes and goes, {} messages are out of order with a clock that "
            "follows it",
            "out of order, clock that follows", "Section V-B1", "out of order, dcs", BELLS,
        ),
        Statement(
            "and {} with a fixed clock of the same mean size",
            "out of order, fixed clock", "Section V-B1", "out of order, fixed", BELLS,
        ),
        Statement(
            "under a random load it has {} times fewer of them than a fixed clock",
            "times fewer, random load", "Section V-B2", "times fewer out of order",
            {
                "clocks of the printed size": "messages, random load",
                "target of the bells": f"messages, {OTHER_TARGET}",
            },
        ),
        Statement(
            "for the same share of errors, twice the load takes a clock more than {} times as "
            "large",
            "growth of the least clock", "Figure 5",
            f"growth of the least clock at {TARGETS[0]:g}",
            {f"{load:g}/s, share {TARGETS[0]:g}": f"to {load:g}/s" for load in LOADS[1:]},
        ),
        Statement(
            "{} deliveries are missing, repeated or of nothing", "deliveries missing or repeated",
            "Theorem 3", "everything is delivered once", {"components of 50": "components of 50"},
        ),
    ),
    figures=("Figure 5", "Figure 7"),
)  # fmt: skip


def claims(results: Results) -> Iterator[Claim]:
    """Published and measured values, and findings."""
    yield from _figure_5(results)
    for name in LOADS_OVER_TIME:
        yield from _over_time_of(results, name)
    for name in WITH_OWN:
        yield from _own_components(results, name)
    for count in COUNTS:
        yield rules.same_sign(
            ("Section VII", "a larger fixed clock less dcs, one bell", count),
            PUBLISHED["Section VII"]["errors of a larger fixed clock less those of dcs"],
            measure(metrics.fewer(count), results["bell"], results[LARGER]),
            is_size=False,
            reason=LARGER_REASON,
        )
    yield from _figure_10(results)
    yield from _rounds(results)
    yield from _theorems(results)
    for nodes, load, label, runs in metrics.byte_runs(results):
        about = "Bytes", f"{label}, {nodes} processes, {load:g}/s"
        wrong = sum(run["violations"]["deliveries"] for run in runs)
        bytes_added = measure(metrics.header_bytes, runs)
        yield rules.finding(about, bytes_added, reason=f"{wrong} out of order")


def _figure_5(results: Results) -> Iterator[Claim]:
    """The least clocks, and the formula of section II, which section V-A explains them by."""
    item, published = "Figure 5", PUBLISHED["Figure 5"]
    runs = {load: metrics.by_size(results["figure-5"], load) for load in LOADS}
    least = {
        (target, load): measure(metrics.least_entries(target), *runs[load])
        for target in TARGETS
        for load in LOADS
    }
    for (target, load), measured in least.items():
        errors = metrics.errors_from(measured.mean, runs[load])
        why = f"a plot without values; with clocks as large {errors} deliveries were out of order"
        yield rules.finding((item, _least(target, load)), measured, reason=why)
    for target in TARGETS:
        for low, high in pairwise(LOADS):
            growing = item, f"growth of the least clock at {target:g}", f"to {high:g}/s"
            growth = measure(metrics.growth_of_least(target), *runs[low], *runs[high])
            least_growth = published["entries as the load doubles, more than"]
            yield rules.at_least(growing, least_growth, growth, reason="the load doubles")
    for load in LOADS:
        yield rules.same_order(
            (item, f"least entries by accuracy at {load:g}/s"),
            [-target for target in published["probability"]],
            [least[target, load] for target in TARGETS],
            reason="a plot: only the order is published",
        )
    for load in LOADS:
        entries = SIZES[load][2]
        hit = 1 - (1 - 1 / entries) ** (load * published["delay in s"] * published["increments"])
        yield rules.within(
            ("Section II", "share out of order", f"{entries} entries at {load:g}/s"),
            hit ** published["increments"],
            measure(metrics.share, select(results["figure-5"], rate=load, entries=entries)),
            reason=FORMULA_REASON,
        )
    about = "Section V-A", "growth beyond linear explained by the formula"
    yield rules.irreproducible(about, "faster than linear", reason=LINEAR_REASON)


def _least(target: float, load: float) -> str:
    return f"least entries for {target:g} at {load:g}/s"


def _over_time_of(results: Results, name: str) -> Iterator[Claim]:
    """Figures 7 and 9, the clock over time; the counts of errors in the text, and their peaks."""
    place, item, text, label = SHOWN[name]
    published, over_time = PUBLISHED[place], PUBLISHED["Over time"]
    entries, with_load = published["entries"], over_time["size with the load"]
    fixed, ours = results[f"{name}-fixed"], {label: results[name]}
    about = item, "entries, mean over time", label
    yield rules.within(
        about, entries, measure(metrics.entries, results[name]), runs=1, rounding=0.5
    )
    about = item, "clocks adapt to the load: correlation", label
    follows = measure(metrics.follows, results[name])
    yield rules.same_sign(about, with_load, follows, is_size=False, reason=PLOT)
    if name == "random":
        small = measure(metrics.small, results[name])
        key = "share of the time below the mean size, small most of it"
        yield rules.at_least((item, key), over_time["most of"], small)
        ours[OTHER_TARGET] = results[ONE_TARGET]
        about = item, "entries, mean over time", OTHER_TARGET
        large = measure(metrics.entries, results[ONE_TARGET])
        yield rules.within(about, entries, large, runs=1, rounding=0.5, reason=TARGET_REASON)
    ratio = f"{published['fixed'] / published['dcs']:.1f} by the printed counts"
    for count in COUNTS:
        read = metrics.out_of_order(count)
        for key, of_clock in (("dcs", ours), ("fixed", {label: fixed})):
            for reading, runs in of_clock.items():
                about = text, f"out of order, {key}", f"{count}, {reading}"
                errors = measure(read, runs)
                yield rules.within(about, published[key], errors, runs=1, reason=COUNT_REASON)
        about = text, "out of order, fixed less dcs", f"{count}, {label}"
        fewer = measure(metrics.fewer(count), results[name], fixed)
        yield rules.same_sign(about, published["fixed"] - published["dcs"], fewer)
        for reading, runs in ours.items():
            about = text, "times fewer out of order", f"{count}, {reading}"
            times = measure(metrics.times_fewer(count), runs, fixed)
            if "times fewer" in published:
                # "6x" where the counts give 6.8: what begins with a 6.
                six = published["times fewer"]
                yield rules.within(about, six, times, runs=1, rounding=1.0, reason=ratio)
            else:
                yield rules.finding(about, times, reason=ratio)
    for clock, runs in (("dcs", results[name]), ("fixed", fixed)):
        about = text, f"share of errors at the peaks, {clock}", label
        share = measure(metrics.errors_at_peaks, runs, results[name])
        yield rules.at_least(about, over_time["most of"], share, reason=PEAKS_REASON)
        about = text, f"errors less load at peaks, {clock}", label
        more = measure(metrics.errors_beyond_load, runs, results[name])
        near = over_time["errors near the peaks"]
        yield rules.same_sign(about, near, more, is_size=False, reason=PEAKS_REASON)


def _own_components(results: Results, name: str) -> Iterator[Claim]:
    """The same with the components of this project, which are not the paper's."""
    runs = results[f"{name}-own"]
    fixed = results[f"{name}-fixed"][: len(runs)]
    values = {"entries, mean over time": measure(metrics.entries, runs)}
    for count in COUNTS:
        values[f"{count} out of order"] = measure(metrics.out_of_order(count), runs)
        ratio = measure(metrics.times_fewer(count), runs, fixed)
        values[f"times fewer {count} out of order"] = ratio
    for key, measured in values.items():
        about = SHOWN[name].text, f"{key}, own components, {SHOWN[name].label}"
        yield rules.finding(about, measured, reason=OWN_REASON)


def _figure_10(results: Results) -> Iterator[Claim]:
    """The changes from one phase to the next."""

    def change(before: Reader, after: Reader) -> Reader:
        return lambda run: after(run) - before(run)

    item = "Figure 10"
    for name, shift in SHIFTS.items():
        phases, reading = metrics.phases(shift), SHIFTED_AS[name]
        steps = pairwise(phases.values()) if shift.balance_ms else ()
        for (key, published), pair in zip(PUBLISHED[item].items(), steps, strict=False):
            about, measured = (item, key, reading), measure(change(*pair), results[name])
            yield rules.same_sign(about, published, measured, is_size=False, reason=PLOT)
        for key, read in phases.items():
            about = item, f"errors per second {key}", reading
            yield rules.finding(about, measure(read, results[name]))


def _rounds(results: Results) -> Iterator[Claim]:
    """Cost of the rounds; section IV-F: all is delivered while components come and go."""
    item, three = "Rounds", PUBLISHED["Rounds"]["messages for a process"]
    by_nodes = {nodes: select(results["rounds"], nodes=nodes) for nodes in ROUND_NODES}
    for nodes, runs in by_nodes.items():
        for kind in metrics.ROUNDS:
            about = item, f"messages of a {kind} round for each other process", f"{nodes} processes"
            packets = regardless(measure(metrics.round_packets(kind), runs))
            yield rules.equal(about, three, packets, reason="O(N) messages a round")
        came_and_went = item, f"rounds while a load came and went, {nodes} processes"
        yield rules.finding(came_and_went, measure(lambda run: run["extra"]["rounds"], runs))
    for entries in (PAPERS["component_entries"], OWN["component_entries"]):
        once = "Theorem 3", "everything is delivered once", f"components of {entries}"
        runs = select(results["guarantees"], component_entries=entries)
        yield rules.kept(once, runs, rules.EXACTLY_ONCE)


def _theorems(results: Results) -> Iterator[Claim]:
    """Theorems 1 and 2, the optimum of section II, and the third function of checkExpand."""
    item, published = "Theorem 1", PUBLISHED["Theorem 1"]
    most = max(field(run, "components") for run in results["theorem-1"])
    for least, reading in ((most, "static clocks"), (1, "components come and go")):
        runs = select(results["theorem-1"], components=least)
        about = item, "own messages that are not less than the next one", reading
        fails = measure(lambda run: float(run["extra"]["theorem_1_fails"]), runs)
        yield rules.equal(about, published, fails, reason=COUNTEREXAMPLE)
    once = "Theorem 2", "everything is delivered once", "static clocks"
    yield rules.kept(once, results["static"], rules.EXACTLY_ONCE)
    by_count = [select(results["optimum"], per_process=k) for k in INCREMENTS_TRIED]
    concurrent = OPTIMUM_LOAD * PUBLISHED["Figure 5"]["delay in s"]
    yield rules.within(
        ("Section II", "entries a process with the fewest errors, k = ln(2) R / X"),
        math.log(2) * OPTIMUM_ENTRIES / concurrent,
        measure(metrics.best_increments, *by_count),
        rounding=0.5,
        runs=1,
        reason=FORMULA_REASON,
    )
    for count in COUNTS:
        about = "Section V-B1", "out of order, dcs", f"{count}, one bell, checkExpand redraws"
        errors = measure(metrics.out_of_order(count), results["redrawn"])
        yield rules.within(about, PUBLISHED["bell"]["dcs"], errors, runs=1, reason=COUNT_REASON)
    about = "Figure 7", "entries, mean over time", "one bell, checkExpand redraws"
    entries = measure(metrics.entries, results["redrawn"])
    yield rules.within(about, PUBLISHED["bell"]["entries"], entries, rounding=0.5, runs=1)


# Load, clock, experiment and key in PUBLISHED; what is published of the clock, if anything.
ROWS: Final = (
    ("one bell", "dcs, paper's components", "bell", "bell", "dcs"),
    ("one bell", "dcs, paper's components, checkExpand redraws", "redrawn", "bell", "dcs"),
    ("one bell", "dcs, own components", "bell-own", "bell", "dcs"),
    ("one bell", "fixed", "bell-fixed", "bell", "fixed"),
    ("one bell", "fixed, larger", LARGER, "bell", ""),
    ("two bells", "dcs, paper's components", "two-bells", "bell", "dcs"),
    ("two bells", "fixed", "two-bells-fixed", "bell", "fixed"),
    ("random", "dcs, paper's components", "random", "random", "dcs"),
    ("random", "dcs, paper's components, the bells' target", ONE_TARGET, "random", "dcs"),
    ("random", "dcs, own components", "random-own", "random", "dcs"),
    ("random", "fixed", "random-fixed", "random", "fixed"),
    ("one bell, near-periodic", "dcs, paper's components", "bell-periodic", "bell", "dcs"),
    ("one bell, near-periodic", "fixed", "bell-periodic-fixed", "bell", "fixed"),
    ("random, near-periodic", "dcs, paper's components", "random-periodic", "random", "dcs"),
    ("random, near-periodic", "fixed", "random-periodic-fixed", "random", "fixed"),
)


def shown(results: Results, claims: Claims) -> Iterator[Table | Figure]:
    """Least clocks and what they were read from, errors, bytes; Figures 5 to 10."""

    def row(load: str, clock: str, experiment: str, where: str, kind: str) -> tuple[Cell, ...]:
        published, runs = PUBLISHED[where], results[experiment]
        wrong = [measure(metrics.out_of_order(count), runs) for count in COUNTS]
        entries: list[Cell] = [None, runs[0]["scenario"]["parameters"].get("entries")]
        if kind == "dcs":
            entries = [Published(published["entries"]), measure(metrics.entries, runs)]
        return (load, clock, Published(published[kind]) if kind else None, *wrong, *entries)

    yield Table(
        "Figure 5, least clocks",
        ("broadcasts/s", "share out of order", "entries", "entries by precedes size"),
        tuple(
            (
                load,
                target,
                claims.measured("Figure 5", _least(target, load)),
                _formula(load, target),
            )
            for load in LOADS
            for target in TARGETS
        ),
        "2,000 processes, two entries each.",
    )
    yield Table(
        "Figure 5, shares",
        ("broadcasts/s", "entries", "share out of order"),
        tuple(
            (load, entries, measure(metrics.share, same))
            for load in LOADS
            for entries, same in zip(
                SIZES[load], metrics.by_size(results["figure-5"], load), strict=True
            )
        ),
        "What the least clocks were read from.",
    )
    yield Table(
        "Loads over time",
        ("load", "clock", "published", *COUNTS, "entries published", "entries"),
        tuple(row(*one) for one in ROWS),
        "What was out of order in a run of 1,000 processes.",
    )
    yield Table(
        "Figure 10, phases",
        ("reading", *PHASES),
        tuple(
            (
                SHIFTED_AS[name],
                *(measure(read, results[name]) for read in metrics.phases(shift).values()),
            )
            for name, shift in SHIFTS.items()
        ),
        "Deliveries out of order per second, in the phases between the shift and the looks at the "
        "balance: 50, 70 and 90 s, or 50, 60 and 80 s.",
    )
    yield Table(
        "Bytes of a message",
        ("processes", "broadcasts/s", "clock", "bytes added"),
        tuple(
            (nodes, load, label, measure(metrics.header_bytes, runs))
            for nodes, load, label, runs in metrics.byte_runs(results)
        ),
        "Packets of rounds and requests included. Of the three, the fixed clock errs.",
    )
    yield _least_clocks(claims)
    # Every seed has its peaks elsewhere: a mean over seeds would have none.
    one = {name: results[name][:1] for name in ("random", "random-own", "random-fixed")}
    bells = {"one bell": results["bell"], "two bells": results["two-bells"]}
    own = {"one bell, own components": results["bell-own"]}
    for name, title, series, lines in (
        ("Figure 6", "Load that comes and goes", "broadcasts", bells),
        ("Figure 7", "Clocks under bells", "entries", bells | own),
        ("Figure 8", "Random load, one seed", "broadcasts", {"load": one["random"]}),
        ("Figure 9", "Clocks under the random load, one seed", "entries",
         {"random": one["random"], "own components": one["random-own"]}),
        ("Errors under a bell", "Errors under one bell", "violations",
         {"dcs": results["bell"], "fixed": results["bell-fixed"]}),
        ("Errors under the random load", "Errors under the random load, one seed", "violations",
         {"dcs": one["random"], "fixed": one["random-fixed"]}),
        ("Figure 10", "Errors as senders shift", "violations",
         {SHIFTED_AS[name]: results[name] for name in SHIFTS}),
    ):  # fmt: skip
        yield _over_time(name, title, series, lines)


def _formula(load: float, target: float) -> float:
    return float(size(rate=load, nodes=2000, error=target).entries)


def _least_clocks(claims: Claims) -> Figure:
    shares = {target: f"share {target:.6f}".rstrip("0") for target in TARGETS}
    measured = [
        claims.line(share, "Figure 5", {load: _least(target, load) for load in LOADS})
        for target, share in shares.items()
    ]
    formula = [
        model_series(
            f"{share}, formula of precedes size", [(load, _formula(load, target)) for load in LOADS]
        )
        for target, share in shares.items()
    ]
    return Figure(
        name="Figure 5",
        title="Least entries of a clock by load and share of errors, 2,000 nodes",
        x_label="broadcasts per second, whole group",
        y_label="entries",
        series=(*measured, *formula),
        alt="Entries of the least clock over the load for five shares of errors: more with the "
        "load, faster than linearly, and more for fewer errors; next to them the formula's.",
        log_y=True,
    )


def _over_time(name: str, title: str, series: str, lines: dict[str, Sequence[Run]]) -> Figure:
    """A series of the results over time, in intervals of 10 s, and its published mean."""
    step, curves = metrics.STEP_S, []
    read = metrics.over_intervals if series == "entries" else metrics.per_second
    for label, runs in lines.items():
        end_s = int(runs[0]["scenario"]["duration_s"]) // step * step
        points = [
            (start_s + step / 2, measure(read(series, start_s, start_s + step), runs))
            for start_s in range(0, end_s, step)
        ]
        curves.append(measured_series(label, points))
    if name in MEANS:
        load = MEANS[name]
        level = float(PUBLISHED[load]["entries"])
        ends = [(0.0, level), (LOADS_OVER_TIME[load].duration_s, level)]
        curves.append(published_series("mean size, published", ends))
    return Figure(
        name=name,
        title=title,
        x_label="seconds",
        y_label=LABELS[series],
        series=tuple(curves),
        alt=f"{LABELS[series]} over time, for {' and '.join(lines)}.",
    )
