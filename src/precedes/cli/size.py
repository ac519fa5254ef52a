"""``precedes size``."""

from __future__ import annotations

import argparse

from precedes.cli import common
from precedes.parts.sizing import DELAY, DELAY_HELP, PER_PROCESS, size


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "size",
        help="how large a clock has to be for a load, or what a clock of a size gives",
        description="Size a clock of probabilistic or hashed by a formula for the share of "
        "deliveries that probabilistic gets wrong.",
        epilog=common.examples(
            ("size --rate 100 --nodes 2000 --error 1e-4", "the clock for an error"),
            ("size --rate 100 --nodes 2000 --entries 50", "the error of a clock"),
        ),
    )
    parser.add_argument("--rate", type=float, required=True, metavar="R", help="broadcasts/s, all")
    parser.add_argument("--nodes", type=int, required=True, metavar="N", help="size of the group")
    parser.add_argument("--error", type=float, metavar="E", help="share of deliveries, as 1e-4")
    parser.add_argument("--entries", type=int, metavar="M", help="or: the size of the clock")
    parser.add_argument(
        "--per-process",
        type=int,
        default=PER_PROCESS,
        metavar="K",
        help=f"entries each ({PER_PROCESS})",
    )
    parser.add_argument(
        "--delay", default=DELAY, metavar="D", help=f"{DELAY_HELP} (default: {DELAY})"
    )
    common.add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    found = size(
        rate=options.rate,
        nodes=options.nodes,
        error=options.error,
        entries=options.entries,
        per_process=options.per_process,
        delay=options.delay,
    )
    return common.answer(options, found.as_dict(), str(found))
