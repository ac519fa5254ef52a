"""``precedes reproduce``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from precedes.cli.common import add_out, add_spark, spark_of, spark_told
from precedes.cli.terminal import Bar
from precedes.console import show
from precedes.errors import Exit

if TYPE_CHECKING:
    from precedes.cli.common import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "reproduce", help="regenerate published figures beside the printed values"
    )
    parser.add_argument("paper", nargs="*", help="names such as vcube or 000; none: all")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="few seeds, short runs (default)")
    scale.add_argument("--full", action="store_true", help="ten seeds, runs as in the papers")
    add_out(parser, help="for the report")
    add_spark(parser, help="the Spark master to run on")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from precedes.errors import UserError
    from precedes.papers.outcome import reproduce
    from precedes.pipeline.spark.session import require_pyspark
    from precedes.report import check_available, write_report

    try:
        check_available()
        require_pyspark()
    except UserError:
        raise UserError(
            "this needs what is not installed: pip install 'precedes[reproduce]'"
        ) from None
    with spark_told(options), Bar("reproduce") as bar:
        outcomes = reproduce(
            options.paper,
            directory=options.out,
            scale="full" if options.full else "quick",
            progress=bar.update,
            **spark_of(options),
        )
    index = write_report(outcomes, options.out)
    show((options.out / "summary.txt").read_bytes().decode())
    show(f"written to {index}")
    return Exit.DONE
