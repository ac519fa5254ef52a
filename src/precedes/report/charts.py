"""Figures as SVG for a page: no outside resources, colours from the page's style."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any, Final

from precedes.errors import UserError
from precedes.papers.shown import Figure, Series

# Drawn in these colours, and replaced by what the style of the page names: light and dark.
INK: Final = "#010203"
COLOURS: Final = tuple(f"#0a0b{number:02x}" for number in range(1, 9))
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: Final = {"measured": "-", "published": "--", "model": ":"}
SETTINGS: Final[dict[str, Any]] = {
    "svg.hashsalt": "precedes",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.markersize": 5.0,
    "lines.linewidth": 1.8,
}


def check_available() -> None:
    """Say how to get what plots need, before long work is done for them."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError(
            "the report needs matplotlib: install it with pip install 'precedes[report]'"
        ) from None


def svg(figure: Figure, *, name: str) -> str:
    """A figure as an SVG element to stand in a page; ``name`` begins all its ids.

    The same figure gives the same text. What is not above 0 has no place on a logarithmic axis:
    such points are left out, and an interval that reaches below ends at the axis.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        canvas = Canvas(figsize=(5.4, 4.0), layout="constrained")
        FigureCanvasSVG(canvas)
        axes = canvas.add_subplot()
        _draw(axes, figure)
        handles, labels = axes.get_legend_handles_labels()
        columns = 2 if len(labels) > 4 else 1
        canvas.legend(handles, labels, loc="outside lower left", ncols=columns, fontsize=10)
        text = io.StringIO()
        canvas.savefig(text, format="svg", transparent=True, metadata=_NO_METADATA)
    return _for_page(text.getvalue(), figure, name)


_NO_METADATA: Final = {"Creator": None, "Date": None, "Format": None, "Type": None}


def _draw(axes: Any, figure: Figure) -> None:
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    lowest = _lowest(figure) if figure.log_y else float("-inf")
    numbers = {"measured": 0, "published": 0, "model": 0}
    for series in figure.series:
        number = numbers[series.kind]
        numbers[series.kind] += 1
        _line(axes, figure, series, number, lowest)
    axes.set_ylim(bottom=lowest if figure.log_y else min(0.0, axes.get_ylim()[0]))
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.grid(visible=True, color=INK, alpha=0.15, linewidth=0.8)


def _lowest(figure: Figure) -> float:
    """Where a logarithmic axis begins: below all that has a place on it."""
    points = [point for series in figure.series for point in series.points]
    values = [value for point in points for value in (point.y, point.low) if value and value > 0]
    return min(values, default=1.0) / 2


def _line(axes: Any, figure: Figure, series: Series, number: int, lowest: float) -> None:
    """The line, and bars for its intervals; the n-th line of each kind has the same colour."""
    points = [
        point
        for point in series.points
        if not (figure.log_y and point.y <= 0) and not (figure.log_x and point.x <= 0)
    ]
    colour = COLOURS[number]
    axes.plot(
        [point.x for point in points],
        [point.y for point in points],
        LINES[series.kind],
        color=colour,
        marker=MARKERS[number] if series.kind == "measured" else None,
        label=f"{series.label} ({series.kind})" if series.kind == "published" else series.label,
    )
    bounded = [point for point in points if point.low is not None and point.high is not None]
    if not bounded:
        return
    # Half of the lowest: the cap of a bar that goes on is out of sight.
    below = [point.y - max(point.low or 0.0, lowest / 2) for point in bounded]
    above = [(point.high or 0.0) - point.y for point in bounded]
    axes.errorbar(
        [point.x for point in bounded],
        [point.y for point in bounded],
        yerr=[below, above],
        fmt="none",
        color=colour,
        ecolor=colour,
        elinewidth=1.2,
        capsize=3,
    )


def _for_page(text: str, figure: Figure, name: str) -> str:
    """Take out what only a file of its own needs, and make ids unique in the page."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", body)
    body = re.sub(r"\n\s*", "\n", body)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = body.replace(INK, "currentColor")
    for number, colour in enumerate(COLOURS, start=1):
        body = body.replace(colour, f"var(--series-{number})")
    head = re.search(r'viewBox="([^"]*)"', body)
    assert head is not None
    start = (
        f'<svg viewBox="{head[1]}" role="img" aria-labelledby="{name}-alt">'
        f'<title id="{name}-alt">{escape(figure.alt)}</title>'
    )
    return start + body[body.index(">") + 1 :].strip()
