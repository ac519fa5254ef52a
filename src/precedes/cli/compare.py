"""``precedes compare``."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

from precedes.cli.common import (
    add_json,
    add_rate,
    add_spark,
    examples,
    given,
    show_json,
    spark_of,
    spark_told,
)
from precedes.cli.terminal import show_text
from precedes.console import complain, note, phase, say, show
from precedes.errors import Exit, UserError
from precedes.progress import ProgressBar
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.cli.common import Commands

STYLES: Final = {
    r"\A[^:\n]+": "bold green",
    r"(?m)^1 +\S+": "bold",
    r"(?m)^(why not the others|not run):$": "bold",
}
FORMATS: Final = ("text", "markdown", "latex")


def add(commands: Commands) -> None:
    """Add the command."""
    from precedes.delays import DELAY_HELP
    from precedes.sim.scenario import Scenario
    from precedes.sim.workloads import WORKLOAD_HELP

    parser = commands.add_parser(
        "compare",
        help="which protocol for my load: run all that can serve it, audit, rank",
        description="Run every protocol that can serve a load, with parameters for that load, "
        "audit the order of every run, rank them by a rule (see 'precedes docs compare'), and "
        "recommend one in a sentence. With --out the same command goes on after an interrupt.",
        epilog=examples(
            ("compare --nodes 100 --rate 50 --out compared", "with a page"),
            ("compare --nodes 500 --rate 200 --error 1e-3 --json", "errors are allowed"),
        ),
    )
    parser.add_argument(
        "file", nargs="?", type=Address.of, metavar="FILE.toml", help="a scenario or an experiment"
    )
    parser.add_argument("--nodes", type=int, metavar="N", help="size of the group")
    add_rate(parser, help="broadcasts per second of the whole group")
    parser.add_argument("--delay", metavar="D", help=f"{DELAY_HELP} (default: {Scenario.delay})")
    parser.add_argument(
        "--workload", metavar="W", help=f"{WORKLOAD_HELP} (default: {Scenario.workload})"
    )
    parser.add_argument("--loss", type=float, metavar="P", help="probability to lose a packet")
    parser.add_argument("--duplication", type=float, metavar="P", help="probability to repeat one")
    parser.add_argument("--fifo", action="store_true", help="links keep the order of packets")
    parser.add_argument("--payload", type=int, metavar="BYTES", help="of a message (50)")
    parser.add_argument("--crashes", type=int, metavar="K", help="nodes that crash while they send")
    parser.add_argument("--messages", type=int, metavar="K", help="broadcasts of a run")
    parser.add_argument("--duration", type=float, metavar="S", help="or: seconds of broadcasting")
    parser.add_argument(
        "--protocols", metavar="A,B", help="compare these alone, whatever they need"
    )
    parser.add_argument(
        "--error", type=float, metavar="E", help="allow this share of errors, as 1e-4"
    )
    parser.add_argument("--seeds", type=int, metavar="K", help="runs of each protocol (5)")
    parser.add_argument(
        "--out", type=Address.of, metavar="DIR", help="for runs, the page and the tables"
    )
    add_spark(parser, help="a Spark master for the runs (default: processes of this machine)")
    add_json(parser)
    parser.add_argument("--format", choices=FORMATS, metavar="F", help="text, markdown or latex")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from precedes.comparison import carry_out_plan, plan

    if options.json and options.format:
        raise UserError("--json and --format are two answers: choose one")
    planned = plan(options.file, **_load(options))
    told = say if sys.stderr is not None and sys.stderr.isatty() else note
    told(
        f"{len({run.run_id for run in planned.runs})} runs of {len(planned.candidates)} "
        f"protocols, about {max(round(planned.about_s), 1)} s once they are compiled"
    )
    try:
        with spark_told(options), phase("compare"), ProgressBar("compare") as bar:
            comparison = carry_out_plan(planned, out=options.out, progress=bar, **spark_of(options))
        index = None
        if options.out is not None:
            with phase("write the page"):
                command = shlex.join(["precedes", *sys.argv[1:]])
                index = comparison.write(options.out, command=command)
    except KeyboardInterrupt:
        kept = f"finished runs are kept in {options.out}, and the same command goes on"
        complain(f"interrupted; {kept if options.out else 'nothing was kept: --out DIR would'}")
        return Exit.INTERRUPTED
    _show(comparison, options)
    if index is not None and not options.json and not options.format:
        show(f"\nwritten to {index}")
    return Exit.DONE if comparison.recommendation.label else Exit.UNKNOWN


def _show(comparison: Any, options: argparse.Namespace) -> None:
    from precedes.comparison import tables

    if options.json:
        show_json(comparison.as_dict())
    elif options.format == "markdown":
        show(comparison.to_markdown(), end="")
    elif options.format == "latex":
        show(comparison.to_latex(), end="")
    else:
        # A pipe has all columns.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else tables.WIDTH
        show_text(tables.to_text(comparison, width=width), STYLES)


def _load(options: argparse.Namespace) -> dict[str, Any]:
    """The load of the options, as arguments of what plans a comparison."""
    protocols = options.protocols
    return given(
        nodes=options.nodes,
        rate=options.rate,
        delay=options.delay,
        workload=options.workload,
        loss=options.loss,
        duplication=options.duplication,
        fifo=options.fifo or None,
        payload_bytes=options.payload,
        crashes=options.crashes,
        messages=options.messages,
        duration_s=options.duration,
        protocols=None if protocols is None else protocols.split(","),
        error=options.error,
        seeds=options.seeds,
    )
