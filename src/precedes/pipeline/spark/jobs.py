"""Spark jobs that a person waits for: progress, ctrl-C, and a cluster that gives nothing."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from precedes.errors import UserError
from precedes.pipeline.spark.session import log_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POLL_S: Final = 0.1
# A cluster may have to start machines first; one that has none waits for ever.
RESOURCES_S: Final = 120.0
# Java answers a cancelled job in some milliseconds, a busy one in seconds.
CANCEL_S: Final = 30.0
CANCEL_AGAIN_S: Final = 0.5

TRACEBACK: Final = "Traceback (most recent call last):"
# A task that failed for good, and why.
LOST_TASK: Final = re.compile(r"most recent failure: Lost task .*?\): (.*)")
# Lines that only say that there was an error, and where in Java.
NOISE: Final = re.compile(
    r"at |\.\.\. \d+ more|An error occurred while calling|.*Exception thrown in awaitResult"
)
CLASSES: Final = re.compile(r"^(?::|Caused by:)?\s*(?:[a-z_]\w*\.[\w.$]+: )*")

T = TypeVar("T")


class SparkError(UserError):
    """Spark failed, or gave nothing to work with: neither the caller's files nor our code."""


class TaskError(SparkError):
    """A task failed as often as this session allows; others may well be done."""


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


def sharers(spark: SparkSession) -> int:
    """How many tasks share the memory of a machine; 0: as many as the machine has cores."""
    context = getattr(spark, "sparkContext", None)
    is_local = context is not None and str(context.master).startswith("local")
    return parallelism(spark) if is_local else 0


def wait_for(
    spark: SparkSession,
    job: Callable[[], T],
    *,
    title: str,
    watch: Callable[[], None] | None = None,
) -> T:
    """The result of a job, which runs in a thread while ``watch`` is called now and then.

    ``title`` is what Spark's own pages and logs call it. An interrupt cancels the job, waiting
    at most ``CANCEL_S`` for Spark to notice; its tasks may last some seconds longer. One that is
    given no machine within ``RESOURCES_S`` is cancelled too.
    """
    group = f"precedes-{uuid.uuid4().hex}"
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            _begin(spark, group, title)
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
        _cancel(spark, group, thread)
        raise
    if errors:
        raise _user_error(errors[0], spark)
    return results[0]


def _begin(spark: SparkSession, group: str, title: str) -> None:
    """Have all jobs of this thread belong to a group, which can be cancelled.

    Spark starts the jobs of a query in threads of its own: they inherit a group, but not a tag.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect has tags alone
        spark.addTag(group)
    else:
        context.setJobGroup(group, f"precedes: {title}", interruptOnCancel=True)


def _cancel(spark: SparkSession, group: str, thread: threading.Thread) -> None:
    """Cancel a group until its thread has noticed: a job may start after it was cancelled."""
    deadline_s = time.monotonic() + CANCEL_S
    while thread.is_alive() and time.monotonic() < deadline_s:
        try:
            context = getattr(spark, "sparkContext", None)
            if context is None:
                spark.interruptTag(group)
            else:
                context.cancelJobGroup(group)
        except Exception:  # Spark may be what has just died
            return
        thread.join(CANCEL_AGAIN_S)


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


def _user_error(error: BaseException, spark: SparkSession) -> BaseException:
    """An error of Spark's in one line, with where to read more; ours stay as they are."""
    if isinstance(error, (UserError, KeyboardInterrupt)):
        return error
    kind = TaskError if "Job aborted due to stage failure" in str(error) else SparkError
    log = log_of(spark)
    where = "the log of your Spark session" if log is None else log
    return kind(f"Spark gave up: {cause_of(error)} (more in {where})")


def cause_of(error: BaseException) -> str:
    """The root cause: of pages of Java, the line that a person would look for."""
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return "its Java process has ended, or was killed"
    text = str(error)
    _, traceback, own = text.rpartition(TRACEBACK)
    if traceback:
        # The last line of the traceback; a blank one or Java's own stack follows it.
        lines = re.split(r"\n\s*(?:\n|at )", own)[0].strip().splitlines()
    else:
        lost = LOST_TASK.search(text)
        lines = [lost[1]] if lost else [x.strip() for x in text.splitlines() if x.strip()]
        lines = [line for line in lines if not NOISE.match(line)][:1]
    line = CLASSES.sub("", lines[-1].strip()) if lines else ""
    return line.partition(" Consider setting")[0][:300] or type(error).__name__


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
