"""What a report was made by: versions, machine, date, seeds and command; and the bibliography."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from precedes.papers.bibliography import Reference
from precedes.papers.outcome import Outcome
from precedes.provenance import versions
from precedes.report.html import frame


def machine() -> str:
    """This machine, as far as it bears on how long runs take."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


@dataclass(frozen=True)
class Environment:
    """What made the runs of a report. The date is the caller's: none is read from a clock here."""

    command: str = ""
    date: str = ""
    machine: str = field(default_factory=machine)
    versions: Mapping[str, str | None] = field(default_factory=versions)


def environment_html(outcomes: Sequence[Outcome], environment: Environment) -> str:
    """The block, and the experiments with their runs and seeds."""
    found = dict(environment.versions)
    version, digest = found.pop("precedes", ""), found.pop("sources", "")
    here = versions()
    rows = [
        ("version", f"precedes {version or 'unknown'}"),
        ("digest of the sources that made the runs", digest or "unknown"),
    ]
    if (here["precedes"], here["sources"]) != (version, digest):
        rows.append(("this page made by", f"precedes {here['precedes']}, {here['sources']}"))
    rows += [
        ("date", environment.date),
        ("machine", environment.machine),
        ("with", ", ".join(f"{name} {text}" for name, text in found.items() if text)),
        ("seeds", _seeds(outcomes)),
        ("command", environment.command),
    ]
    block = "".join(
        f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in rows if text
    )
    return (
        '<section id="environment" aria-labelledby="environment-title">'
        '<h2 id="environment-title">Made by</h2>'
        f'<dl class="made">{block}</dl>\n{_experiments(outcomes, str(digest or ""))}</section>'
    )


def _seeds(outcomes: Sequence[Outcome]) -> str:
    seeds = {origin.seed for outcome in outcomes for origin in outcome.origins}
    if not seeds:
        return ""
    return f"{min(seeds)} to {max(seeds)}; of each experiment below"


def _experiments(outcomes: Sequence[Outcome], digest: str) -> str:
    rows = []
    for outcome in outcomes:
        for timing in outcome.timings:
            seeds = {one.seed for one in outcome.origins if one.experiment == timing.experiment}
            text = f"{min(seeds)} to {max(seeds)}" if seeds else ""
            rows.append(
                f'<tr><th scope="row">{escape(outcome.reference.citation)}</th>'
                f"<td>{escape(timing.experiment)}</td>"
                f'<td class="number">{timing.runs:,}</td><td class="number">{text}</td>'
                f'<td class="number">{timing.cpu_s:,.1f}</td></tr>'
            )
    label = "Experiments"
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("paper", "experiment", "runs", "seeds", "CPU, s")
    )
    inner = (
        f'<table class="data"><caption>{label}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    return (
        "<details><summary>Experiments and runs: where every number comes from</summary>"
        "<p>A point names its experiment and seeds when it is looked at, and "
        '<a href="claims.csv">claims.csv</a> the experiments of each claim. '
        '<a href="runs.csv">runs.csv</a> lists the runs of each experiment. The record of a run, '
        "with its whole scenario and result, is the file "
        f"<code>runs/{digest[:12]}/records/RUN.json</code> in the folder that the command was "
        f"given.</p>{frame(label, inner)}</details>"
    )


def bibliography_html(outcomes: Sequence[Outcome]) -> str:
    """The papers in full."""
    items = "".join(
        f"<li><b>{escape(one.reference.citation)}</b>: {_entry(one.reference)}</li>"
        for one in outcomes
    )
    return (
        '<section id="bibliography" aria-labelledby="bibliography-title">'
        f'<h2 id="bibliography-title">Bibliography</h2><ul>{items}</ul></section>'
    )


def _entry(reference: Reference) -> str:
    text = escape(str(reference))
    for name, address in (
        (f"doi:{reference.doi}", f"https://doi.org/{reference.doi}"),
        (f"HAL {reference.hal}", f"https://hal.science/{reference.hal}"),
    ):
        if name.split(maxsplit=1)[-1].removeprefix("doi:") and name in text:
            text = text.replace(name, f'<a href="{address}">{name}</a>')
    return text
