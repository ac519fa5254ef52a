"""``precedes protocols`` and ``precedes size``: what there is, and how large its clocks are."""

from __future__ import annotations

import argparse
from typing import Final

from precedes.cli import common
from precedes.cli.common import option
from precedes.cli.terminal import in_columns, show_text
from precedes.console import complain
from precedes.errors import Exit
from precedes.parts.sizing import DELAY, DELAY_HELP, PER_PROCESS, size

STYLES: Final = {r"(?m)^\S+": "bold", r"(?m)^ +\w+=\S*": "cyan"}


def add(commands: common.Commands) -> None:
    """Add ``precedes protocols``."""
    parser = common.command(
        commands,
        "protocols",
        _protocols,
        ("protocols", "what there is"),
        ("protocols --json", "the same, for programs"),
        help="list the protocols and their parameters",
        description="List the protocols: what they promise, what they assume of the network, and "
        "their parameters with defaults, to be set with --set NAME=VALUE.",
    )
    common.add_json(parser)


def add_size(commands: common.Commands) -> None:
    """Add ``precedes size``."""
    parser = common.command(
        commands,
        "size",
        _size,
        ("size --rate 100 --nodes 2000 --error 1e-4", "the clock for an error"),
        ("size --rate 100 --nodes 2000 --entries 50", "the error of a clock"),
        help="how large a clock has to be for a load, or what a clock of a size gives",
        description="Size a clock of probabilistic or hashed by a formula for the share of "
        "deliveries that probabilistic gets wrong.",
    )
    option(parser, "--rate", "R", "broadcasts/s, all", float, required=True)
    option(parser, "--nodes", "N", "size of the group", int, required=True)
    option(parser, "--error", "E", "share of deliveries, as 1e-4", float)
    option(parser, "--entries", "M", "or: the size of the clock", int)
    option(parser, "--per-process", "K", f"entries each ({PER_PROCESS})", int, PER_PROCESS)
    option(parser, "--delay", "D", f"{DELAY_HELP} (default: {DELAY})", default=DELAY)
    common.add_json(parser)


def _protocols(options: argparse.Namespace) -> int:
    from precedes.catalogue import names
    from precedes.registry import ContractError, load

    protocols = []
    for name in names():
        try:
            protocols.append(load(name))
        except ContractError as error:  # what another package brings may not work
            complain(str(error))
    if options.json:
        rows = [
            {
                "name": p.name,
                "summary": p.summary,
                "guarantee": p.guarantee,
                "assumes": sorted(p.assumes),
                "parameters": p.parameter_help(),
            }
            for p in protocols
        ]
        common.show_json({"protocols": rows}, indent=2)
        return Exit.DONE
    width = max(len(p.name) for p in protocols)
    lines = []
    for p in protocols:
        assumes = f"; assumes {', '.join(sorted(p.assumes))}" if p.assumes else ""
        lines.append(f"{p.name:{width}}  {p.summary}")
        lines.append(f"{'':{width}}  guarantee: {p.guarantee}{assumes}")
        parameters = {
            f"    {row['name']}={row['default']}": row["help"] for row in p.parameter_help()
        }
        lines += in_columns(parameters)
    show_text("\n".join(lines), STYLES)
    return Exit.DONE


def _size(options: argparse.Namespace) -> int:
    found = size(
        rate=options.rate,
        nodes=options.nodes,
        error=options.error,
        entries=options.entries,
        per_process=options.per_process,
        delay=options.delay,
    )
    return common.answer(options, found.as_dict(), str(found))
