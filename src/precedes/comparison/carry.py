"""Runs of a comparison, resumable: as tasks of Spark, or in a few processes of this machine.

Both leave the same records and traces in the directory, and go on where the other was.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline.directory import (
    ATTEMPTS_MAX,
    LOG,
    Records,
    forget_starts,
    hold,
    read_records,
    record_path,
)
from precedes.pipeline.execute import FAILED, Outcome
from precedes.pipeline.plan import PlannedRun, ahead_s, expand, learned
from precedes.pipeline.progress import RunProgress
from precedes.sim.experiment import Experiment
from precedes.sim.switch import wait_for_code
from precedes.stores import Address, Lease

# CPU seconds of work from which on Spark, which takes some itself, is worth starting.
SPARK_S: Final = 60.0
POLL_S: Final = 0.2
SAID_CHARS_MAX: Final = 300

# A worker has the modules of this process, wherever those were found.
_START: Final = """
import json, sys
order = json.loads(sys.argv[1])
sys.path[:] = order.pop("path")
from precedes.comparison import worker
worker.main(**order)
"""


@dataclass(frozen=True)
class Carried:
    """Runs of experiments with what is known of each."""

    runs: list[PlannedRun]
    found: Records
    errors: Mapping[int, str]  # by run id, of those that failed


def carry_out(
    experiments: Sequence[Experiment],
    directory: Address,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Carried:
    """Do the runs that are not finished; called again, also after a kill, it goes on.

    Spark has them if a master or settings are given, or if there is much to do and Spark is
    installed; else as many processes as this machine has cores. A run that fails stops no other.
    """
    runs = expand(experiments)
    with hold(directory) as held:
        before = read_records(directory, runs)
        missing = [run for run in learned(runs, before.costs_s) if run.run_id not in before]
        for run in missing:
            record_path(directory, run.name).remove()
        if not missing:
            return Carried(runs, before, {})
        # By what was planned: what finished ones took may have been a compiler's time.
        much = work_s([run for run in runs if run.run_id not in before]) > SPARK_S
        if master or settings or (much and _has_spark()):
            outcomes = _on_spark(missing, held, master, settings, progress)
        else:
            outcomes = run_here(missing, held, progress=progress)
        found = before.with_more(read_records(directory, missing))
    errors = {outcome.run_id: outcome.error for outcome in outcomes if outcome.error}
    for run in missing:
        if run.run_id not in found:
            errors.setdefault(run.run_id, "its record is not where it was written")
    return Carried(runs, found, errors)


def work_s(runs: Sequence[PlannedRun]) -> float:
    """About how many CPU seconds different runs take once their protocols are compiled."""
    return sum({run.run_id: run.cost_s for run in runs}.values())


def workers() -> int:
    """How many processes run at once here."""
    return max(len(os.sched_getaffinity(0)), 1)


def _has_spark() -> bool:
    from precedes.pipeline.spark.session import require_pyspark

    with contextlib.suppress(UserError):
        require_pyspark()
        return True
    return False


def _on_spark(
    missing: Sequence[PlannedRun],
    held: Lease,
    master: str | None,
    settings: Mapping[str, str] | None,
    progress: Progress | None,
) -> list[Outcome]:
    from precedes.pipeline.dispatch import simulate_runs
    from precedes.pipeline.spark.session import open_session

    directory = held.folder
    with contextlib.ExitStack() as stack:
        log = (directory / LOG).local if directory.is_local else None
        if log is None:
            log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / LOG
        spark = stack.enter_context(open_session(master=master, settings=settings, log=log))
        return simulate_runs(spark, missing, directory=directory, held=held, progress=progress)


class _Worker:
    """A child process with at most one order; it ends with its input."""

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.order: PlannedRun | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        assert self._process.stdout is not None
        self.answers = self._process.stdout

    def give(self, run: PlannedRun, text: str) -> None:
        """Have it do a run; of one that has died, ``answer`` tells."""
        self.order = run
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()

    def answer(self) -> Outcome | None:
        """How the run ended; None: the process has."""
        line = self.answers.readline()
        if not line:
            return None
        self.order = None
        return Outcome(*json.loads(line))

    def last_words(self) -> str:
        """What it said before it died."""
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:SAID_CHARS_MAX] if lines else f"status {self._process.returncode}"

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self.answers, self._said):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def run_here(
    runs: Sequence[PlannedRun], held: Lease, *, progress: Progress | None = None
) -> list[Outcome]:
    """Carry out runs in processes of this machine, each once.

    A process that dies is replaced, and its run tried again, as often as Spark would.
    """
    directory = held.folder
    once = {run.run_id: run for run in runs}
    left = deque(_in_turns(once.values()))
    ahead = ahead_s(once.values())
    wait_for_code(ahead)
    watch = RunProgress(directory, list(once.values()), progress, held)
    deaths: dict[int, int] = {}
    outcomes: list[Outcome] = []
    with _staff(directory, min(workers(), len(left))) as (staff, replace):
        while left or any(one.order for one in staff):
            for one in staff:
                if one.order is None and left:
                    run = left.popleft()
                    order = run.order(ahead_s=ahead[run.scenario.protocol])
                    one.give(run, json.dumps(order))
            busy = [one for one in staff if one.order is not None]
            ready = select.select([one.answers for one in busy], [], [], POLL_S)[0]
            for one in [one for one in busy if one.answers in ready]:
                outcome = one.answer()
                if outcome is not None:
                    outcomes.append(outcome)
                    continue
                dead = one.order
                assert dead is not None
                deaths[dead.run_id] = deaths.get(dead.run_id, 0) + 1
                if deaths[dead.run_id] > ATTEMPTS_MAX:
                    text = f"its process died: {one.last_words()}"
                    outcomes.append(Outcome(dead.run_id, FAILED, text))
                    forget_starts(directory, dead.name)
                else:
                    left.append(dead)
                replace(one)
            watch()
    watch.close()
    watch.end()
    return outcomes


def _in_turns(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """One run of each protocol after the other, so that two compile two; the longest first."""
    turns: dict[str, int] = {}
    placed = []
    for run in sorted(runs, key=lambda run: (-run.cost_s, run.run_id)):
        name = run.scenario.protocol
        turns[name] = turns.get(name, -1) + 1
        placed.append((turns[name], run))
    return [run for _, run in sorted(placed, key=lambda pair: (pair[0], -pair[1].cost_s))]


@contextlib.contextmanager
def _staff(directory: Address, count: int) -> Iterator[tuple[list[_Worker], Any]]:
    """So many workers, and a way to replace one; none outlives the block."""
    start = {
        "directory": str(directory.absolute()),
        "here": str(Path.cwd()),
        "sharers": count,
        "path": [item or os.getcwd() for item in sys.path],
    }
    staff: list[_Worker] = []

    def replace(one: _Worker) -> None:
        one.end()
        staff[staff.index(one)] = _Worker(start)

    try:
        for _ in range(count):
            staff.append(_Worker(start))
        yield staff, replace
    finally:
        for one in staff:
            one.end()
