"""``precedes reproduce``."""

from __future__ import annotations

import argparse
import datetime
import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from precedes.cli import common
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
    parser = commands.add_parser(
        "reproduce",
        help="regenerate published figures beside the printed values",
        description="Run the experiments of papers on Spark, set what is measured beside what is "
        "printed, and write a page of it.",
        epilog=common.examples(
            ("reproduce --out report", "all papers, in minutes"),
            ("reproduce vcube --full --out report", "one, as long as the paper's runs"),
        ),
    )
    parser.add_argument("paper", nargs="*", help="names such as vcube or 000; none: all")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="few seeds, short runs (default)")
    scale.add_argument("--full", action="store_true", help="many seeds, runs as in the papers")
    parser.add_argument(
        "--out", type=common.folder, required=True, metavar="DIR", help="for the report"
    )
    common.add_spark(parser, help="the Spark master to run on")
    common.add_json(parser)
    parser.set_defaults(run=_run)


def _command(options: argparse.Namespace) -> str:
    """What repeats it, for the page, which is the same wherever it is written."""
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
        raise UserError(
            "this needs what is not installed: pip install 'precedes[reproduce]'"
        ) from None
    began_s = time.monotonic()
    with common.spark_told(options), phase("reproduce"), ProgressBar("reproduce") as bar:
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
    found = _found(outcomes, seconds=seconds, directory=options.out)
    return common.answer(options, found, screen(outcomes, seconds=seconds, page=str(index)))


def _found(outcomes: Sequence[Outcome], *, seconds: float, directory: Address) -> dict[str, Any]:
    """What the screen says, and where the rest is."""
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
                        "statement": told.statement.short,
                        "reading": reading,
                        "unit": told.statement.unit,
                        "published": claim.published,
                        "measured": claim.measured,
                        "verdict": claim.verdict,
                    }
                    for told in outcome.story.told
                    for reading, claim in told.claims.items()
                ],
            }
            for outcome in outcomes
        ],
        "files": {name: str(directory / path) for name, path in FILES.items()},
    }
