"""The engine's loop for one run: interpreted at first, compiled as soon as there is machine code.

Interpreted and compiled, the loop continues with the same arrays and the same events, so that a run
may change from one to the other wherever it returns to Python.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from precedes import registry, waiting
from precedes.compiled import compiler
from precedes.compiled.compiler import Code, Item
from precedes.errors import InternalError
from precedes.registry import Protocol
from precedes.sim.engine import loop
from precedes.sim.engine.world import World

# Events between two returns to Python: about a fifth of a second compiled, and at most
# that interpreted, however slow the protocol.
SLICE_EVENTS: Final = 1 << 20
SLICE_EVENTS_INTERPRETED: Final = 1 << 8
LOOK_S: Final = 0.1

# Compile time: 13 CPU-seconds for the smallest protocol, 40 for the largest. A run
# with less work left is over sooner than its compiler. For one with more, continuing
# interpreted would take processor time from the compiler and save a fiftieth of a second of it.
COMPILATION_CPU_S: Final = 20.0

# Interpreted code takes this many times as long: from 400 (dcs) to 1,000 (hashed).
INTERPRETED_TIMES: Final = 500

# Too short to extrapolate from.
FIRST_LOOK_CPU_S: Final = 0.5


class Clock:
    """The time of a run, without waits for machine code."""

    def __init__(self) -> None:
        self._begin_s = time.perf_counter(), time.process_time()

    def wall_s(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._begin_s[0]

    def cpu_s(self) -> float:
        """CPU-seconds of this process since the beginning."""
        return time.process_time() - self._begin_s[1]

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Exclude the time of a block."""
        wall_s, cpu_s = self.wall_s(), self.cpu_s()
        try:
            yield
        finally:
            self._begin_s = time.perf_counter() - wall_s, time.process_time() - cpu_s


def code_of(protocol: Protocol, *, name: str) -> Code[[World, Any, int], int]:
    """The machine code of the loop for a protocol, which was found by this name."""
    return compiler.code_of(loop.ENTRY, protocol.state, protocol.sources, subject=name)


def wait_for_code(ahead_cpu_s: Mapping[str, float]) -> None:
    """Compile protocols whose runs would take longer interpreted, and wait for the result.

    For callers that are about to distribute many runs; the interpreted time of each protocol's
    is known. A protocol that cannot be compiled is left to its runs.
    """
    items = []
    for name, cpu_s in ahead_cpu_s.items():
        protocol = registry.load(name)
        if protocol.network != "links" or protocol.resolve_tier("auto") == "interpreted":
            continue
        code = code_of(protocol, name=name)
        if cpu_s > COMPILATION_CPU_S and not code.is_cached():
            items.append(Item(name, (code,)))
    if items:
        names = ", ".join(item.name for item in items)
        text = f"compiling {names} first, which is faster than interpreted runs (then cached)"
        with waiting.shown(text, line=True):
            for _ in compiler.make_all(items, jobs=len(os.sched_getaffinity(0))):
                pass


class Switch:
    """The loop in its current form, for the time of one run.

    ``ahead_cpu_s`` is the interpreted time of later runs of the same protocol.
    """

    def __init__(
        self, protocol: Protocol, *, name: str, tier: str, ahead_cpu_s: float = 0.0
    ) -> None:
        self.body: Callable[..., int] = loop.run
        self.slice_events = SLICE_EVENTS_INTERPRETED
        self.clock = Clock()
        self._protocol = protocol
        self._tier = protocol.resolve_tier(tier)
        self._ahead_cpu_s = ahead_cpu_s
        self._code = code_of(protocol, name=name)
        self._began_interpreted = True
        self._next_look_s = 0.0
        self._state: Any = None
        self._handed: Any = None

    @property
    def is_interpreted(self) -> bool:
        """Return whether the loop is not compiled yet."""
        return self.body is loop.run

    def turn(self, world: World, state: Any) -> int:
        """Run the loop for a slice."""
        if self.is_interpreted:
            return self.body(world, state, self.slice_events)
        if state is not self._state:
            # Writing down the addresses of its arrays takes as long as a thousand events.
            self._state, self._handed = state, loop.ENTRY.handed(world, state)[1]
        return self.body(world, self._handed, self.slice_events)

    @property
    def tier(self) -> str:
        """The tier of the run so far: compiled, interpreted, or mixed: compiled after a while."""
        if self.is_interpreted:
            return "interpreted"
        return "mixed" if self._began_interpreted else "compiled"

    def begin(self, world: World, state: Any) -> None:
        """Choose the tier to begin with, and start the clock."""
        if self._tier == "compiled":
            self._use(self._code.wait(world, state, 0))
        elif self._tier == "auto":
            self._look(world, state, left_s=self._ahead_cpu_s)
        self._began_interpreted = self.is_interpreted
        self.clock = Clock()

    def look(self, world: World, state: Any, *, done: float) -> None:
        """Between two slices: load the machine code if it exists, or wait for it if it pays.

        ``done`` is the estimated completed share of the run.
        """
        if self._tier != "auto" or time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + LOOK_S
        elapsed_s, left_s = self.clock.cpu_s(), self._ahead_cpu_s
        if elapsed_s > FIRST_LOOK_CPU_S:
            # Without progress, the only estimate is the time so far.
            left_s += elapsed_s * (1 / done - 1) if done > 0 else elapsed_s
        self._look(world, state, left_s=left_s)

    def _look(self, world: World, state: Any, *, left_s: float) -> None:
        """Start a compiler at the first look, so that the next run is compiled in any case."""
        with self.clock.stopped():
            machine_code = self._code.load(world, state, 0)
            if machine_code is None:
                self._code.begin(then=True)
            if machine_code is None and self._code.failure is None and left_s > COMPILATION_CPU_S:
                label = f"compiling {self._protocol.name}"
                text = f"{label}, which is faster than interpreting (then cached)"
                with contextlib.suppress(InternalError):
                    machine_code = self._code.wait(world, state, 0, text=text)
        if machine_code is not None:
            self._use(machine_code)
        elif self._code.failure is not None:
            compiler.tell_failure(self._code, self._protocol.name)
            self._tier = "interpreted"

    def _use(self, body: Callable[..., int]) -> None:
        self.body = body
        self.slice_events = SLICE_EVENTS
