"""Tables, figures and headlines of Wilhelm et al. 2023, published and measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from precedes.parts.sizing import size
from precedes_papers.measured import Results, Run, measure
from precedes_papers.p002 import PUBLISHED, metrics
from precedes_papers.p002.experiments import (
    LARGER,
    LOADS,
    LOADS_OVER_TIME,
    ONE_TARGET,
    SIZES,
    TARGETS,
)
from precedes_papers.p002.metrics import COUNTS
from precedes_papers.shown import (
    Cell,
    Figure,
    Headlines,
    Printed,
    Series,
    Statement,
    Table,
    measured_series,
    model_series,
    published_series,
)

LABELS: Final = {  # of series of the results
    "entries": "entries of a clock",
    "broadcasts": "broadcasts per second",
    "violations": "deliveries out of order per second",
}
MEANS: Final = {"Figure 7": "bell", "Figure 9": "random"}  # figures with a published mean size


BELLS: Final = ("one bell", "two bells")

HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says="under a load that comes and goes, {} messages are out of order with a clock "
            "that follows it",
            short="out of order, clock that follows",
            item="Section V-B1",
            keys={load: f"messages out of order, dcs, {load}" for load in BELLS},
        ),
        Statement(
            says="and {} with a fixed clock of the same mean size",
            short="out of order, fixed clock",
            item="Section V-B1",
            keys={load: f"messages out of order, fixed, {load}" for load in BELLS},
        ),
        Statement(
            says="under a random load it has {} times fewer of them than a fixed clock",
            short="times fewer, random load",
            item="Section V-B2",
            keys={
                "clocks of the printed size": "times fewer messages out of order, dcs, random load",
                "target of the bells": "times fewer messages out of order, dcs with the target of "
                "the bells, random load",
            },
        ),
        Statement(
            says="for the same share of errors, twice the load takes a clock more than {} times "
            "as large",
            short="growth of the least clock",
            item="Figure 5",
            keys={
                f"{load:g}/s, share {TARGETS[0]:g}": "growth of the least clock to "
                f"{load:g}/s at {TARGETS[0]:g}"
                for load in LOADS[1:]
            },
        ),
        Statement(
            says="{} deliveries are missing, repeated or of nothing",
            short="deliveries missing or repeated",
            item="Theorem 3",
            keys={"components of 50": "everything is delivered once, components of 50"},
        ),
    ),
    figures=("Figure 5", "Figure 7"),
)

# Load, clock, experiment and key in PUBLISHED; what is published of the clock, if anything.
ROWS: Final = (
    ("one bell", "dcs, paper's components", "bell", "bell", "dcs"),
    ("one bell", "dcs, own components", "bell-own", "bell", "dcs"),
    ("one bell", "fixed", "bell-fixed", "bell", "fixed"),
    ("one bell", "fixed, larger", LARGER, "bell", ""),
    ("two bells", "dcs, paper's components", "two-bells", "bell", "dcs"),
    ("two bells", "fixed", "two-bells-fixed", "bell", "fixed"),
    ("random", "dcs, paper's components", "random", "random", "dcs"),
    ("random", "dcs, paper's components, the bells' target", ONE_TARGET, "random", "dcs"),
    ("random", "dcs, own components", "random-own", "random", "dcs"),
    ("random", "fixed", "random-fixed", "random", "fixed"),
)


def tables(results: Results) -> list[Table]:
    """Least clocks and what they were read from, errors and the published ones, bytes."""
    least: list[tuple[Cell, ...]] = []
    shares: list[tuple[Cell, ...]] = []
    for load in LOADS:
        sizes = metrics.by_size(results["figure-5"], load)
        for target in TARGETS:
            measured = measure(metrics.least_entries(target), *sizes)
            least.append((load, target, measured, float(_formula(load, target))))
        for entries, same in zip(SIZES[load], sizes, strict=True):
            shares.append((load, entries, measure(metrics.share, same)))
    of_bytes = [
        (nodes, load, label, measure(metrics.header_bytes, runs))
        for nodes, load, label, runs in metrics.byte_runs(results)
    ]
    return [
        Table(
            "Figure 5, least clocks",
            ("broadcasts/s", "share out of order", "entries", "entries by precedes size"),
            tuple(least),
            "2,000 processes, two entries each.",
        ),
        Table(
            "Figure 5, shares",
            ("broadcasts/s", "entries", "share out of order"),
            tuple(shares),
            "What the least clocks were read from.",
        ),
        Table(
            "Loads over time",
            ("load", "clock", "published", *COUNTS, "entries published", "entries"),
            tuple(_load_row(results, *row) for row in ROWS),
            "What was out of order in a run of 1,000 processes.",
        ),
        Table(
            "Bytes of a message",
            ("processes", "broadcasts/s", "clock", "bytes added"),
            tuple(of_bytes),
            "Packets of rounds and requests included. Of the three, the fixed clock errs.",
        ),
    ]


def _load_row(
    results: Results, load: str, clock: str, experiment: str, where: str, kind: str
) -> tuple[Cell, ...]:
    printed, runs = PUBLISHED[where], results[experiment]
    errors = Printed(printed[kind]) if kind else None
    wrong = [measure(metrics.out_of_order(count), runs) for count in COUNTS]
    if kind == "dcs":
        entries = (Printed(printed["entries"]), measure(metrics.entries, runs))
        return (load, clock, errors, *wrong, *entries)
    return (load, clock, errors, *wrong, None, runs[0]["scenario"]["parameters"]["entries"])


def _formula(load: float, target: float) -> int:
    return size(rate=load, nodes=2000, error=target).entries


def figures(results: Results) -> list[Figure]:
    """Figures 5 to 10, and errors over time."""
    # Every seed has its peaks elsewhere: a mean over seeds would have none.
    one = {name: results[name][:1] for name in ("random", "random-own", "random-fixed")}
    bells = {"one bell": results["bell"], "two bells": results["two-bells"]}
    sizes = {**bells, "one bell, own components": results["bell-own"]}
    random_sizes = {"random": one["random"], "own components": one["random-own"]}
    errors = {"dcs": results["bell"], "fixed": results["bell-fixed"]}
    random_errors = {"dcs": one["random"], "fixed": one["random-fixed"]}
    balanced = {name: results[name] for name in ("balanced", "unbalanced")}
    return [
        _figure_5(results),
        *(
            _over_time(name, title, series, lines)
            for name, title, series, lines in (
                ("Figure 6", "Load that comes and goes", "broadcasts", bells),
                ("Figure 7", "Clocks under bells", "entries", sizes),
                ("Figure 8", "Random load, one seed", "broadcasts", {"load": one["random"]}),
                ("Figure 9", "Clocks under the random load, one seed", "entries", random_sizes),
                ("Errors under a bell", "Errors under one bell", "violations", errors),
                ("Errors under the random load", "Errors under the random load, one seed",
                 "violations", random_errors),
                ("Figure 10", "Errors as senders shift", "violations", balanced),
            )
        ),
    ]  # fmt: skip


def _figure_5(results: Results) -> Figure:
    runs = {load: metrics.by_size(results["figure-5"], load) for load in LOADS}
    measured = [
        measured_series(
            f"share {_plain(target)}",
            [(load, measure(metrics.least_entries(target), *runs[load])) for load in LOADS],
        )
        for target in TARGETS
    ]
    formula = [
        model_series(
            f"share {_plain(target)}, formula of precedes size",
            [(load, _formula(load, target)) for load in LOADS],
        )
        for target in TARGETS
    ]
    return Figure(
        name="Figure 5",
        title="Least entries of a clock by load and share of errors, 2,000 nodes",
        x_label="broadcasts per second, whole group",
        y_label="entries",
        series=(*measured, *formula),
        alt="Entries of the least clock over the load for five shares of errors: more with the "
        "load, faster than linearly, and more for fewer errors; beside them the formula's.",
        log_y=True,
    )


def _plain(share: float) -> str:
    return f"{share:.6f}".rstrip("0")


def _over_time(name: str, title: str, series: str, lines: dict[str, Sequence[Run]]) -> Figure:
    """A series of the results over time, in intervals of 10 s, and its published mean."""
    found = [_line(series, label, runs) for label, runs in lines.items()]
    if name in MEANS:
        load = MEANS[name]
        level = float(PUBLISHED[load]["entries"])
        ends = [(0.0, level), (LOADS_OVER_TIME[load].duration_s, level)]
        found.append(published_series("mean size, published", ends))
    return Figure(
        name=name,
        title=title,
        x_label="seconds",
        y_label=LABELS[series],
        series=tuple(found),
        alt=f"{LABELS[series]} over time, for {' and '.join(lines)}.",
    )


def _line(series: str, label: str, runs: Sequence[Run]) -> Series:
    read = metrics.over_intervals if series == "entries" else metrics.per_second
    step = metrics.STEP_S
    end_s = int(runs[0]["scenario"]["duration_s"]) // step * step
    points = [
        (start_s + step / 2, measure(read(series, start_s, start_s + step), runs))
        for start_s in range(0, end_s, step)
    ]
    return measured_series(label, points)
