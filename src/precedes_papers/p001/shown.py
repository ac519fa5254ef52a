"""Tables, figures and headlines of Rodrigues et al. 2018, published and measured."""

from __future__ import annotations

from typing import Final

from precedes_papers.measured import Results, Run, measure
from precedes_papers.p001 import CASES, PUBLISHED
from precedes_papers.p001.experiments import PROFILE, PROFILED, SIZES
from precedes_papers.p001.metrics import COLUMNS, runs_of
from precedes_papers.shown import (
    Cell,
    Figure,
    Headlines,
    Printed,
    Series,
    Statement,
    Table,
    measured_series,
    published_series,
)

LARGEST: Final = SIZES[-1]
HOW: Final = {"without bundles": "NO-AGGR", "bundled": "SMALL2"}

HEADLINES: Final = Headlines(
    statements=(
        *(
            Statement(
                says=f"when each of {LARGEST:,} processes broadcasts once, {{}} packets are sent "
                f"{how} ({case})",
                short=f"packets, {how}",
                item="Table 4, FF",
                keys={"": f"{case}, {LARGEST} processes"},
            )
            for how, case in HOW.items()
        ),
        *(
            Statement(
                says=f"that takes {{}} units of time {how}",
                short=f"units of time, {how}",
                item="Table 3, FF",
                keys={"": f"{case}, {LARGEST} processes"},
            )
            for how, case in HOW.items()
        ),
        Statement(
            says="bundles are faster from {} processes on",
            short="processes from which bundles are faster",
            item="Section 6.3",
            keys={
                case: f"least number of processes for which {case} is faster"
                for case in ("SMALL2", "BIG2")
            },
        ),
        Statement(
            says=f"with log2(n) - 1 crashes {LARGEST:,} processes take {{}} units with bundles",
            short="units of time, bundled, with crashes",
            item="Table 5",
            keys={"": f"SMALL2, {LARGEST} processes"},
        ),
    ),
    figures=("Figure 3, messages", "Figure 3, latency"),
    readings="Time is in the paper's units. NO-AGGR bundles nothing; SMALL and BIG have "
    "messages of 24 and of 500 bytes, which wait up to 2 or 10 units for others to share a packet.",
)


def tables(results: Results) -> list[Table]:
    """Tables 2 to 5, each cell published and measured."""
    header = [text for case in CASES for text in (f"{case}, published", f"{case}, measured")]
    found = []
    for item, column in COLUMNS.items():
        rows = []
        for number in column.rows:
            row: list[Cell] = [number]
            for case in CASES:
                printed = Printed(PUBLISHED[item][case][number])
                row += [printed, column.cell(results, case, number)]
            rows.append(tuple(row))
        found.append(Table(item, (column.axis, *header), tuple(rows)))
    return found


def figures(results: Results) -> list[Figure]:
    """Figure 3 from the fault-free runs, and Figure 4 from those in which p0 is watched."""
    return [
        _figure_3(results, "Figure 3, latency", "Table 3, FF", "latency", is_shared=False),
        _figure_3(
            results, "Figure 3, messages", "Table 4, FF", "messages per process", is_shared=True
        ),
        _figure_4(results, "Figure 4, items", "items", "items in a packet"),
        _figure_4(results, "Figure 4, bytes", "bytes", "bytes of a packet"),
    ]


def _figure_3(results: Results, name: str, item: str, label: str, *, is_shared: bool) -> Figure:
    """A table as a plot; ``is_shared``: of each process its share."""
    read = COLUMNS[item].read

    def share(run: Run) -> float:
        return read(run) / (run["nodes"] if is_shared else 1)

    measured, published = [], []
    for case in CASES:
        runs = {n: runs_of(results, "fault-free", case, nodes=n) for n in SIZES}
        measured.append(measured_series(case, [(float(n), measure(share, runs[n])) for n in SIZES]))
        printed = PUBLISHED[item][case]
        points = [(float(n), printed[n] / (n if is_shared else 1)) for n in SIZES]
        published.append(published_series(case, points))
    return Figure(
        name=name,
        title=f"One broadcast by each process, fault-free: {label}",
        x_label="processes",
        y_label=label,
        series=(*measured, *published),
        alt=f"The {label} of the five scenarios over the number of processes, measured and "
        "published.",
        log_x=True,
        log_y=True,
    )


def _figure_4(results: Results, name: str, what: str, label: str) -> Figure:
    series: list[Series] = []
    for case in PROFILED:
        runs = runs_of(results, "profile", case)
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
