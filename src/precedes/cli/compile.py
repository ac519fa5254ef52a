"""``precedes compile``: fill the cache of compiled code, for container images and CI."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from precedes.cli.common import add_json, command, option, show_json
from precedes.console import complain, show
from precedes.errors import Exit, UserError

if TYPE_CHECKING:
    from precedes.cli.common import Commands
    from precedes.compiled.compiler import Item


def add(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "compile",
        _run,
        ("compile vector", "one protocol, and the audit"),
        ("compile examples/fifo_broadcast.py", "your own protocol"),
        ("compile --jobs 2 --json", "everything, with two compilers"),
        help="compile protocols and the audit ahead of time",
        description="Compile protocols, for the simulator and for live groups, and the audit into "
        "the cache. Code that is in the cache already is not compiled again.",
        notes="The cache is PRECEDES_CACHE, or precedes in the user's cache directory: see "
        "'precedes docs shell'.\n\n",
    )
    help = "name, or path of your own file or folder (default: all)"
    option(parser, "protocol", "PROTOCOL", help, nargs="*")
    option(parser, "--jobs", "N", "number of compilers (one per core)", int)
    add_json(parser)


def _run(options: argparse.Namespace) -> int:
    from precedes.compiled import cache_root
    from precedes.compiled.compiler import make_all

    jobs = options.jobs if options.jobs is not None else os.cpu_count() or 1
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {jobs}")
    rows: list[dict[str, Any]] = []

    def add(name: str, status: str, seconds: float | None = None) -> None:
        rows.append({"name": name, "status": status, "seconds": seconds, "failure": None})
        if not options.json:
            show(f"{name}: {status}" + ("" if seconds is None else f" in {seconds:.0f} s"))

    missing: list[Item] = []
    for item, is_there in _items(options.protocol):
        if not item.codes:
            add(item.name, "plain Python, nothing to compile")
        elif is_there:
            add(item.name, "in the cache")
        else:
            missing.append(item)
    try:
        for item, seconds in make_all(missing, jobs=jobs, afresh=True):
            if failure := item.failure():
                row = {"status": "failed", "seconds": seconds, "failure": failure}
                rows.append({"name": item.name, **row})
                complain(f"{item.name}: {failure}")
            elif not item.is_kept():
                text = f"{cache_root()} does not keep it: make room, or set PRECEDES_CACHE"
                raise UserError(f"{item.name}: {text}")
            else:
                add(item.name, "compiled", seconds)
    except BaseException:
        for item in missing:
            for code in item.codes:
                code.end()
        raise
    if options.json:
        show_json({"cache": str(cache_root()), "compiled": rows})
    return Exit.UNKNOWN if any(row["failure"] for row in rows) else Exit.DONE


def _items(names: list[str]) -> Iterator[tuple[Item, bool]]:
    """Everything that can be compiled for these protocols, or for all; whether it exists."""
    from precedes import registry
    from precedes.audit import compiling
    from precedes.compiled.compiler import Item, code_of
    from precedes.live.member import node
    from precedes.sim import run

    audit = Item("the audit", tuple(code_of(entry) for entry in compiling.LOOPS))
    yield audit, all(code.is_cached() for code in audit.codes)
    for name in names or registry.linked():
        protocol = registry.load(name)
        if protocol.network != "links" or protocol.is_plain:
            yield Item(name, ()), True
            continue
        works = [(f"{name}, simulated", run.work)]
        try:
            registry.load_live(name)
            works.append((f"{name}, live", node.work))
        except UserError:  # it runs in the simulator alone
            pass
        for label, make in works:
            work = make(name)
            code = work.code(name)
            # Files may exist for other processors.
            yield Item(label, (code,)), code.is_cached() and code.load(*work.arguments) is not None
