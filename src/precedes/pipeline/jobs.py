"""Spark jobs that a person waits for: progress, ctrl-C, and a cluster that gives nothing."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from precedes.model import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S: Final = 0.1
# A cluster may have to start machines first; one that has none waits for ever.
RESOURCES_S: Final = 120.0

T = TypeVar("T")


class SparkError(UserError):
    """Spark failed, or gave nothing to work with: neither the caller's files nor our code."""


def packed(spark: SparkSession, tasks: Sequence[Sequence[str]]) -> DataFrame:
    """A frame of one text column, ``order``, whose partitions are these tasks, in this order."""
    import pyarrow as pa

    task = [number for number, orders in enumerate(tasks) for _ in orders]
    order = [text for orders in tasks for text in orders]
    table = pa.table({"task": pa.array(task, pa.int32()), "order": pa.array(order, pa.string())})
    frame = spark.createDataFrame(table)
    return frame.repartitionById(max(len(tasks), 1), "task").select("order")


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark knows; a cluster may still be growing."""
    context = getattr(spark, "sparkContext", None)
    return 1 if context is None else max(int(context.defaultParallelism), 1)


def wait_for(
    spark: SparkSession,
    job: Callable[[], T],
    *,
    title: str,
    watch: Callable[[], None] | None = None,
) -> T:
    """The result of a job, which runs in a thread while ``watch`` is called now and then.

    ``title`` is what Spark's own pages and logs call it. An interrupt cancels the job. One that
    is given no machine within ``RESOURCES_S`` is cancelled too.
    """
    tag = f"precedes-{uuid.uuid4().hex}"
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            spark.addTag(tag)
            context = getattr(spark, "sparkContext", None)
            if context is not None:
                context.setJobDescription(f"precedes: {title}")
            results.append(job())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    resources = _Resources(spark)
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            resources.check()
            if watch is not None:
                watch()
    except BaseException:
        with contextlib.suppress(Exception):  # Spark may be what has just died
            spark.interruptTag(tag)
        thread.join(10)
        raise
    if errors:
        raise _user_error(errors[0])
    return results[0]


class _Resources:
    """Notices that no task has started for a long time."""

    def __init__(self, spark: SparkSession) -> None:
        self._context: Any = getattr(spark, "sparkContext", None)
        self._seen = False
        self._deadline_s = time.monotonic() + RESOURCES_S
        self._next_s = 0.0

    def check(self) -> None:
        """Raise if the deadline has passed without a task."""
        now_s = time.monotonic()
        if self._seen or self._context is None or now_s < self._next_s:
            return
        self._next_s = now_s + 1
        with contextlib.suppress(Exception):
            tracker = self._context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            self._seen = any(s and s.numActiveTasks + s.numCompletedTasks for s in stages)
        if not self._seen and now_s > self._deadline_s:
            raise SparkError(
                f"the Spark master has given no worker for {RESOURCES_S:.0f} s: start workers, or "
                "leave out --master"
            )


def _user_error(error: BaseException) -> BaseException:
    """An error of Spark's in one line; ours stay as they are."""
    if isinstance(error, (UserError, KeyboardInterrupt)):
        return error
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return SparkError(f"Spark gave up: {(lines or [type(error).__name__])[0][:300]}")


class TaskProgress:
    """Tells how many of a job's tasks are done, from Spark's own count."""

    def __init__(self, spark: SparkSession, tasks: int, progress: Callable[[float], None]) -> None:
        self._context: Any = getattr(spark, "sparkContext", None)
        self._tasks = max(tasks, 1)
        self._progress = progress

    def __call__(self) -> None:
        if self._context is None:
            return
        with contextlib.suppress(Exception):  # the count is not worth a failure
            tracker = self._context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = max((s.numCompletedTasks for s in stages if s), default=0)
            self._progress(min(done / self._tasks, 1.0))
