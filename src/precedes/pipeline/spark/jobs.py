"""Interactive Spark jobs: progress, Ctrl-C, their cost, and errors in one line."""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from precedes.errors import UserError
from precedes.pipeline.spark.session import context_of, log_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# The bound on the rows of a batch; 0 or less means none.
RECORDS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
POLL_S: Final = 0.2
# Above the number of concurrent tasks of any cluster.
PARALLELISM_MAX: Final = 100_000
# A cluster may have to start machines first; one that has none waits forever.
RESOURCES_S: Final = 120.0
# Java answers a cancelled job in some milliseconds, a busy one in seconds.
CANCEL_S: Final = 30.0
CANCEL_AGAIN_S: Final = 0.5

TRACEBACK: Final = "Traceback (most recent call last):"
# A task that failed for good, and the reason.
LOST_TASK: Final = re.compile(r"most recent failure: Lost task .*?\): (.*)")
# Lines that only report that there was an error, and where in Java.
NOISE: Final = re.compile(
    r"at |\.\.\. \d+ more|An error occurred while calling|.*Exception thrown in awaitResult"
)
# The path of a task's modules in a line of its traceback.
WORKER: Final = re.compile(r'File "([^"]+?)/pyspark/')
CAUSE_MAX: Final = 500  # characters
UNOPENED: Final = "in a task of"
CLASSES: Final = re.compile(r"^(?::|Caused by:)?\s*(?:[a-z_]\w*\.[\w.$]+: )*")

T = TypeVar("T")


class SparkError(UserError):
    """Spark failed, or had no resources: neither the caller's files nor our code are the cause."""


class TaskError(SparkError):
    """A task failed as often as this session allows; others may have finished."""


def packed(spark: SparkSession, tasks: Sequence[Sequence[str]]) -> DataFrame:
    """A DataFrame of one text column, ``order``, whose partitions are these tasks, in order."""
    import pyarrow as pa

    task = [number for number, orders in enumerate(tasks) for _ in orders]
    order = [text for orders in tasks for text in orders]
    table = pa.table({"task": pa.array(task, pa.int32()), "order": pa.array(order, pa.string())})
    frame = _frame_of(spark, table)
    return frame.repartitionById(max(len(tasks), 1), "task").select("order")


def _frame_of(spark: SparkSession, table: pa.Table, schema: StructType | None = None) -> DataFrame:
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
    """Number of concurrent tasks, as far as Spark reports it; a cluster may still be growing."""
    context = context_of(spark)
    if context is not None:
        return max(int(context.defaultParallelism), 1)
    if spark not in _parallelism:
        _parallelism[spark] = _asked_parallelism(spark)
    return _parallelism[spark]


# A server of Connect has to be queried.
_parallelism: Final[weakref.WeakKeyDictionary[SparkSession, int]] = weakref.WeakKeyDictionary()


def _asked_parallelism(spark: SparkSession) -> int:
    """Spark's own number of partitions of a range."""
    from pyspark.sql.functions import max as largest
    from pyspark.sql.functions import spark_partition_id

    parts = spark.range(PARALLELISM_MAX).select(spark_partition_id().alias("part"))
    last = wait_for(spark, parts.agg(largest("part")).toArrow, title="parallelism")
    return int(last.column(0)[0].as_py()) + 1


def sharers(spark: SparkSession) -> int:
    """Number of tasks that share a machine's memory; 0: one for each core."""
    context = context_of(spark)
    is_local = context is not None and str(context.master).startswith("local")
    return parallelism(spark) if is_local else 0


class Summary(NamedTuple):
    """The cost of a group of jobs; None if Spark Connect does not report it.

    Spark counts the CPU time of Java alone: that of Python is in ``task_s``, the time in tasks.
    """

    title: str
    wall_s: float
    tasks: int
    failed_tasks: int | None  # they were retried, or their machine was lost
    task_s: float | None
    java_cpu_s: float | None
    shuffled_bytes: int | None

    def __str__(self) -> str:
        text = f"{self.title}: {self.wall_s:.1f} s, {self.tasks:,} tasks"
        if self.task_s is None:
            return text
        return (
            f"{text}, {self.failed_tasks:,} of them failed, {self.task_s:.1f} s in tasks, "
            f"{self.java_cpu_s:.1f} s of Java's CPU, {self.shuffled_bytes:,} bytes shuffled"
        )


