"""Figures of papers in HTML: a chart whose marks lead to the claims about them."""

from __future__ import annotations

from html import escape

from precedes.pages.charts import Link, svg
from precedes.papers.shown import Figure
from precedes.report.html import csv_link
from precedes.report.index import Index, command_of, slug


def figure_html(index: Index, figure: Figure, *, part: str = "") -> str:
    """A figure with its caption; ``part`` tells two places of it on one page apart."""
    outcome = index.outcome
    name = f"figure-{outcome.paper}-{slug(figure.name)}{part}"
    links = {}
    for place, series in enumerate(figure.series):
        for number, point in enumerate(series.points):
            claim = None if point.source is None else index.claim_of(figure.name, point.source)
            if claim is not None:
                links[place, number] = Link(f"#{index.place(claim)}", claim.said)
    chart = svg(figure, name=name, command=command_of(outcome), links=links)
    return (
        f'<figure id="{name}"><figcaption><h4>{escape(figure.name)} '
        f"<span>{escape(figure.title)}</span> {csv_link(outcome, figure.name)}</h4></figcaption>"
        f"{chart}</figure>\n"
    )
