"""How far a sweep is, from what its tasks leave in the directory."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

from precedes import waiting
from precedes.model import Progress
from precedes.pipeline import execute
from precedes.pipeline.directory import begun_names, finished_names, record_path
from precedes.pipeline.plan import PlannedRun
from precedes.pipeline.spark.estimate import Estimate, Piece
from precedes.stores import Address, Lease, StoreError

# A look at the records may take one part in so many of the time until the next.
LOOK_EVERY: Final = 50
# Records read at a look: what a few runs of a kind took tells what the others will.
SAMPLES_MAX: Final = 20


class RunProgress:
    """Tells the share of the work that is done, from records and notes of starts.

    Looking takes longer the more there are, so it is done the less often. A store that does not
    answer is looked at again later; a lease that is lost raises.
    """

    def __init__(
        self,
        directory: Address,
        runs: Sequence[PlannedRun],
        progress: Progress | None,
        held: Lease | None = None,
    ) -> None:
        self._held = held
        self._directory = directory
        self._estimate = Estimate(Piece(run.name, run.kind, run.cost_s) for run in runs)
        self._protocols = sorted({run.scenario.protocol for run in runs})
        self._progress = progress
        self._next_s = 0.0
        self._shown: AbstractContextManager[object] | None = None

    def __call__(self) -> None:
        if self._held is not None:
            self._held.check()
        begin_s = time.monotonic()
        if self._progress is None or begin_s < self._next_s:
            return
        with contextlib.suppress(StoreError):
            self._look(begin_s, self._progress)
        self._next_s = begin_s + LOOK_EVERY * (time.monotonic() - begin_s)

    def _look(self, begin_s: float, progress: Progress) -> None:
        self._finish()
        self._show(execute.is_compiling(self._protocols))
        for name in begun_names(self._directory):
            self._estimate.begin(name, begin_s)
        progress(self._estimate.share(begin_s))

    def _finish(self) -> None:
        new = sorted(finished_names(self._directory) & self._estimate.left, key=str)
        for number, name in enumerate(new):
            taken_s = self._taken_s(str(name)) if number < SAMPLES_MAX else None
            self._estimate.finish(name, taken_s=taken_s)

    def _taken_s(self, name: str) -> float | None:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return float(json.loads(record_path(self._directory, name).read_bytes())["task_cpu_s"])
        return None

    def _show(self, compiling: bool) -> None:
        """Say that tasks compile, for as long as they do."""
        if compiling and self._shown is None:
            self._shown = waiting.shown("compiling protocols in the background (then cached)")
            self._shown.__enter__()
        elif not compiling:
            self.close()

    def close(self) -> None:
        """Say no more that anything is waited for."""
        if self._shown is not None:
            self._shown.__exit__(None, None, None)
            self._shown = None

    def end(self) -> None:
        """Nothing is left to do."""
        if self._progress is not None:
            self._progress(1.0)
