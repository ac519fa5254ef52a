"""``precedes protocols``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from precedes.cli.common import add_json
from precedes.console import show
from precedes.errors import Exit

if TYPE_CHECKING:
    from precedes.cli.common import Commands


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("protocols", help="list the protocols and their parameters")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from precedes.registry import load, names

    protocols = [load(name) for name in names()]
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
        show(json.dumps(rows, indent=2))
        return Exit.DONE
    width = max(len(p.name) for p in protocols)
    for p in protocols:
        show(f"{p.name:{width}}  {p.summary}")
        assumes = f"; assumes {', '.join(sorted(p.assumes))}" if p.assumes else ""
        show(f"{'':{width}}  guarantee: {p.guarantee}{assumes}")
        for row in p.parameter_help():
            show(f"{'':{width}}    {row['name']}={row['default']}  {row['help']}")
    return Exit.DONE
