"""Tables and figures of Wilhelm et al. 2023, published beside measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from precedes.papers.measured import Results, Run, measure
from precedes.papers.p002 import metrics
from precedes.papers.p002.experiments import (
    LARGER,
    LOADS,
    LOADS_OVER_TIME,
    ONE_TARGET,
    SIZES,
    TARGETS,
)
from precedes.papers.p002.metrics import COUNTS
from precedes.papers.p002.published import PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    model_series,
    published_series,
)
from precedes.parts.sizing import size

ENTRIES: Final = "entries of a clock"
LOAD: Final = "broadcasts per second"
ERRORS: Final = "deliveries out of order per second"


class Row(NamedTuple):
    """A kind of clock under a load: its experiment, and what is printed of it."""

    load: str
    clock: str
    experiment: str
    printed: str


ROWS: Final = (
    Row("one bell", "dcs, paper's components", "bell", "bell"),
    Row("one bell", "dcs, own components", "bell-own", "bell"),
    Row("one bell", "fixed", "bell-fixed", "bell"),
    Row("one bell", "fixed, larger", LARGER, "bell"),
    Row("two bells", "dcs, paper's components", "two-bells", "bell"),
    Row("two bells", "fixed", "two-bells-fixed", "bell"),
    Row("random", "dcs, paper's components", "random", "random"),
    Row("random", "dcs, paper's components, the bells' target", ONE_TARGET, "random"),
    Row("random", "dcs, own components", "random-own", "random"),
    Row("random", "fixed", "random-fixed", "random"),
)


def tables(results: Results) -> list[Table]:
    """Least clocks and what they were read from, errors beside the published ones, bytes."""
    return [
        *_size_tables(results),
        Table(
            name="Loads over time",
            header=("load", "clock", "published", *COUNTS, "entries published", "entries"),
            rows=tuple(_load_row(results, row) for row in ROWS),
            note="What was out of order in a run of 1,000 processes.",
        ),
        Table(
            name="Bytes of a message",
            header=("processes", "broadcasts/s", "clock", "bytes added"),
            rows=tuple(
                (nodes, load, label, measure(metrics.header_bytes, runs))
                for nodes, load, label, runs in metrics.byte_runs(results)
            ),
            note="Packets of rounds and requests included. Of the three, the fixed clock errs.",
        ),
    ]


def _size_tables(results: Results) -> list[Table]:
    runs = results["figure-5"]
    least: list[tuple[Cell, ...]] = []
    shares: list[tuple[Cell, ...]] = []
    for load in LOADS:
        sizes = metrics.by_size(runs, load)
        for target in TARGETS:
            entries = size(rate=load, nodes=2000, error=target).entries
            measured = measure(metrics.least_entries(target), *sizes)
            least.append((load, target, measured, float(entries)))
        for entries, same in zip(SIZES[load], sizes, strict=True):
            shares.append((load, entries, measure(metrics.share, same)))
    return [
        Table(
            name="Figure 5, least clocks",
            header=("broadcasts/s", "share out of order", "entries", "entries by precedes size"),
            rows=tuple(least),
            note="2,000 processes, two entries each.",
        ),
        Table(
            name="Figure 5, shares",
            header=("broadcasts/s", "entries", "share out of order"),
            rows=tuple(shares),
            note="What the least clocks were read from.",
        ),
    ]


def _load_row(results: Results, row: Row) -> tuple[Cell, ...]:
    printed, runs = PUBLISHED[row.printed], results[row.experiment]
    wrong = [measure(metrics.out_of_order(count), runs) for count in COUNTS]
    if row.clock.startswith("fixed"):
        entries = runs[0]["scenario"]["parameters"]["entries"]
        errors = Printed(printed["fixed"]) if row.clock == "fixed" else None
        return (row.load, row.clock, errors, *wrong, None, entries)
    size_of = (Printed(printed["entries"]), measure(metrics.entries, runs))
    return (row.load, row.clock, Printed(printed["dcs"]), *wrong, *size_of)


def figures(results: Results) -> list[Figure]:
    """Figures 5 to 10, and errors over time."""
    bell, random = LOADS_OVER_TIME["bell"], LOADS_OVER_TIME["random"]
    bells = {"one bell": results["bell"], "two bells": results["two-bells"]}
    # Every seed has its peaks elsewhere: a mean over seeds would have none.
    one = {name: results[name][:1] for name in ("random", "random-own", "random-fixed")}
    sizes = {**bells, "one bell, own components": results["bell-own"]}
    balanced = {name: results[name] for name in ("balanced", "unbalanced")}
    return [
        _figure_5(results),
        _over_time("Figure 6", "Load that comes and goes", LOAD, "broadcasts", bells),
        _over_time(
            "Figure 7",
            "Clocks under bells",
            ENTRIES,
            "entries",
            sizes,
            mean=("bell", bell.duration_s),
        ),
        _over_time(
            "Figure 8", "Random load, one seed", LOAD, "broadcasts", {"load": one["random"]}
        ),
        _over_time(
            "Figure 9",
            "Clocks under the random load, one seed",
            ENTRIES,
            "entries",
            {"random": one["random"], "own components": one["random-own"]},
            mean=("random", random.duration_s),
        ),
        _over_time(
            "Errors under a bell",
            "Errors under one bell",
            ERRORS,
            "violations",
            {"dcs": results["bell"], "fixed": results["bell-fixed"]},
        ),
        _over_time(
            "Errors under the random load",
            "Errors under the random load, one seed",
            ERRORS,
            "violations",
            {"dcs": one["random"], "fixed": one["random-fixed"]},
        ),
        _over_time("Figure 10", "Errors as senders shift", ERRORS, "violations", balanced),
    ]


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
            [(load, size(rate=load, nodes=2000, error=target).entries) for load in LOADS],
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


def _over_time(
    name: str,
    title: str,
    label: str,
    series: str,
    lines: dict[str, Sequence[Run]],
    *,
    mean: tuple[str, float] | None = None,
) -> Figure:
    """Something over time in intervals of 10 s; ``mean`` is printed, up to its time."""
    read = metrics.over_intervals if series == "entries" else metrics.per_second
    found: list[Series] = [_line(read, series, key, runs) for key, runs in lines.items()]
    if mean is not None:
        printed, end_s = mean
        level = float(PUBLISHED[printed]["entries"])
        found.append(published_series("mean size, published", [(0.0, level), (end_s, level)]))
    return Figure(
        name=name,
        title=title,
        x_label="seconds",
        y_label=label,
        series=tuple(found),
        alt=f"{label} over time, for {' and '.join(lines)}.",
    )


def _line(
    read: Callable[[str, int, int], Callable[[Run], float]],
    series: str,
    label: str,
    runs: Sequence[Run],
) -> Series:
    step = metrics.STEP_S
    end_s = int(runs[0]["scenario"]["duration_s"]) // step * step
    return measured_series(
        label,
        [
            (start_s + step / 2, measure(read(series, start_s, start_s + step), runs))
            for start_s in range(0, end_s, step)
        ],
    )
