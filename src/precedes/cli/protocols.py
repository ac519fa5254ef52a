"""``precedes protocols`` and ``precedes size``: what there is, and how large its clocks are."""

from __future__ import annotations

import argparse
from typing import Final

from precedes.cli import common
from precedes.cli.common import option
from precedes.cli.docs import pages
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
        ("protocols", "one line for each protocol"),
        ("protocols vcube", "its assumptions, parameters and page"),
        help="list the protocols or show one with its parameters",
        description="List the protocols with their guarantees, or show one: its assumptions about "
        "the network and its parameters with defaults (set them with --set NAME=VALUE).",
    )
    option(parser, "protocol", None, "name, or path of your own file or folder", nargs="?")
    common.add_json(parser)


def add_size(commands: common.Commands) -> None:
    """Add ``precedes size``."""
    parser = common.command(
        commands,
        "size",
        _size,
        ("size --rate 100 --nodes 2000 --error 1e-4", "clock size for an error rate"),
        ("size --rate 100 --nodes 2000 --entries 50", "error rate of a clock size"),
        help="compute clock size or error rate for a load",
        description="Compute how many entries a clock of probabilistic or hashed needs for an "
        "error rate, or the error rate of a given clock size.",
    )
    option(parser, "--rate", "R", "broadcasts per second of the whole group", float, required=True)
    option(parser, "--nodes", "N", "size of the group", int, required=True)
    option(parser, "--error", "E", "accepted share of wrong deliveries, e.g. 1e-4", float)
    option(parser, "--entries", "M", "clock size, instead of --error", int)
    option(parser, "--per-process", "K", f"entries per process ({PER_PROCESS})", int, PER_PROCESS)
    option(parser, "--delay", "D", f"{DELAY_HELP} (default: {DELAY})", default=DELAY)
    common.add_json(parser)


def _protocols(options: argparse.Namespace) -> int:
    from precedes.catalogue import names
    from precedes.registry import ContractError, load

    protocols = []
    for name in names() if options.protocol is None else [options.protocol]:
        try:
            protocols.append(load(name))
        except ContractError as error:  # a protocol of another package may be broken
            if options.protocol is not None:
                raise
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
    elif options.protocol is None:
        width = max(len(p.name) for p in protocols)
        lines = [f"{p.name:{width}}  {p.guarantee:8}  {p.summary}" for p in protocols]
        head = f"{'protocol':{width}}  {'order':8}  summary"
        show_text("\n".join([head, *lines]), {r"(?m)^\S+": "bold", r"\A.*": "bold"}, cut=True)
    else:
        (protocol,) = protocols
        about = {
            "order": protocol.guarantee,
            "assumes": ", ".join(sorted(protocol.assumes)) or "nothing of the network",
        }
        if protocol.name in pages():
            about["page"] = f"precedes docs {protocol.name}"
        parameters = {f"  {r['name']}={r['default']}": r["help"] for r in protocol.parameter_help()}
        lines = [
            f"{protocol.name}: {protocol.summary}",
            *in_columns(about),
            *in_columns(parameters),
        ]
        show_text("\n".join(lines), STYLES)
    return Exit.DONE


def _size(options: argparse.Namespace) -> int:
    clock = size(
        rate=options.rate,
        nodes=options.nodes,
        error=options.error,
        entries=options.entries,
        per_process=options.per_process,
        delay=options.delay,
    )
    return common.answer(options, clock.as_dict(), str(clock))
