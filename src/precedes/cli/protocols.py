"""``precedes protocols``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from precedes.cli import common
from precedes.cli.terminal import show_text
from precedes.console import complain
from precedes.errors import Exit

if TYPE_CHECKING:
    from precedes.registry import Protocol


STYLES: Final = {r"(?m)^\S+": "bold", r"(?m)^ +\w+=\S*": "cyan"}


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "protocols",
        help="list the protocols and their parameters",
        description="List the protocols: what they promise, what they assume of the network, and "
        "their parameters with defaults, to be set with --set NAME=VALUE.",
        epilog=common.examples(
            ("protocols", "what there is"),
            ("protocols --json", "the same, for programs"),
        ),
    )
    common.add_json(parser)
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
        common.show_json({"protocols": rows}, indent=2)
        return Exit.DONE
    width = max(len(p.name) for p in protocols)
    lines = []
    for p in protocols:
        assumes = f"; assumes {', '.join(sorted(p.assumes))}" if p.assumes else ""
        lines.append(f"{p.name:{width}}  {p.summary}")
        lines.append(f"{'':{width}}  guarantee: {p.guarantee}{assumes}")
        set_as = {f"{row['name']}={row['default']}": row["help"] for row in p.parameter_help()}
        names = max(map(len, set_as), default=0)
        lines += [f"    {name:{names}}  {about}" for name, about in set_as.items()]
    show_text("\n".join(lines), STYLES)
    return Exit.DONE


def _load_all() -> list[Protocol]:
    """All that can be used; what another package brings and does not work is said."""
    from precedes.catalogue import names
    from precedes.registry import ContractError, load

    found = []
    for name in names():
        try:
            found.append(load(name))
        except ContractError as error:
            complain(str(error))
    return found
