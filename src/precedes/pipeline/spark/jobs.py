"""Spark jobs that a person waits for: progress, ctrl-C, and a cluster that gives nothing."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from precedes.errors import UserError
from precedes.pipeline.spark import monitor
from precedes.pipeline.spark.estimate import Estimate, Piece
from precedes.pipeline.spark.session import context_of, log_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# The bound on the rows of a batch; 0 or less means none.
RECORDS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
POLL_S: Final = 0.1
# A look at Spark's counts may take one part in so many of the time until the next.
LOOK_EVERY: Final = 20
# More tasks at once than any cluster of ours would run.
PARALLELISM_MAX: Final = 100_000
# A cluster may have to start machines first; one that has none waits for ever.
RESOURCES_S: Final = 120.0

TRACEBACK: Final = "Traceback (most recent call last):"
# A task that failed for good, and why.
LOST_TASK: Final = re.compile(r"most recent failure: Lost task .*?\): (.*)")
# Lines that only say that there was an error, and where in Java.
NOISE: Final = re.compile(
    r"at |\.\.\. \d+ more|An error occurred while calling|.*Exception thrown in awaitResult"
)
# Where the Python of a task has its modules, as a line of its traceback says.
WORKER: Final = re.compile(r'File "([^"]+?)/pyspark/')
CAUSE_MAX: Final = 500  # characters
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
    frame = frame_of(spark, table)
    return frame.repartitionById(max(len(tasks), 1), "task").select("order")


def frame_of(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
    """A table as a DataFrame; ``createDataFrame`` fails in a session without a bound on batches."""
    bound = spark.conf.get(RECORDS)
    if int(bound or 0) > 0:
        return spark.createDataFrame(table, schema)
    spark.conf.set(RECORDS, max(table.num_rows, 1))
    try:
        return spark.createDataFrame(table, schema)
    finally:
        spark.conf.set(RECORDS, bound)


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once, as far as Spark knows; a cluster may still be growing."""
    context = context_of(spark)
    if context is not None:
        return max(int(context.defaultParallelism), 1)
    if spark not in _parallelism:
        _parallelism[spark] = _asked_parallelism(spark)
    return _parallelism[spark]


# A server of Connect has to be asked by a query.
_parallelism: Final[weakref.WeakKeyDictionary[SparkSession, int]] = weakref.WeakKeyDictionary()


def _asked_parallelism(spark: SparkSession) -> int:
    """Into how many parts Spark cuts a range by itself."""
    from pyspark.sql.functions import max as largest
    from pyspark.sql.functions import spark_partition_id

    parts = spark.range(PARALLELISM_MAX).select(spark_partition_id().alias("part"))
    last = wait_for(spark, parts.agg(largest("part")).toArrow, title="parallelism")
    return int(last.column(0)[0].as_py()) + 1


def sharers(spark: SparkSession) -> int:
    """How many tasks share the memory of a machine; 0: as many as the machine has cores."""
    context = context_of(spark)
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
    at most ``monitor.CANCEL_S`` for Spark to notice; its tasks may last some seconds longer. One
    that is given no machine within ``RESOURCES_S`` is cancelled too.
    """
    group = monitor.group(spark, f"precedes-{uuid.uuid4().hex}", title)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            group.begin()
            results.append(job())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    resources = _Resources(group)
    _current[spark] = group
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            resources.check()
            if watch is not None:
                watch()
    except BaseException:
        monitor.cancel(group, thread)
        raise
    finally:
        with contextlib.suppress(Exception):
            group.end()
    monitor.tell(group)
    if errors:
        raise _user_error(errors[0], spark)
    return results[0]


# What each session is at.
_current: Final[weakref.WeakKeyDictionary[SparkSession, monitor.Group]] = (
    weakref.WeakKeyDictionary()
)


class _Resources:
    """Notices that no task has started for a long time."""

    def __init__(self, group: monitor.Group) -> None:
        self._group = group
        self._seen = False
        self._deadline_s = time.monotonic() + RESOURCES_S
        self._next_s = 0.0

    def check(self) -> None:
        """Raise if the deadline has passed without a task."""
        now_s = time.monotonic()
        if self._seen or now_s < self._next_s:
            return
        self._next_s = now_s + 1
        with contextlib.suppress(Exception):
            self._seen = self._group.has_begun()
        if not self._seen and now_s > self._deadline_s:
            raise SparkError(
                f"the Spark master has given no worker for {RESOURCES_S:.0f} s: start workers, or "
                "leave out `master`"
            )


def _user_error(error: BaseException, spark: SparkSession) -> BaseException:
    """An error of Spark's in one line, with where to read more; ours stay as they are."""
    if isinstance(error, (UserError, KeyboardInterrupt)):
        return error
    kind = TaskError if "Job aborted due to stage failure" in str(error) else SparkError
    log = log_of(spark)
    where = "the log of your Spark session" if log is None else log
    python = getattr(getattr(spark, "sparkContext", None), "pythonExec", None)
    return kind(f"Spark gave up: {cause_of(error, python=python)} (more in {where})")


