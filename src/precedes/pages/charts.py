"""Figures as SVG, for a page or alone: no outside resources, colours from the page's style.

Every mark has its values in words, and a page may make it a link. Long lines are drawn whole, with
marks at some of their points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, NamedTuple

from precedes.pages import colours
from precedes.pages.axes import FONT, Axis, at_data, linear, logarithmic, thinned, width_of
from precedes.pages.figures import Figure, Point, Series
from precedes.pages.numbers import grouped

WIDTH: Final = 480.0
HEIGHT: Final = 210.0  # of the plot alone
TOP: Final = 30.0
RIGHT: Final = WIDTH - 12.0
ZERO: Final = 24.0  # between a logarithmic axis and the place of 0
SAMPLE: Final = 26.0  # of a line, in the legend
# A longer line has no mark at each point, and a band for its intervals.
MARKED_MAX: Final = 40
MARKS_OF_LONG: Final = 12
DASHES: Final = {"measured": "", "published": "6 3", "model": "1.5 3"}
# Marks around 0, 0; those of published values are hollow.
SHAPES: Final = (
    "m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",
    "m-3.3-3.3h6.6v6.6h-6.6z",
    "m0-4.2l4 7h-8z",
    "m0-4.6l4.6 4.6l-4.6 4.6l-4.6-4.6z",
    "m0 4.2l4-7h-8z",
    "m-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "m-4.2-2.2l2-2l2.2 2.2l2.2-2.2l2 2l-2.2 2.2l2.2 2.2l-2 2l-2.2-2.2l-2.2 2.2l-2-2l2.2-2.2z",
    "m0-5l1.3 3.6h3.7l-3 2.4l1.2 3.8l-3.2-2.3l-3.2 2.3l1.2-3.8l-3-2.4h3.7z",
)


class Link(NamedTuple):
    """The target of a mark, and its text."""

    address: str
    words: str


@dataclass(frozen=True)
class _Plot:
    figure: Figure
    x: Axis
    y: Axis
    command: str
    links: Mapping[tuple[int, int], Link]

    def at(self, point: Point) -> tuple[float, float]:
        return self.x.at(point.x), self.y.at(point.y)


def svg(
    figure: Figure,
    *,
    name: str,
    command: str = "",
    links: Mapping[tuple[int, int], Link] | None = None,
) -> str:
    """A figure as an SVG element of a page; ``name`` begins all its ids.

    ``command`` repeats what is shown, ``links`` has the targets of marks, by the places of series
    and point. The same figure gives the same text. Values that are not above 0 have a place of
    their own below a logarithmic axis, and an interval that reaches there ends at it.
    """
    plot = _laid_out(figure, command, links or {})
    parts = [*_axes(plot)]
    for place, series in enumerate(figure.series):
        parts += _series(plot, place, series)
    bottom = _bottom(plot)
    legend, height = _legend(figure, bottom + 42)
    parts += legend
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-labelledby="{name}-alt" '
        f'font-size="{FONT:g}" fill="currentColor">'
        f'<title id="{name}-alt">{escape(figure.alt)}</title>{"".join(parts)}</svg>'
    )


def picture(figure: Figure) -> str:
    """A figure as a file of its own, with its colours."""
    ink = "svg { color: var(--ink); background: var(--paper); font-family: sans-serif; }"
    body = svg(figure, name="picture")
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {body.removeprefix("<svg ")}'
    title_end = head.index("</title>") + len("</title>")
    return f"{head[:title_end]}<style>\n{colours()}{ink}\n</style>{head[title_end:]}\n"


def _laid_out(figure: Figure, command: str, links: Mapping[tuple[int, int], Link]) -> _Plot:
    points = [point for series in figure.series for point in series.points]
    xs, ys = [point.x for point in points], [point.y for point in points]
    bounds = [one for point in points for one in (point.low, point.high) if one is not None]
    end = TOP + HEIGHT
    if figure.log_y:
        has_zero = any(y <= 0 for y in ys)
        y = logarithmic(ys, bounds, end, TOP, zero=end + ZERO if has_zero else None)
    else:
        y = linear([*ys, *bounds], end, TOP, from_zero=True)
    left = 8 + max((width_of(text) for _, text in y.labels()), default=0.0) + 8
    if figure.log_x:
        zero = left + 10 if any(x <= 0 for x in xs) else None
        x = logarithmic(xs, [], left if zero is None else left + 10 + ZERO, RIGHT, zero=zero)
    else:
        x = linear(xs, left, RIGHT, from_zero=False)
    return _Plot(figure, at_data(x, xs), y, command, links)


def _bottom(plot: _Plot) -> float:
    return plot.y.start + (0 if plot.y.zero is None else ZERO + 10)


def _axes(plot: _Plot) -> Iterable[str]:
    """Grid, ticks and names; 0 of a logarithmic axis is behind a gap."""
    left = min(plot.x.start, plot.x.start if plot.x.zero is None else plot.x.zero - 10)
    bottom = _bottom(plot)
    grid = "".join(f"M{left:.1f} {place:.1f}H{RIGHT:g}" for place, _ in plot.y.labels())
    ticks = thinned(plot.x.labels())
    marks = "".join(f"M{place:.1f} {bottom:.1f}v5" for place, _ in ticks)
    yield f'<path d="{grid}" stroke="currentColor" stroke-opacity=".15" fill="none"/>'
    lines = f"M{left:.1f} {bottom:.1f}H{RIGHT:g}{marks}"
    yield f'<path d="{lines}" stroke="currentColor" fill="none"/>'
    if plot.y.zero is not None:
        yield _gap(left, plot.y.start + ZERO / 2, is_upright=True)
    if plot.x.zero is not None:
        yield _gap(plot.x.zero + ZERO / 2 + 4, bottom, is_upright=False)
    for place, text in plot.y.labels():
        yield f'<text x="{left - 8:.1f}" y="{place + 4.5:.1f}" text-anchor="end">{text}</text>'
    for place, text in ticks:
        anchor = "end" if place + width_of(text) / 2 > WIDTH else "middle"
        x = WIDTH if anchor == "end" else place
        yield f'<text x="{x:.1f}" y="{bottom + 19:.1f}" text-anchor="{anchor}">{text}</text>'
    figure = plot.figure
    yield f'<text x="0" y="14" font-style="italic">{escape(figure.y_label)}</text>'
    yield (
        f'<text x="{RIGHT:g}" y="{bottom + 37:.1f}" text-anchor="end" font-style="italic">'
        f"{escape(figure.x_label)}</text>"
    )


def _gap(x: float, y: float, *, is_upright: bool) -> str:
    """Two short strokes: the axis is broken here."""
    if is_upright:
        path = f"M{x - 4:.1f} {y:.1f}l8-4m-8 8l8-4"
    else:
        path = f"M{x:.1f} {y + 4:.1f}l4-8m2 8l4-8"
    return f'<path d="{path}" stroke="currentColor" fill="none"/>'


def colour_of(figure: Figure, series: Series) -> str:
    """The n-th measured and the n-th published line share a colour, if there are equally many."""
    alike = [one for one in figure.series if one.kind == series.kind]
    measured = sum(one.kind == "measured" for one in figure.series)
    if series.kind != "measured" and measured and len(alike) != measured:
        return "currentColor"
    return f"var(--series-{alike.index(series) + 1})"


def _series(plot: _Plot, place: int, series: Series) -> Iterable[str]:
    colour = colour_of(plot.figure, series)
    line = _path(plot.at(point) for point in _on_axes(plot, series))
    dash = _dash(plot.figure, series)
    yield f'<g stroke="{colour}" fill="{colour}">'
    is_long = len(series.points) > MARKED_MAX
    if is_long:
        yield _band(plot, series)
    yield f'<path d="{line}" fill="none" stroke-width="{1.4 if is_long else 1.8}"{dash}/>'
    if not is_long and (bars := _bars(plot, series)):
        yield f'<path d="{bars}" fill="none" stroke-width="1.2"/>'
    every = -(-len(series.points) // MARKS_OF_LONG) if is_long else 1
    shape = SHAPES[_number(plot.figure, series) % len(SHAPES)]
    for number, point in list(enumerate(series.points))[every // 2 :: every]:
        yield _mark(plot, (place, number), series, point, shape)
    yield "</g>"


def _number(figure: Figure, series: Series) -> int:
    return [one for one in figure.series if one.kind == series.kind].index(series)


def _dash(figure: Figure, series: Series) -> str:
    """The dashes that distinguish several published lines of one colour."""
    dashes = DASHES[series.kind]
    if dashes and colour_of(figure, series) == "currentColor" and _number(figure, series):
        dashes = f"{6 + 6 * _number(figure, series)} 3 2 3"
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def _on_axes(plot: _Plot, series: Series) -> Iterable[Point]:
    """The points that a line connects: those at 0 are apart from a logarithmic axis."""
    figure = plot.figure
    return (
        point
        for point in series.points
        if not (figure.log_y and point.y <= 0) and not (figure.log_x and point.x <= 0)
    )


def _path(places: Iterable[tuple[float, float]]) -> str:
    return "M" + " ".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _bars(plot: _Plot, series: Series) -> str:
    """Error bars of intervals that are not points."""
    bars = []
    for point in series.points:
        if point.low is None or point.high is None or point.low == point.high:
            continue
        x = plot.x.at(point.x)
        low, high = plot.y.at(point.low), plot.y.at(point.high)
        bars.append(f"M{x - 3:.1f} {low:.1f}h6m-3 0V{high:.1f}m-3 0h6")
    return "".join(bars)


def _band(plot: _Plot, series: Series) -> str:
    bounded = [
        (plot.x.at(point.x), plot.y.at(point.low), plot.y.at(point.high))
        for point in series.points
        if point.low is not None and point.high is not None
    ]
    if not bounded:
        return ""
    there = _path((x, low) for x, low, _ in bounded)
    back = _path((x, high) for x, _, high in reversed(bounded)).removeprefix("M")
    return f'<path d="{there}L{back}z" stroke="none" fill-opacity=".15"/>'


def _mark(plot: _Plot, which: tuple[int, int], series: Series, point: Point, shape: str) -> str:
    x, y = plot.at(point)
    link = plot.links.get(which)
    words = escape("; ".join(filter(None, (
        said(plot.figure, series, point), link.words if link else "", plot.command
    ))))  # fmt: skip
    fill = "" if series.kind == "measured" else ' fill="var(--paper)"'
    inner = f'<title>{words}</title><path d="M{x:.1f} {y:.1f}{shape}"{fill}/>'
    if link:
        return f'<a class="point" href="{escape(link.address)}" tabindex="-1">{inner}</a>'
    return f'<g class="point">{inner}</g>'


def said(figure: Figure, series: Series, point: Point) -> str:
    """A point in words: its name, value, interval and source."""
    text = f"{legend_of(series)}, {figure.x_label} {grouped(point.x)}: {grouped(point.y)}"
    if point.low is not None and point.high is not None and point.low != point.high:
        text += f" ({grouped(point.low)} to {grouped(point.high)})"
    return f"{text}, {point.note}" if point.note else text


def legend_of(series: Series) -> str:
    """The name of a line; published ones are marked once."""
    if series.kind == "published" and "published" not in series.label:
        return f"{series.label}, published"
    return series.label


def _entries(figure: Figure) -> Iterable[tuple[Series, str, str]]:
    """Lines of the legend: one for all that differ from the measured ones in kind alone."""
    seen = set()
    for series in figure.series:
        colour = colour_of(figure, series)
        if series.kind == "measured" or colour == "currentColor":
            yield series, legend_of(series), colour
        elif series.kind not in seen:
            seen.add(series.kind)
            text = series.label.partition(", ")[2] or "formula"
            yield series, "published" if series.kind == "published" else text, "currentColor"


def _legend(figure: Figure, top: float) -> tuple[list[str], float]:
    """Draw the lines and their names, in rows; return where they end."""
    parts = []
    x, y = 0.0, top + 14
    for series, text, colour in _entries(figure):
        wide = SAMPLE + 6 + width_of(text) + 14
        if x and x + wide > WIDTH + 14:
            x, y = 0.0, y + 19
        shape = SHAPES[_number(figure, series) % len(SHAPES)]
        fill = "" if series.kind == "measured" else ' fill="var(--paper)"'
        parts.append(
            f'<g stroke="{colour}" fill="{colour}"><path d="M{x:.1f} {y - 4:.1f}h{SAMPLE:g}" '
            f'stroke-width="1.8"{_dash(figure, series)}/>'
            f'<path d="M{x + SAMPLE / 2:.1f} {y - 4:.1f}{shape}"{fill}/></g>'
            f'<text x="{x + SAMPLE + 6:.1f}" y="{y:.1f}">{escape(text)}</text>'
        )
        x += wide
    return parts, y + 8
