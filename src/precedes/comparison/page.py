"""The page of a comparison: the answer first, then the table, reasons, pictures and the rule.

The template page.html has the HTML, table.html that of the table; this module computes their
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from precedes.comparison import tables
from precedes.comparison.rows import COSTS, Row, power
from precedes.pages import charts, document, read, template
from precedes.pages.figures import SERIES_MAX, Figure, Point, Series

if TYPE_CHECKING:
    from precedes.comparison.result import Comparison

# Files in the directory of the page.
FILES: Final = (
    *("comparison.json", "table.md", "table.tex", "table.csv", "sizes.csv", "latency.csv"),
)
# The shown part of a distribution.
SHARE_MIN: Final = 0.001
SHARE_MAX: Final = 0.9999
COST_LABELS: Final = {
    "bytes_per_delivery": ("Bytes", "bytes per delivery"),
    "packets_per_delivery": ("Packets", "packets per delivery"),
    "latency_p99_ms": ("Latency", "p99 latency, ms"),
}


def page(comparison: Comparison, *, links: Mapping[str, str], command: str = "") -> str:
    """The whole page; ``links`` are pages that show a run of a row, by its label."""
    scenario = comparison.load.scenario
    title = f"Which protocol for {scenario.nodes:,} nodes at {scenario.rate:g} broadcasts/s?"
    parameters = [
        (row.label, ", ".join(f"{name} = {value}" for name, value in row.parameters.items()))
        for row in comparison.rows
    ]
    body = template("precedes.comparison", "page.html").render(
        comparison=comparison,
        title=title,
        links=links,
        command=command,
        columns=tables.shown(comparison),
        pairs=tables.pairs(comparison),
        reasons=tables.reasons(comparison),
        parameters=[(label, words or "none") for label, words in parameters],
        figures=_figures(comparison),
        files=FILES,
        svg=charts.svg,
        CPU_NOTE=tables.CPU_NOTE,
    )
    return document(title=title, body=body, style=read("precedes.comparison", "page.css"))


def table(comparison: Comparison) -> str:
    """The full table alone, for a notebook."""
    module: Any = template("precedes.comparison", "table.html").module
    return str(module.ranked(tables.shown(comparison), tables.pairs(comparison), {}))


def _figures(comparison: Comparison) -> list[Figure]:
    """All plots of the rows; if there are too many to distinguish, those that rank first."""
    rows = [row for row in comparison.rows if row.bytes_per_delivery is not None][:SERIES_MAX]
    if not rows:
        return []
    front = [place.label for place in comparison.standings if place.front]
    figures = [_tradeoff(rows, front), _distributions(rows)]
    grown = [row for row in rows if len(row.points) > 1]
    if grown:
        figures += [_growth(grown, name) for name in COSTS]
    return figures


def _tradeoff(rows: Sequence[Row], front: Sequence[str]) -> Figure:
    """Bytes against latency, with the Pareto front."""
    series = [Series(row.label, "measured", (Point(*_spot(row)),)) for row in rows]
    best = _both(row for row in rows if row.label in front)
    if len(best) > 1:
        line = tuple(Point(*_spot(row)) for row in best)
        series.insert(0, Series("Pareto front", "model", line))  # below the marks
    values = "; ".join(
        f"{row.label} {row.bytes_per_delivery:,.0f} bytes, {row.latency_p99_ms:,.1f} ms"
        for row in rows
    )
    names = ", ".join(row.label for row in best) or "nobody"
    return Figure(
        name="tradeoff",
        title=f"Bytes against latency; on the Pareto front: {names}",
        x_label="bytes per delivery",
        y_label="p99 latency, ms",
        series=tuple(series),
        alt=f"Bytes per delivery against p99 latency: {values}. On the front: {names}.",
        log_x=True,
        log_y=True,
    )


def _spot(row: Row) -> tuple[float, float]:
    assert row.bytes_per_delivery is not None
    assert row.latency_p99_ms is not None
    return float(f"{row.bytes_per_delivery:.3g}"), float(f"{row.latency_p99_ms:.3g}")


def _both(rows: Iterable[Row]) -> list[Row]:
    """The rows on the Pareto front of bytes and latency, by bytes."""
    front: list[Row] = []
    for row in sorted(rows, key=_spot):
        if not front or _spot(row)[1] < _spot(front[-1])[1]:
            front.append(row)
    return front


def _distributions(rows: Sequence[Row]) -> Figure:
    """The share of deliveries that arrived within a time."""
    values = "; ".join(
        f"{row.label} half within {row.latency_p50_ms:,.1f} ms, 99 % within "
        f"{row.latency_p99_ms:,.1f} ms"
        for row in rows
    )
    return Figure(
        name="latency",
        title="Latency of deliveries",
        x_label="ms from broadcast to delivery",
        y_label="share of deliveries",
        series=tuple(Series(row.label, "measured", _cumulative(row)) for row in rows),
        alt=f"Distribution of delivery latency: {values}.",
        log_x=True,
    )


def _cumulative(row: Row) -> tuple[Point, ...]:
    total = sum(count for _, _, count in row.histogram)
    points, below = [], 0
    for _, high_us, count in row.histogram:
        below += count
        if below / total >= SHARE_MIN:
            points.append(Point(high_us / 1000, below / total))
        if below / total > SHARE_MAX:
            break
    return tuple(points)


def _growth(rows: Sequence[Row], name: str) -> Figure:
    """A cost against the size of the group, with the fitted power of each."""
    title, label = COST_LABELS[name]
    values = "; ".join(f"{row.label} as N^{power(row.exponents[name])}" for row in rows)
    series = tuple(
        Series(
            f"{row.label}, N^{power(row.exponents[name])}",
            "measured",
            tuple(Point(point.nodes, getattr(point, name)) for point in row.points),
        )
        for row in rows
    )
    return Figure(
        name=f"growth-{title.lower()}",
        title=f"{title} as the group grows",
        x_label="nodes",
        y_label=label,
        series=series,
        alt=f"{title} per delivery against the number of nodes N, same load: {values}.",
        log_x=True,
        log_y=True,
    )
