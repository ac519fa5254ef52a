"""The page of a comparison: the answer first, then pictures, the table, reasons and the rule."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Final

from precedes.comparison import tables
from precedes.comparison.plots import figures
from precedes.pages import charts, document, read

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
    if not found:
        return ""
    items = [
        f"<div><dt>If {escape(one.need)}</dt><dd>{escape(one.label)}: {escape(one.how)}</dd></div>"
        for one in found
    ]
    return f'<h2>For another need</h2>\n<dl class="why">{"".join(items)}</dl>'


def _pictures(comparison: Comparison) -> str:
    found = [
        f'<figure id="{figure.name}"><figcaption>{escape(figure.title)}</figcaption>'
        f"{charts.svg(figure, name=figure.name)}</figure>"
        for figure in figures(comparison)
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
    recommended = comparison.recommendation.label
    lists = {
        "Why not the others": [
            (place.label, place.why) for place in comparison.standings if place.label != recommended
        ],
        "Not run": [(one.label, one.why) for one in comparison.excluded],
    }
    found = []
    for title, lines in lists.items():
        items = "".join(
            f"<div><dt>{escape(label)}</dt><dd>{escape(why)}</dd></div>" for label, why in lines
        )
        if items:
            found.append(f'<h2>{title}</h2>\n<dl class="why">{items}</dl>')
    return "\n".join(found)


def _rule(comparison: Comparison) -> str:
    error = comparison.load.error
    allowed = "" if error is None else ALLOWED.format(error=error)
    items = "".join(f"<li>{text.replace('{allowed}', escape(allowed))}</li>" for text in RULE)
    return f'<h2>The rule</h2>\n<ol class="rule">{items}</ol>'


def _parameters(comparison: Comparison) -> str:
    items = []
    for row in comparison.rows:
        words = ", ".join(f"{name} = {value}" for name, value in row.parameters.items())
        items.append(f"<div><dt>{escape(row.label)}</dt><dd>{escape(words or 'none')}</dd></div>")
    if not items:
        return ""
    return (
        "<details><summary>Parameters of the protocols</summary>\n"
        '<p class="quiet">Clocks are sized by the formula of <code>precedes size</code> for this '
        f'load.</p>\n<dl class="why">{"".join(items)}</dl></details>'
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
