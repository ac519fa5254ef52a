"""What a report was made by: versions, machine, date, seeds and command."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from precedes.provenance import versions
from precedes_papers.outcome import Outcome


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

    def facts(self, outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
        """Names and texts of the block that says what made the page."""
        found = dict(self.versions)
        version, digest = found.pop("precedes", ""), found.pop("sources", "")
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
            ("with", ", ".join(f"{name} {text}" for name, text in found.items() if text)),
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
