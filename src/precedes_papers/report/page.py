"""The report as one page: plain HTML and inline SVG, without outside resources.

All of it works without scripts; the script adds a search in lists and what a chart's marks say.
The template page.html has the HTML; here is what it is made of.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from precedes.pages import document, read, template
from precedes.pages.charts import Link, svg
from precedes.provenance import versions
from precedes_papers import rules
from precedes_papers.outcome import Outcome, counts, statement_counts
from precedes_papers.registry import Reference
from precedes_papers.report import dots, tables
from precedes_papers.report.claims import (
    MARKS,
    Index,
    Row,
    anchor,
    by_item,
    command_of,
    file_of,
    filter_of,
    slug,
    value,
    why,
)
from precedes_papers.rules import FINDING, VERDICTS, expected_false
from precedes_papers.shown import Figure, Table

COUNTS: Final = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def _machine() -> str:
    """This machine, as far as it bears on how long runs take."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


@dataclass(frozen=True)
class Environment:
    """Environment of the runs of a report. The caller gives the date: no clock is read here."""

    command: str = ""
    date: str = ""
    machine: str = field(default_factory=_machine)
    versions: Mapping[str, str | None] = field(default_factory=versions)

    def facts(self, outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
        """Names and texts of the block that says what made the page."""
        software = dict(self.versions)
        version, digest = software.pop("precedes", ""), software.pop("sources", "")
        here = versions()
        rows = [
            ("version", f"precedes {version or 'unknown'}"),
            ("digest of the sources that made the runs", digest or "unknown"),
        ]
        if (here["precedes"], here["sources"]) != (version, digest):
            rows.append(("this page made by", f"precedes {here['precedes']}, {here['sources']}"))
        seeds = seeds_of(outcomes)
        rows += [
            ("date", self.date),
            ("machine", self.machine),
            ("with", ", ".join(f"{name} {text}" for name, text in software.items() if text)),
            ("seeds", f"{seeds}; of each experiment below" if seeds else ""),
            ("command", self.command),
        ]
        return [(name, text) for name, text in rows if text]


def seeds_of(outcomes: Sequence[Outcome], experiment: str = "") -> str:
    """The range of the seeds of all runs, or of those of an experiment."""
    seeds = {
        origin.seed
        for outcome in outcomes
        for origin in outcome.origins
        if experiment in ("", origin.experiment)
    }
    return f"{min(seeds)} to {max(seeds)}" if seeds else ""


def page(outcomes: Sequence[Outcome], environment: Environment) -> str:
    """The whole page."""
    indices = [Index(outcome) for outcome in outcomes]
    judged = [claim for one in outcomes for claim in one.claims if claim.verdict != FINDING]
    intervals, by_chance = expected_false(judged)
    context = {
        "indices": indices,
        "outcomes": outcomes,
        "total": counts(outcomes),
        "met": statement_counts(outcomes),
        "judged": judged,
        "intervals": intervals,
        "by_chance": round(by_chance),
        "papers": COUNTS[len(outcomes)] if len(outcomes) < len(COUNTS) else str(len(outcomes)),
        "picture": dots.picture(indices),
        "facts": environment.facts(outcomes),
        "digest": (environment.versions.get("sources") or "")[:12],
        "script": read("precedes_papers.report", "page.js"),
    }
    functions = (
        Row, anchor, by_item, command_of, counts, file_of, filter_of, seeds_of, slug,
        statement_counts, value, why, chart, entry, everything,
    )  # fmt: skip
    values = {
        "DIFFERS": rules.DIFFERS,
        "FINDING": FINDING,
        "MARKS": MARKS,
        "VERDICTS": VERDICTS,
        "dots": dots,
        "rules": rules,
        "tables": tables,
        **{function.__name__: function for function in functions},
    }
    body = template("precedes_papers.report", "page.html", **values).render(context)
    style = f"{read('precedes_papers.report', 'page.css')}{_filters()}"
    return document(title="precedes: published and measured", body=body, style=style)


def _filters() -> str:
    """Style that hides all claims but those of the verdict jumped to, and marks its link."""
    lines = []
    for verdict in VERDICTS:
        kind = slug(verdict)
        at = f'.claims:has(.filter[id$="-{kind}"]:target)'
        lines.append(
            f"{at} .claim:not(.{kind}), {at} tbody:not(:has(.{kind})) {{ display: none; }}"
        )
        lines.append(f"{at} .filters a.{kind} {{ outline-width: 2px; }}")
    return "\n".join(lines) + "\n"


def chart(index: Index, figure: Figure, name: str) -> str:
    """A figure as SVG whose marks lead to the claims about them."""
    links = {}
    for place, series in enumerate(figure.series):
        for number, point in enumerate(series.points):
            claim = None if point.source is None else index.claim_of(figure.name, point.source)
            if claim is not None:
                links[place, number] = Link(f"#{index.place(claim)}", claim.said)
    return svg(figure, name=name, command=command_of(index.outcome), links=links)


def everything(outcome: Outcome) -> list[Table | Figure]:
    """Tables and figures in the order of the paper, but for the figures of its headlines."""
    others = [one for one in outcome.figures if one.name not in outcome.story.figures]
    return sorted([*outcome.tables, *others], key=lambda one: _order(one.name))


def _order(name: str) -> tuple[int, int]:
    """Tables before figures, each by its published number, then what is not in the paper."""
    match = re.match(r"(Table|Figure|Section) ([0-9]+|[IVX]+)", name)
    if not match:
        return 3, 0
    number = int(match[2]) if match[2].isdigit() else 0
    return ("Table", "Figure", "Section").index(match[1]), number


def entry(reference: Reference) -> list[tuple[str, str]]:
    """A paper in the bibliography: its texts, each with the address it links to, or ""."""
    links = {f"doi:{reference.doi}": f"https://doi.org/{reference.doi}"} if reference.doi else {}
    if reference.hal:
        links[f"HAL {reference.hal}"] = f"https://hal.science/{reference.hal}"
    names = "|".join(map(re.escape, links)) or "$"
    return [(text, links.get(text, "")) for text in re.split(f"({names})", str(reference))]
