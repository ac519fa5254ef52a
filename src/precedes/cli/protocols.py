"""``precedes protocols``."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Final

from precedes.cli.common import add_json
from precedes.cli.terminal import show_text
from precedes.console import say, show
from precedes.errors import Exit

if TYPE_CHECKING:
    from precedes.cli.common import Commands
    from precedes.registry import Protocol


STYLES: Final = {r"(?m)^\S+": "bold", r"(?m)^ +\w+=\S*": "cyan"}


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser("protocols", help="list the protocols and their parameters")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    protocols = _load_all()
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
    lines = []
    for p in protocols:
        assumes = f"; assumes {', '.join(sorted(p.assumes))}" if p.assumes else ""
        lines.append(f"{p.name:{width}}  {p.summary}")
        lines.append(f"{'':{width}}  guarantee: {p.guarantee}{assumes}")
        for row in p.parameter_help():
            lines.append(f"{'':{width}}    {row['name']}={row['default']}  {row['help']}")
    show_text("\n".join(lines), STYLES)
    return Exit.DONE


def _load_all() -> list[Protocol]:
    """All that can be used; what another package brings and does not work is said."""
    from precedes.registry import ContractError, load, names

    found = []
    for name in names():
        try:
            found.append(load(name))
        except ContractError as error:
            say(str(error))
    return found
