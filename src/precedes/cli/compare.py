"""``precedes compare``."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from typing import Any, Final

from precedes.cli import common
from precedes.cli.common import option
from precedes.cli.terminal import show_text
from precedes.console import note, phase, say, show
from precedes.errors import Exit, UserError
from precedes.progress import ProgressBar
from precedes.sim.scenario import Scenario
from precedes.stores import Address

STYLES: Final = {
    r"\A[^:\n]+": "bold green",
    r"(?m)^1 +\S+": "bold",
    r"(?m)^(why not the others|not run):$": "bold",
}
FORMATS: Final = ("text", "markdown", "latex")


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "compare",
        _run,
        ("compare --nodes 100 --rate 50 --out compared", "write a page too"),
        ("compare --nodes 500 --rate 200 --error 1e-3 --json", "accept a small error rate"),
        help="rank the protocols for a load and recommend one",
        description="Simulate every protocol that can serve a load, with parameters for that "
        "load, audit the order of every run, rank the protocols (see 'precedes docs compare'), and "
        "recommend one. With --out, the same command resumes after an interrupt.",
    )
    option(parser, "file", "FILE.toml", "scenario or experiment file", Address.of, nargs="?")
    scenario = ("nodes", "rate", "delay", "workload", "loss", "duplication", "fifo")
    rate = "broadcasts per second of the whole group"
    common.add_scenario(parser, *scenario, "payload_bytes", rate=rate)
    option(parser, "--crashes", "K", "number of nodes that crash while sending", int)
    common.add_scenario(parser, "messages", "duration_s", messages="broadcasts in each run")
    help = "compare only these protocols"
    option(parser, "--protocols", "A,B", help, lambda text: text.split(","))
    option(parser, "--error", "E", "accepted share of wrong deliveries, e.g. 1e-4", float)
    option(parser, "--seeds", "K", "runs per protocol (5)", int)
    option(parser, "--out", "DIR", "directory for runs, page and tables", Address.of)
    help = "run on this Spark master (default: local processes)"
    common.add_spark(parser, help=help)
    common.add_json(parser)
    option(parser, "--format", "F", "output format: text, markdown or latex", choices=FORMATS)


def _run(options: argparse.Namespace) -> int:
    from precedes.comparison import carry_out_plan, plan

    if options.json and options.format:
        raise UserError("--json and --format exclude each other: choose one")
    load = common.values_of(options, Scenario, "protocols", "error", "seeds", "crashes")
    planned = plan(options.file, **load)
    report = say if sys.stderr is not None and sys.stderr.isatty() else note
    runs, protocols = len({run.run_id for run in planned.runs}), len(planned.candidates)
    report(
        f"{runs} run{'s' * (runs > 1)} of {protocols} protocol{'s' * (protocols > 1)}, about "
        f"{max(round(planned.about_s), 1)} s once they are compiled"
    )
    index = None
    with common.kept_in(options.out):
        with common.spark_reported(options), phase("compare"), ProgressBar("compare") as bar:
            spark = common.spark_of(options)
            comparison = carry_out_plan(planned, out=options.out, progress=bar, **spark)
        if options.out is not None:
            with phase("write the page"):
                command = shlex.join(["precedes", *sys.argv[1:]])
                index = comparison.write(options.out, command=command)
    _show(comparison, options)
    if index is not None and not options.json and not options.format:
        show(f"\nwritten to {index}")
    return Exit.DONE if comparison.recommendation.label else Exit.UNKNOWN


def _show(comparison: Any, options: argparse.Namespace) -> None:
    from precedes.comparison import tables

    if options.json:
        common.show_json(comparison.as_dict())
    elif options.format in ("markdown", "latex"):
        show(getattr(comparison, f"to_{options.format}")(), end="")
    else:
        # A pipe has all columns.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else tables.WIDTH
        show_text(tables.to_text(comparison, width=width), STYLES)
