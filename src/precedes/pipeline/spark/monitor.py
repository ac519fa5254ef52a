"""What Spark says of the jobs that belong together: how far they are, and what they took.

A session with a context has its counts in this process's Java. A server of Spark Connect tells its
clients of tasks alone, while a query runs.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Java answers a cancelled job in some milliseconds, a busy one in seconds.
CANCEL_S: Final = 30.0
CANCEL_AGAIN_S: Final = 0.5

NANOSECONDS_PER_S: Final = 1e9
MILLISECONDS_PER_S: Final = 1e3


class Counts(NamedTuple):
    """Tasks of the stage that gives a job its result."""

    tasks: int
    done: int
    active: int


class Summary(NamedTuple):
    """What the jobs of a group took; None is what Spark Connect does not tell.

    Spark counts the CPU time of Java alone: that of Python is in ``task_s``, the time in tasks.
    """

    title: str
    wall_s: float
    tasks: int
    failed_tasks: int | None  # they were tried again, or their machine was lost
    task_s: float | None
    java_cpu_s: float | None
    shuffled_bytes: int | None

    def __str__(self) -> str:
        told = f"{self.title}: {self.wall_s:.1f} s, {self.tasks:,} tasks"
        if self.task_s is None:
            return told
        return (
            f"{told}, {self.failed_tasks:,} of them failed, {self.task_s:.1f} s in tasks, "
            f"{self.java_cpu_s:.1f} s of Java's CPU, {self.shuffled_bytes:,} bytes shuffled"
        )


class Group:
    """The jobs that a thread starts; they can be cancelled together."""

    def __init__(self, context: Any, name: str, title: str) -> None:
        self.title = title
        self._context = context
        self._name = name
        self._begin_s = time.monotonic()

    def begin(self) -> None:
        """Have all jobs of this thread belong to it.

        Spark starts the jobs of a query in threads of its own: they inherit a group, but not a tag.
        """
        self._context.setJobGroup(self._name, f"precedes: {self.title}", interruptOnCancel=True)

    def end(self) -> None:
        """Nothing more belongs to it."""

    def cancel(self) -> None:
        """Ask for its jobs to be ended."""
        self._context.cancelJobGroup(self._name)

    def has_begun(self) -> bool:
        """Whether a task was given a machine."""
        return any(s.numActiveTasks + s.numCompletedTasks for s in self._infos())

    def counts(self) -> Counts | None:
        """How far its newest job is; None before there is one."""
        last = max(self._infos(), key=lambda stage: stage.stageId, default=None)
        if last is None:
            return None
        return Counts(last.numTasks, last.numCompletedTasks, last.numActiveTasks)

    def _infos(self) -> list[Any]:
        tracker = self._context.statusTracker()
        return [info for stage in self._stages() if (info := tracker.getStageInfo(stage))]

    def _stages(self) -> list[int]:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._name)]
        return sorted({stage for job in jobs if job for stage in job.stageIds})

    def summary(self) -> Summary:
        """What it has taken so far."""
        store = self._context._jsc.sc().statusStore()
        tasks = failed = task_ms = java_ns = shuffled = 0
        for stage in self._stages():
            try:
                data = store.lastStageAttempt(stage)
            except Exception:  # a stage whose result was there already
                continue
            tasks += data.numCompleteTasks()
            failed += data.numFailedTasks()
            task_ms += data.executorRunTime()
            java_ns += data.executorCpuTime()
            shuffled += data.shuffleWriteBytes()
        return Summary(
            title=self.title,
            wall_s=time.monotonic() - self._begin_s,
            tasks=tasks,
            failed_tasks=failed,
            task_s=task_ms / MILLISECONDS_PER_S,
            java_cpu_s=java_ns / NANOSECONDS_PER_S,
            shuffled_bytes=shuffled,
        )


class ConnectGroup(Group):
    """The queries of a thread on a server of Spark Connect: known by their tag."""

    def __init__(self, session: SparkSession, name: str, title: str) -> None:
        super().__init__(None, name, title)
        self._session = session
        self._thread = 0
        self._seen: dict[tuple[str | None, int], Counts] = {}
        self._newest: str | None = None

    def begin(self) -> None:
        """Have all queries of this thread belong to it."""
        self._thread = threading.get_ident()
        self._session.addTag(self._name)
        self._session.registerProgressHandler(self._heed)

    def end(self) -> None:
        """Nothing more belongs to it."""
        self._session.removeProgressHandler(self._heed)

    def cancel(self) -> None:
        """Ask for its queries to be ended."""
        self._session.interruptTag(self._name)

    def _heed(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Be told of a query, in the thread that waits for it."""
        if threading.get_ident() != self._thread:
            return
        for stage in stages or ():
            # How many are in flight is told of all stages together; at most one is at work.
            is_done = stage.num_completed_tasks >= stage.num_tasks
            active = 0 if is_done else inflight_tasks
            counts = Counts(stage.num_tasks, stage.num_completed_tasks, active)
            self._seen[operation_id, stage.stage_id] = counts
            self._newest = operation_id

    def has_begun(self) -> bool:
        """Whether a task was given a machine."""
        return any(counts.done + counts.active for counts in self._seen.values())

    def counts(self) -> Counts | None:
        """How far its newest query is; None before there is one."""
        stages = {stage: c for (query, stage), c in self._seen.items() if query == self._newest}
        if not stages:
            return None
        before = [counts for stage, counts in stages.items() if stage < max(stages)]
        last = stages[max(stages)]
        waits = any(counts.done < counts.tasks for counts in before)
        return last._replace(active=0) if waits else last

    def summary(self) -> Summary:
        """What it has taken so far."""
        return Summary(
            title=self.title,
            wall_s=time.monotonic() - self._begin_s,
            tasks=sum(counts.done for counts in self._seen.values()),
            failed_tasks=None,
            task_s=None,
            java_cpu_s=None,
            shuffled_bytes=None,
        )


def group(spark: SparkSession, name: str, title: str) -> Group:
    """A group of jobs to come, in whatever way the session has them."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return ConnectGroup(spark, name, title)
    return Group(context, name, title)


def cancel(jobs: Group, thread: threading.Thread) -> None:
    """Cancel a group until its thread has noticed: a job may start after it was cancelled."""
    deadline_s = time.monotonic() + CANCEL_S
    while thread.is_alive() and time.monotonic() < deadline_s:
        try:
            jobs.cancel()
        except Exception:  # Spark may be what has just died
            return
        thread.join(CANCEL_AGAIN_S)


Listener = Callable[[Summary], None]
_listeners: Final[list[Listener]] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function told, for a block, what each group of jobs took that ends in it."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell(jobs: Group) -> None:
    """Tell those who listen what a group took; it is not worth a failure."""
    if _listeners:
        with contextlib.suppress(Exception):
            summary = jobs.summary()
            for listener in [*_listeners]:
                listener(summary)