def cause_of(error: BaseException, *, python: str | None = None) -> str:
    """The root cause: of pages of Java, the line that a person would look for.

    ``python`` is the command that executors run.
    """
    text = str(error)
    kind = type(error).__name__
    # A call that Java died in has no answer, or none that has a trace.
    unanswered = kind == "Py4JNetworkError" or (kind == "Py4JError" and "Trace:" not in text)
    if isinstance(error, ConnectionError) or unanswered:
        return "its Java process has ended, or was killed"
    _, traceback, own = text.rpartition(TRACEBACK)
    if traceback:
        # The last line of the traceback; a blank one or Java's own stack follows it.
        lines = re.split(r"\n\s*(?:\n|at )", own)[0].strip().splitlines()
    else:
        lost = LOST_TASK.search(text)
        lines = [lost[1]] if lost else [x.strip() for x in text.splitlines() if x.strip()]
        lines = [line for line in lines if not NOISE.match(line)][:1]
    line = CLASSES.sub("", lines[-1].strip()) if lines else ""
    if line.startswith("ModuleNotFoundError"):
        modules = WORKER.search(text)
        ran = [python or "Python", *([f"with the modules of {modules[1]}"] if modules else [])]
        line += (
            f", in a task of {' '.join(ran)}: install what precedes needs there, or name another "
            "Python in PYSPARK_PYTHON, see 'precedes docs pipeline'"
        )
    return line.partition(" Consider setting")[0][:CAUSE_MAX] or type(error).__name__


class TaskProgress:
    """Tells how far a job is, from Spark's own count of its tasks.

    ``costs_s`` are those of the tasks, in the order in which they begin; without, all are alike.
    """

    def __init__(
        self,
        spark: SparkSession,
        tasks: int,
        progress: Callable[[float], None],
        *,
        costs_s: Sequence[float] | None = None,
    ) -> None:
        self._spark = spark
        guesses = [1.0] * tasks if costs_s is None else costs_s
        self._estimate = Estimate(Piece(number, 0, cost) for number, cost in enumerate(guesses))
        self._begun_s: dict[int, float] = {}
        self._progress = progress
        self._next_s = 0.0

    def __call__(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        with contextlib.suppress(Exception):  # the count is not worth a failure
            self._heed(_current[self._spark].counts(), now_s)
        self._next_s = now_s + LOOK_EVERY * (time.monotonic() - now_s)

    def _heed(self, counts: monitor.Counts | None, now_s: float) -> None:
        """Take tasks to begin and to end in their order, which is what longest first makes true."""
        for number in range(0 if counts is None else counts.done + counts.active):
            self._begun_s.setdefault(number, now_s)
            self._estimate.begin(number, now_s)
        for number in range(0 if counts is None else counts.done):
            self._estimate.finish(number, taken_s=max(now_s - self._begun_s[number], POLL_S))
        self._progress(self._estimate.share(now_s))
