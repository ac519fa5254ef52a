"""``precedes compile``: fill the cache of compiled code, for images, CI and the impatient."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from precedes.cli.common import add_json, examples, show_json
from precedes.console import complain, show
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
        "'precedes docs shell'.\n\n"
        + examples(
            ("compile vector", "one protocol, and the audit"),
            ("compile examples/fifo_broadcast.py", "a protocol of your own"),
            ("compile --jobs 2 --json", "all, two at a time, for programs"),
        ),
    )
    parser.add_argument(
        "protocol",
        nargs="*",
        metavar="PROTOCOL",
        help="a name, or a file (.py) or folder of your own (default: all)",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="at a time (one for each core)")
    add_json(parser)
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
    """What is compiled, and what that is called; None: it is plain Python."""

    name: str
    code: Code | None


def _run(options: argparse.Namespace) -> int:
    from precedes.compiled import cache_root

    jobs = options.jobs if options.jobs is not None else os.cpu_count() or 1
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {jobs}")
    told = Told(is_json=options.json)
    left = list(_items(options.protocol))
    running: dict[Code, Running] = {}
    try:
        while left or running:
            while left and len(running) < jobs:
                name, code = left.pop(0)
                if code is None:
                    told.add(name, "plain Python, nothing to compile")
                elif code.is_there():
                    told.add(name, "in the cache")
                else:
                    code.begin()
                    running[code] = Running(name, time.monotonic())
            _await_one(running, told)
    finally:
        for code in running:
            code.end()
    if options.json:
        show_json({"cache": str(cache_root()), "compiled": told.rows})
    return Exit.UNKNOWN if told.has_failed else Exit.DONE


class Running(NamedTuple):
    """What is being compiled, and since when."""

    name: str
    began_s: float


class Told:
    """What came of each, told at once in a line, or for programs in the end."""

    def __init__(self, *, is_json: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.has_failed = False
        self._is_json = is_json

    def add(self, name: str, status: str, *, taken_s: float | None = None) -> None:
        """Something that is in the cache now, or is not compiled."""
        self.rows.append({"name": name, "status": status, "seconds": taken_s, "failure": None})
        if not self._is_json:
            show(f"{name}: {status}" + ("" if taken_s is None else f" in {taken_s:.0f} s"))

    def fail(self, name: str, failure: str, *, taken_s: float) -> None:
        """Something that does not compile."""
        row = {"name": name, "status": "failed", "seconds": taken_s, "failure": failure}
        self.rows.append(row)
        self.has_failed = True
        complain(f"{name}: {failure}")


def _await_one(running: dict[Code, Running], told: Told) -> None:
    """Wait until something is compiled, or is not."""
    from precedes import waiting
    from precedes.compiled import cache_root

    with ExitStack() as drawn:
        if running:
            names = ", ".join(name for name, _ in running.values())
            drawn.enter_context(waiting.shown(f"compiling {names}"))
        while running:
            ended = [code for code in running if code.is_ready() or code.failure]
            if ended:
                break
            time.sleep(LOOK_S)
        else:
            return
    for code in ended:
        name, began_s = running.pop(code)
        taken_s = time.monotonic() - began_s
        if code.failure:
            told.fail(name, code.failure, taken_s=taken_s)
        elif not code.is_there():
            text = f"{name}: {cache_root()} does not keep it: make room, or set PRECEDES_CACHE"
            raise UserError(text)
        else:
            told.add(name, "compiled", taken_s=taken_s)


def _items(names: list[str]) -> Iterator[Item]:
    """Everything that can be compiled for these protocols, or for all."""
    from precedes import registry
    from precedes.live.member import node
    from precedes.sim import run, switch

    yield Item("the audit", _Audit())
    for name in names or registry.linked():
        protocol = registry.load(name)
        if protocol.network != "links" or protocol.is_plain:
            yield Item(name, None)
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
