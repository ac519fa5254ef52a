"""``precedes reproduce``."""

from __future__ import annotations

import argparse
import datetime
import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from precedes.cli import common
from precedes.cli.common import flag, option
from precedes.console import note, phase
from precedes.progress import ProgressBar

if TYPE_CHECKING:
    from precedes.stores import Address
    from precedes_papers.outcome import Outcome

FILES: Final = {
    "page": "index.html",
    "summary": "summary.txt",
    "claims": "claims.csv",
    "statements": "statements.csv",
    "timings": "timings.csv",
    "tables": "tables",
    "runs": "runs",
}


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "reproduce",
        _run,
        ("reproduce --out report", "all papers, in minutes"),
        ("reproduce vcube --full --out report", "one paper, runs of full length"),
        help="rerun experiments of papers and compare results",
        description="Run the experiments of papers, compare the results with the published "
        "values, and write a report.",
    )
    option(parser, "paper", None, "protocol or number of a paper (default: all)", nargs="*")
    scale = parser.add_mutually_exclusive_group()
    flag(scale, "--quick", "few seeds, short runs (default)")
    flag(scale, "--full", "many seeds, runs of full length")
    option(parser, "--out", "DIR", "directory for the report", common.folder, required=True)
    common.add_spark(parser, help="run on this Spark master")
    common.add_json(parser)


def _command(options: argparse.Namespace) -> str:
    """The command that repeats it, for the page, which is the same in any directory."""
    scale = "--full" if options.full else "--quick"
    words = ["precedes", "reproduce", *options.paper, scale, "--out", "DIR"]
    return shlex.join(words)


def _run(options: argparse.Namespace) -> int:
    from precedes.errors import UserError
    from precedes.pipeline.spark.session import require_pyspark
    from precedes_papers.outcome import reproduce
    from precedes_papers.report import Environment, screen, write_report

    try:
        require_pyspark()
    except UserError:
        raise UserError("this is not installed: pip install 'precedes[reproduce]'") from None
    began_s = time.monotonic()
    with common.spark_reported(options), phase("reproduce"), ProgressBar("reproduce") as bar:
        outcomes = reproduce(
            options.paper,
            directory=options.out,
            scale="full" if options.full else "quick",
            progress=bar,
            **common.spark_of(options),
        )
    for outcome in outcomes:
        note(f"paper {outcome.paper}: {outcome.runs:,} runs, {len(outcome.claims):,} claims")
    with phase("writing the report"):
        environment = Environment(command=_command(options), date=f"{datetime.date.today()}")
        index = write_report(outcomes, options.out, environment=environment)
    seconds = time.monotonic() - began_s
    values = _found(outcomes, seconds=seconds, directory=options.out)
    return common.answer(options, values, screen(outcomes, seconds=seconds, page=str(index)))


def _found(outcomes: Sequence[Outcome], *, seconds: float, directory: Address) -> dict[str, Any]:
    """The text for the screen, with the place of the page."""
    from precedes_papers.outcome import counts, statement_counts

    return {
        "seconds": seconds,
        "statements": statement_counts(outcomes),
        "verdicts": counts(outcomes),
        "papers": [
            {
                "paper": outcome.paper,
                "citation": outcome.reference.citation,
                "title": outcome.reference.title,
                "scale": outcome.scale,
                "runs": outcome.runs,
                "cpu_s": sum(timing.cpu_s for timing in outcome.timings),
                "statements": statement_counts([outcome]),
                "verdicts": counts([outcome]),
                "headlines": [
                    {
                        "statement": entry.statement.short,
                        "reading": reading,
                        "unit": entry.statement.unit,
                        "published": claim.published,
                        "measured": claim.measured,
                        "verdict": claim.verdict,
                    }
                    for entry in outcome.story.statements
                    for reading, claim in entry.claims.items()
                ],
            }
            for outcome in outcomes
        ],
        "files": {name: str(directory / path) for name, path in FILES.items()},
    }
