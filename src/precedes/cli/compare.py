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
        ("compare --nodes 100 --rate 50 --out compared", "with a page"),
        ("compare --nodes 500 --rate 200 --error 1e-3 --json", "errors are allowed"),
        help="which protocol for my load: run all that can serve it, audit, rank",
        description="Run every protocol that can serve a load, with parameters for that load, "
        "audit the order of every run, rank them by a rule (see 'precedes docs compare'), and "
        "recommend one in a sentence. With --out the same command goes on after an interrupt.",
    )
    option(parser, "file", "FILE.toml", "a scenario or an experiment", Address.of, nargs="?")
    scenario = ("nodes", "rate", "delay", "workload", "loss", "duplication", "fifo")
    rate = "broadcasts per second of the whole group"
    common.add_scenario(parser, *scenario, "payload_bytes", rate=rate)
    option(parser, "--crashes", "K", "nodes that crash while they send", int)
    common.add_scenario(parser, "messages", "duration_s", messages="broadcasts of a run")
    help = "compare these alone, whatever they need"
    option(parser, "--protocols", "A,B", help, lambda text: text.split(","))
    option(parser, "--error", "E", "allow this share of errors, as 1e-4", float)
    option(parser, "--seeds", "K", "runs of each protocol (5)", int)
    option(parser, "--out", "DIR", "for runs, the page and the tables", Address.of)
    help = "a Spark master for the runs (default: processes of this machine)"
    common.add_spark(parser, help=help)
    common.add_json(parser)
    option(parser, "--format", "F", "text, markdown or latex", choices=FORMATS)


def _run(options: argparse.Namespace) -> int:
    from precedes.comparison import carry_out_plan, plan

    if options.json and options.format:
        raise UserError("--json and --format are two answers: choose one")
    load = common.given_of(options, Scenario, "protocols", "error", "seeds", "crashes")
    planned = plan(options.file, **load)
    told = say if sys.stderr is not None and sys.stderr.isatty() else note
    runs, protocols = len({run.run_id for run in planned.runs}), len(planned.candidates)
    told(
        f"{runs} run{'s' * (runs > 1)} of {protocols} protocol{'s' * (protocols > 1)}, about "
        f"{max(round(planned.about_s), 1)} s once they are compiled"
    )
    index = None
    with common.kept_in(options.out):
        with common.spark_told(options), phase("compare"), ProgressBar("compare") as bar:
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
