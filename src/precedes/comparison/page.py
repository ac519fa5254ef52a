"""The page of a comparison: the answer first, then the table, reasons, pictures and the rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from precedes.comparison import tables
from precedes.comparison.rows import COSTS, Row, power
from precedes.pages import charts, document, read
from precedes.pages.figures import SERIES_MAX, Figure, Point, Series

if TYPE_CHECKING:
    from precedes.comparison.result import Comparison

RULE: Final = (
    "<b>A protocol serves the load</b> if it delivers everything and keeps order: it promises "
    "causal order and the audit of its traces finds no violation{allowed}.",
    "<b>The cheaper comes first.</b> The cost of a delivery is the product of its bytes, its "
    "packets and the 99th percentile of its latency, so that half the bytes make up for twice the "
    "latency. Nobody is first who is worse than another in one of the three and better in none.",
    "<b>Ties.</b> Costs that agree in three digits are equal: then exact order goes before "
    "probable order, then fewer bytes, lower latency, fewer packets, the name.",
)
ALLOWED: Final = (
    "; or it promises order with high probability, and the upper end of the 95 % interval of its "
    "errors is at most {error:g}"
)


# What of a distribution is worth looking at.
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
    parts = [
        f"<h1>{escape(title)}</h1>",
        _answer(comparison),
        f"<p>Load: {escape(str(comparison.load))}.</p>",
        _needs(comparison),
        _table(comparison, links),
        _reasons(comparison),
        _pictures(comparison),
        _rule(comparison),
        _parameters(comparison),
        _origin(comparison, command),
    ]
    body = "<main>\n" + "\n".join(part for part in parts if part) + "\n</main>"
    return document(title=title, body=body, style=read("precedes.comparison", "page.css"))


def _answer(comparison: Comparison) -> str:
    found = comparison.recommendation
    if found.label is None:
        return f'<p class="answer none"><strong>None:</strong> {escape(found.sentence)}</p>'
    rest = found.sentence.removeprefix(found.label)
    return f'<p class="answer"><strong>{escape(found.label)}</strong>{escape(rest)}.</p>'


def _needs(comparison: Comparison) -> str:
    found = comparison.recommendation.alternatives
    lines = [(f"If {one.need}", f"{one.label}: {one.how}") for one in found]
    return f"<h2>For another need</h2>\n{_listed(lines)}" if lines else ""


def _listed(lines: Iterable[tuple[str, str]]) -> str:
    items = [f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in lines]
    return f'<dl class="why">{"".join(items)}</dl>'


def _pictures(comparison: Comparison) -> str:
    found = [
        f'<figure id="{figure.name}"><figcaption>{escape(figure.title)}</figcaption>'
        f"{charts.svg(figure, name=figure.name)}</figure>"
        for figure in _figures(comparison)
    ]
    if not found:
        return ""
    return '<h2>In pictures</h2>\n<div class="charts">\n' + "\n".join(found) + "\n</div>"


def _table(comparison: Comparison, links: Mapping[str, str]) -> str:
    if not comparison.rows:
        return ""
    linked = " The name of a protocol leads to a diagram of one of its runs." if links else ""
    return "\n".join(
        [
            "<h2>In numbers</h2>",
            f'<p class="quiet">By rank; what has none does not serve the load.{linked} '
            f"{tables.CPU_NOTE} A crash is one in the middle of a broadcast, and what it does is "
            "counted among the survivors.</p>",
            '<div class="frame" tabindex="0" role="region" aria-label="Protocols by rank">',
            tables.to_html(comparison, links=links),
            "</div>",
        ]
    )


def _reasons(comparison: Comparison) -> str:
    found = tables.reasons(comparison).items()
    return "\n".join(f"<h2>{title}</h2>\n{_listed(lines)}" for title, lines in found)


def _rule(comparison: Comparison) -> str:
    error = comparison.load.error
    allowed = "" if error is None else ALLOWED.format(error=error)
    items = "".join(f"<li>{text.replace('{allowed}', escape(allowed))}</li>" for text in RULE)
    return f'<h2>The rule</h2>\n<ol class="rule">{items}</ol>'


def _parameters(comparison: Comparison) -> str:
    if not comparison.rows:
        return ""
    lines = [
        (row.label, ", ".join(f"{name} = {value}" for name, value in row.parameters.items()))
        for row in comparison.rows
    ]
    return (
        "<details><summary>Parameters of the protocols</summary>\n"
        '<p class="quiet">Clocks are sized by the formula of <code>precedes size</code> for this '
        f"load.</p>\n{_listed((label, words or 'none') for label, words in lines)}</details>"
    )


def _origin(comparison: Comparison, command: str) -> str:
    made = comparison.made_by
    repeat = f" with <code>{escape(command)}</code>" if command else ""
    seeds = ", ".join(map(str, comparison.load.seeds))
    return (
        f'<p class="quiet">Made by precedes {escape(made["version"])} (sources '
        f"<code>{escape(made['sources'][:12])}</code>){repeat}; seeds {seeds}. Beside this page: "
        '<a href="comparison.json">comparison.json</a>, <a href="table.md">table.md</a>, '
        '<a href="table.tex">table.tex</a>, <a href="table.csv">table.csv</a>, '
        '<a href="sizes.csv">sizes.csv</a>, <a href="latency.csv">latency.csv</a>.</p>'
    )


def _figures(comparison: Comparison) -> list[Figure]:
    """All plots that the rows give; of more rows than can be told apart, those that rank first."""
    rows = [row for row in comparison.rows if row.bytes_per_delivery is not None][:SERIES_MAX]
    if not rows:
        return []
    front = [place.label for place in comparison.standings if place.front]
    found = [_tradeoff(rows, front), _distributions(rows)]
    grown = [row for row in rows if len(row.points) > 1]
    if grown:
        found += [_growth(grown, name) for name in COSTS]
    return found


def _tradeoff(rows: Sequence[Row], front: Sequence[str]) -> Figure:
    """Bytes against latency, with the line of those that nobody beats in both."""
    series = [Series(row.label, "measured", (Point(*_spot(row)),)) for row in rows]
    best = _both(row for row in rows if row.label in front)
    if len(best) > 1:
        line = tuple(Point(*_spot(row)) for row in best)
        series.insert(0, Series("Pareto front", "model", line))  # below the marks
    told = "; ".join(
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
        alt=f"Bytes per delivery against p99 latency: {told}. On the front: {names}.",
        log_x=True,
        log_y=True,
    )


def _spot(row: Row) -> tuple[float, float]:
    assert row.bytes_per_delivery is not None
    assert row.latency_p99_ms is not None
    return float(f"{row.bytes_per_delivery:.3g}"), float(f"{row.latency_p99_ms:.3g}")


def _both(rows: Iterable[Row]) -> list[Row]:
    """Those that no other beats in both bytes and latency, by bytes."""
    found: list[Row] = []
    for row in sorted(rows, key=_spot):
        if not found or _spot(row)[1] < _spot(found[-1])[1]:
            found.append(row)
    return found


def _distributions(rows: Sequence[Row]) -> Figure:
    """The share of deliveries that came within a time."""
    told = "; ".join(
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
        alt=f"Distribution of delivery latency: {told}.",
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
    told = "; ".join(f"{row.label} as N^{power(row.exponents[name])}" for row in rows)
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
        alt=f"{title} per delivery against the number of nodes N, same load: {told}.",
        log_x=True,
        log_y=True,
    )
