"""``precedes size``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from precedes.cli.common import add_json, add_rate, examples, given, show_json
from precedes.cli.terminal import show_text
from precedes.errors import Exit
from precedes.parts.sizing import DELAY, DELAY_HELP, PER_PROCESS, size

if TYPE_CHECKING:
    from precedes.cli.common import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "size",
        help="how large a clock has to be for a load, or what a clock of a size gives",
        description="Size a clock of probabilistic or hashed by a formula for the share of "
        "deliveries that probabilistic gets wrong.",
        epilog=examples(
            ("size --rate 100 --nodes 2000 --error 1e-4", "the clock for an error"),
            ("size --rate 100 --nodes 2000 --entries 50", "the error of a clock"),
        ),
    )
    add_rate(parser, required=True, help="broadcasts/s, all")
    parser.add_argument("--nodes", type=int, required=True, metavar="N", help="size of the group")
    parser.add_argument("--error", type=float, metavar="E", help="share of deliveries, as 1e-4")
    parser.add_argument("--entries", type=int, metavar="M", help="or: the size of the clock")
    parser.add_argument(
        "--per-process", type=int, metavar="K", help=f"entries each ({PER_PROCESS})"
    )
    parser.add_argument("--delay", metavar="D", help=f"{DELAY_HELP} (default: {DELAY})")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    found = size(
        rate=options.rate,
        nodes=options.nodes,
        error=options.error,
        entries=options.entries,
        **given(per_process=options.per_process, delay=options.delay),
    )
    if options.json:
        show_json(found.as_dict())
    else:
        show_text(str(found), {})
    return Exit.DONE