class Group:
    """The jobs that a thread starts; they can be counted and cancelled together."""

    def __init__(self, session: SparkSession, title: str) -> None:
        self.title = title
        self._name = f"precedes-{uuid.uuid4().hex}"
        self._session = session
        self._begin_s = time.monotonic()

    def begin(self) -> None:
        """Add all jobs of this thread to it from now on.

        Spark starts the jobs of a query in threads of its own: they inherit a group, but not a tag.
        """
        title = f"precedes: {self.title}"
        self._session.sparkContext.setJobGroup(self._name, title, interruptOnCancel=True)

    def end(self) -> None:
        """Add no more jobs."""

    def cancel(self) -> None:
        """Request the cancellation of its jobs."""
        self._session.sparkContext.cancelJobGroup(self._name)

    def has_begun(self) -> bool:
        """Return whether a task was scheduled on a machine."""
        return any(stage.numActiveTasks + stage.numCompletedTasks for stage in self._infos())

    def finished(self) -> int:
        """Number of finished tasks of the stage that gives the newest job its result."""
        last = max(self._infos(), key=lambda stage: stage.stageId, default=None)
        return 0 if last is None else int(last.numCompletedTasks)

    def _infos(self) -> list[Any]:
        tracker = self._session.sparkContext.statusTracker()
        return [info for stage in self._stages() if (info := tracker.getStageInfo(stage))]

    def _stages(self) -> list[int]:
        tracker = self._session.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._name)]
        return sorted({stage for job in jobs if job for stage in job.stageIds})

    def summary(self) -> Summary:
        """Its cost so far."""
        store = self._session.sparkContext._jsc.sc().statusStore()
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
        wall_s = time.monotonic() - self._begin_s
        return Summary(self.title, wall_s, tasks, failed, task_ms / 1e3, java_ns / 1e9, shuffled)


