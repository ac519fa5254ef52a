"""``precedes compile``: fill the cache of compiled code, for images, CI and the impatient."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from precedes.console import say, show
from precedes.errors import Exit, UserError

if TYPE_CHECKING:
    from precedes.cli.common import Commands
    from precedes.compiled.process import Compiler
    from precedes.compiled.recipes import Work
    from precedes.compiled.tiers import Compilation

LOOK_S: Final = 0.05


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compile",
        help="compile protocols and the audit into the cache, for a first use at full speed",
        description="Compile what runs of these protocols need, in the simulator and in live "
        "groups, and the audit. What is in the cache already is left as it is.",
        epilog="The cache is PRECEDES_CACHE, or precedes in the user's cache directory: see "
        "'precedes docs shell'. Example: precedes compile vector my_protocol.py",
    )
    parser.add_argument(
        "protocol",
        nargs="*",
        metavar="PROTOCOL",
        help="a name, or a file (.py) or folder of your own (default: all)",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="at a time (one for each core)")
    parser.set_defaults(run=_run)


class Code(Protocol):
    """Compiled code: there already, or to be made by a process."""

    @property
    def failure(self) -> str | None:
        """Why it cannot be made."""

    def is_there(self) -> bool:
        """Whether it is in the cache, for this processor."""

    def begin(self) -> None:
        """Have it made."""

    def is_ready(self) -> bool:
        """Whether it is made."""

    def end(self) -> None:
        """End what makes it."""


class Item(NamedTuple):
    """What is compiled, and what that is called."""

    name: str
    code: Code


def _run(options: argparse.Namespace) -> int:
    jobs = options.jobs if options.jobs is not None else os.cpu_count() or 1
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {jobs}")
    left = list(_items(options.protocol))
    failed = 0
    running: dict[Item, float] = {}
    try:
        while left or running:
            while left and len(running) < jobs:
                item = left.pop(0)
                if item.code.is_there():
                    show(f"{item.name}: in the cache")
                else:
                    item.code.begin()
                    running[item] = time.monotonic()
            failed += _await_one(running)
    finally:
        for item in running:
            item.code.end()
    return Exit.UNKNOWN if failed else Exit.DONE


def _await_one(running: dict[Item, float]) -> int:
    """Wait until something is compiled, or is not; how many are not."""
    from precedes import waiting
    from precedes.compiled import cache_root

    failed = 0
    with ExitStack() as drawn:
        if running:
            names = ", ".join(item.name for item in running)
            drawn.enter_context(waiting.shown(f"compiling {names}"))
        while running:
            ended = [item for item in running if item.code.is_ready() or item.code.failure]
            if ended:
                break
            time.sleep(LOOK_S)
        else:
            return 0
    for item in ended:
        taken_s = time.monotonic() - running.pop(item)
        if item.code.failure:
            failed += 1
            say(f"{item.name}: {item.code.failure}")
        elif not item.code.is_there():
            text = f"{item.name}: {cache_root()} does not keep it: make room, or set PRECEDES_CACHE"
            raise UserError(text)
        else:
            show(f"{item.name}: compiled in {taken_s:.0f} s")
    return failed


def _items(names: list[str]) -> Iterator[Item]:
    """Everything that can be compiled for these protocols, or for all."""
    from precedes import registry
    from precedes.live.member import node
    from precedes.sim import run, switch

    yield Item("the audit", _Audit())
    for name in names or registry.linked():
        protocol = registry.load(name)
        if protocol.network != "links":
            show(f"{name}: plain Python, nothing to compile")
            continue
        yield Item(f"{name}, simulated", _Loop(run.work(name), switch.RECIPE, name))
        try:
            registry.load_live(name)
        except UserError:  # it runs in the simulator alone
            continue
        yield Item(f"{name}, live", _Loop(node.work(name), node.RECIPE, name))


class _Loop:
    """A loop for one protocol."""

    def __init__(self, work: Work, recipe: str, name: str) -> None:
        from precedes.compiled import tiers

        self._arguments = work.arguments
        self._code: Compilation[..., Any] = tiers.compilation(
            work.entry, work.key, work.own, recipe=recipe, subject=name
        )

    @property
    def failure(self) -> str | None:
        return self._code.failure

    def is_there(self) -> bool:
        # What lies there may be for other processors.
        return self._code.is_cached() and self._code.load(*self._arguments) is not None

    def begin(self) -> None:
        self._code.begin()

    def is_ready(self) -> bool:
        return self._code.is_ready()

    def end(self) -> None:
        self._code.end()


class _Audit:
    """All loops of audits, by one process."""

    def __init__(self) -> None:
        self.failure: str | None = None
        self._compiler: Compiler | None = None

    def is_there(self) -> bool:
        from precedes.audit.compiling import are_compiled

        return are_compiled()

    def begin(self) -> None:
        from precedes.audit.compiling import RECIPE
        from precedes.compiled import cache_root
        from precedes.compiled.process import Compiler

        order = {"recipe": RECIPE, "subject": "", "root": str(cache_root()), "spare": None}
        self._compiler = Compiler(order, lock=None)

    def is_ready(self) -> bool:
        report = None if self._compiler is None else self._compiler.report()
        if report is None:
            return False
        self._compiler = None
        self.failure = report.failure
        return self.failure is None

    def end(self) -> None:
        if self._compiler is not None:
            self._compiler.end()
