"""The engine's loop for one run: interpreted first, compiled as soon as that is worth it and there.

Interpreted and compiled, the loop goes on from the same arrays with the same events, so that a run
may change from one to the other wherever it returns to Python.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from precedes import waiting
from precedes.compiled import tiers
from precedes.registry import Protocol
from precedes.sim.engine import loop
from precedes.sim.engine.world import World

# Events between two looks at the outside world: about a fifth of a second compiled, and at most
# that interpreted, however slow the protocol.
SLICE_EVENTS: Final = 1 << 20
SLICE_EVENTS_INTERPRETED: Final = 1 << 8

# What a compiler process is told: ``run.work``.
RECIPE: Final = "precedes.sim.run:work"

# What a compilation takes: 13 CPU-seconds for the smallest protocol, 40 for the largest. A run
# that has less than this before it is over sooner than its compiler; one that has more is at
# least not slower with it, and runs hundreds of times as long get nearly all of the speed.
COMPILATION_CPU_S: Final = 20.0

# Before a run has taken this long, nothing is foretold from it.
FIRST_LOOK_CPU_S: Final = 0.5

# CPU-seconds of runs that were interpreted in this process, by state class: who has run a protocol
# for long will go on to do so, although each run was short.
_spent_s: Final[dict[type, float]] = {}


class Clock:
    """The time that a run takes, without that of getting compiled code, which is no part of it."""

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
        """Do not count the time of a block."""
        wall_s, cpu_s = self.wall_s(), self.cpu_s()
        try:
            yield
        finally:
            self._begin_s = time.perf_counter() - wall_s, time.process_time() - cpu_s


def code_of(protocol: Protocol, *, name: str) -> tiers.Compilation[[World, Any, int], int]:
    """The compiled form of the loop for a protocol, which was found by this name."""
    return tiers.compilation(
        loop.ENTRY, protocol.state, protocol.sources, recipe=RECIPE, subject=name
    )


class Switch:
    """The loop in the form in which it runs now, for the time of one run.

    ``ahead_cpu_s`` is what runs of the same protocol that follow would take interpreted.
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
        self._shown = contextlib.ExitStack()
        self._given: Any = None
        self._handed: Any = None

    @property
    def is_interpreted(self) -> bool:
        """Whether the loop is not compiled as yet."""
        return self.body is loop.run

    def turn(self, world: World, state: Any) -> int:
        """Run the loop for a slice."""
        if self.is_interpreted:
            return self.body(world, state, self.slice_events)
        if state is not self._given:
            # To write down where its arrays are takes as long as a thousand events.
            self._given, self._handed = state, loop.ENTRY.handed(world, state)[1]
        return self.body(world, self._handed, self.slice_events)

    def begin(self, world: World, state: Any) -> None:
        """Choose what the run begins with; its time counts from here."""
        if self._tier == "compiled":
            protocol = self._protocol
            self._use(loop.ENTRY.prepare(protocol.state, protocol.sources, world, state, 0))
        elif self._tier == "auto" and (self._code.is_cached() or self._code.is_ready()):
            self._load(world, state)
        elif self._tier == "auto" and self._ahead_cpu_s > COMPILATION_CPU_S:
            self._have_made()
        self.clock = Clock()

    def look(self, world: World, state: Any, *, done: float) -> None:
        """Between two slices: take the compiled form if it is ready, or have it made.

        ``done`` is the share of the run that is over, as far as one can tell.
        """
        if self._tier != "auto":
            return
        if self._code.is_ready():
            self._load(world, state)
        elif self._code.failure is not None:
            self._shown.close()
            tiers.tell_failure(self._code, self._protocol.name)
            self._tier = "interpreted"
        elif not self._code.is_begun and self._is_worth_it(done):
            self._have_made()

    def _have_made(self) -> None:
        self._code.begin()
        text = f"compiling {loop.ENTRY.label} in the background"
        self._shown.enter_context(waiting.shown(text))

    def _is_worth_it(self, done: float) -> bool:
        taken_s = self.clock.cpu_s()
        if taken_s < FIRST_LOOK_CPU_S:
            return False
        # Of what shows no progress nothing is known but that it has gone on for so long.
        left_s = taken_s * (1 / done - 1) if done > 0 else taken_s
        before_s = _spent_s.get(self._protocol.state, 0.0)
        return max(left_s + self._ahead_cpu_s, before_s + taken_s) > COMPILATION_CPU_S

    def _load(self, world: World, state: Any) -> None:
        with self.clock.stopped():
            found = self._code.load(world, state, 0)
        if found is not None:
            self._use(found)
            self._shown.close()

    def _use(self, body: Callable[..., int]) -> None:
        self.body = body
        self.slice_events = SLICE_EVENTS

    def __enter__(self) -> Switch:
        return self

    def __exit__(self, *_error: object) -> None:
        self._shown.close()
        if self.is_interpreted:
            state = self._protocol.state
            _spent_s[state] = _spent_s.get(state, 0.0) + self.clock.cpu_s()