class ConnectGroup(Group):
    """The queries of a thread on a server of Spark Connect: known by their tag.

    The server reports only tasks to its clients, while a query runs.
    """

    def __init__(self, session: SparkSession, title: str) -> None:
        super().__init__(session, title)
        self._thread = 0
        self._newest: str | None = None
        self._done: dict[tuple[str | None, int], int] = {}  # by query and stage
        self._is_begun = False

    def begin(self) -> None:
        """Add all queries of this thread to it from now on."""
        self._thread = threading.get_ident()
        self._session.addTag(self._name)
        self._session.registerProgressHandler(self._on_progress)

    def end(self) -> None:
        """Add no more queries."""
        self._session.removeProgressHandler(self._on_progress)

    def cancel(self) -> None:
        """Request the cancellation of its queries."""
        self._session.interruptTag(self._name)

    def _on_progress(
        self,
        stages: Iterable[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        """Handle a report on a query, in the thread that waits for it."""
        if threading.get_ident() != self._thread:
            return
        for stage in stages or ():
            self._newest = operation_id
            self._done[operation_id, stage.stage_id] = stage.num_completed_tasks
            self._is_begun |= bool(stage.num_completed_tasks or inflight_tasks)

    def has_begun(self) -> bool:
        """Return whether a task was scheduled on a machine."""
        return self._is_begun

    def finished(self) -> int:
        """Number of finished tasks of the last stage of the newest query."""
        stages = {stage: n for (query, stage), n in self._done.items() if query == self._newest}
        return stages[max(stages)] if stages else 0

    def summary(self) -> Summary:
        """Its cost so far."""
        wall_s = time.monotonic() - self._begin_s
        return Summary(self.title, wall_s, sum(self._done.values()), None, None, None, None)


Listener = Callable[[Summary], None]
_listeners: Final[list[Listener]] = []


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a function, for a block, with the cost of each group of jobs that ends in it."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def wait_for(
    spark: SparkSession,
    job: Callable[[], T],
    *,
    title: str,
    watch: Callable[[Group], None] | None = None,
) -> T:
    """The result of a job, which runs in a thread while ``watch`` is called several times a second.

    ``title`` is its name in Spark's own pages and logs. An interrupt cancels the job, waiting
    at most ``CANCEL_S`` for Spark to notice; its tasks may last some seconds longer. One
    that is scheduled on no machine within ``RESOURCES_S`` is cancelled too.
    """
    group = (Group if context_of(spark) is not None else ConnectGroup)(spark, title)
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
    deadline_s = time.monotonic() + RESOURCES_S
    has_begun = False
    try:
        while thread.is_alive():
            thread.join(POLL_S)
            if not has_begun:
                with contextlib.suppress(Exception):
                    has_begun = group.has_begun()
                if not has_begun and time.monotonic() > deadline_s:
                    raise SparkError(
                        f"the Spark master has provided no worker for {RESOURCES_S:.0f} s: start "
                        "workers, or leave out `master`"
                    )
            if watch is not None:
                watch(group)
    except BaseException:
        _cancel(group, thread)
        raise
    finally:
        with contextlib.suppress(Exception):
            group.end()
    if _listeners:
        with contextlib.suppress(Exception):  # it is not worth a failure
            summary = group.summary()
            for listener in [*_listeners]:
                listener(summary)
    if errors:
        raise _user_error(errors[0], spark)
    return results[0]


def _cancel(group: Group, thread: threading.Thread) -> None:
    """Cancel a group until its thread has noticed: a job may start after it was cancelled."""
    deadline_s = time.monotonic() + CANCEL_S
    while thread.is_alive() and time.monotonic() < deadline_s:
        try:
            group.cancel()
        except Exception:  # Spark may have just died
            return
        thread.join(CANCEL_AGAIN_S)


def _user_error(error: BaseException, spark: SparkSession) -> BaseException:
    """An error of Spark in one line, with a pointer to details; ours stay as they are."""
    if isinstance(error, (UserError, KeyboardInterrupt)):
        return error
    kind = TaskError if "Job aborted due to stage failure" in str(error) else SparkError
    log = log_of(spark)
    where = "the log of your Spark session" if log is None else log
    python = getattr(getattr(spark, "sparkContext", None), "pythonExec", None)
    return kind(f"Spark failed: {cause_of(error, python=python)} (more in {where})")


def cause_of(error: BaseException, *, python: str | None = None) -> str:
    """The root cause: the one relevant line of pages of Java.

    ``python`` is the command that executors run.
    """
    text = str(error)
    kind = type(error).__name__
    # A call during which Java died has no answer, or none with a trace.
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
    if line.startswith("ModuleNotFoundError") and UNOPENED not in line:
        modules = WORKER.search(text)
        ran = [python or "Python", *([f"with the modules of {modules[1]}"] if modules else [])]
        line += (
            f", in a task of {' '.join(ran)}: install what precedes needs there, or name another "
            "Python in PYSPARK_PYTHON, see 'precedes docs clusters'"
        )
    return line.partition(" Consider setting")[0][:CAUSE_MAX] or type(error).__name__


class Portable:
    """Base of the objects that tasks of lazy queries unpickle.

    Spark pickles them by the name of their module, and reports a bare ModuleNotFoundError where
    that is missing. Here the error names the Python, and what to do.
    """

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        from pyspark import cloudpickle

        return opener(), (cloudpickle.dumps((type(self), vars(self))),)


def opener() -> Callable[[bytes], Any]:
    """A function that makes an object of a pickled class and its attributes.

    It is local, so that cloudpickle copies it: it needs nothing of this package to be unpickled.
    """

    def opened(content: bytes) -> Any:
        import importlib.util
        import pickle
        import sys

        try:
            kind, state = pickle.loads(content)
            if importlib.util.find_spec("numba") is None:
                raise ModuleNotFoundError("No module named 'numba'")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"{error}, in a task of {sys.executable}: install precedes there, name a Python "
                "that has it in PYSPARK_PYTHON before the session starts, or send precedes to "
                "the executors with precedes.pipeline.open_session(session=spark)"
            ) from None
        made = kind.__new__(kind)
        vars(made).update(state)
        return made

    return opened
