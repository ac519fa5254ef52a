"""One function for many orders: in processes of this machine, or as tasks of Spark.

Both backends pass and return JSON: large data go from files to files. An order whose process
dies is given to another one; an order that kills processes repeatedly raises ``TaskError``.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import itertools
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline.directory import ATTEMPTS_MAX
from precedes.pipeline.plan import pack
from precedes.pipeline.spark import jobs
from precedes.pipeline.spark.session import REMOTE, open_session
from precedes.stores import Address, handed
from precedes.trace.rows import NoOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Order = dict[str, Any]
Row = dict[str, Any]  # an answer as JSON, and the number of its order
ANSWERS: Final = "number int, answer string"

# Spark takes some seconds to start: for less work than this, processes of this machine are faster.
WORTH_SPARK_S: Final = 20.0

POLL_S: Final = 0.2
LAST_WORDS_CHARS_MAX: Final = 300


class Runner:
    """A backend that carries out work."""

    parallelism: int  # concurrent orders
    sharers: int  # orders that share a machine's memory; 0: one for each core

    @staticmethod
    def of(backend: SparkSession | Runner | None) -> Runner:
        """A Spark session as a runner; None: processes of this machine."""
        if isinstance(backend, Runner):
            return backend
        return PoolRunner() if backend is None else SparkRunner(backend)

    def map(
        self,
        work: Callable[[Order], Any],
        orders: Sequence[Order],
        costs_s: Sequence[float],
        *,
        title: str,
        progress: Progress | None = None,
        watch: Callable[[], None] | None = None,
        addresses: Sequence[Address] = (),
        one_each: bool = False,
    ) -> list[Any]:
        """The answers to all orders, in their order; the first UserError among them is raised.

        ``work`` is a function of a module, or an object, that other processes can import; an order
        gets its ``number``. ``progress`` is called with the completed share, by cost,
        ``watch`` several times a second. ``addresses`` are those that the work opens. Spark packs
        orders into tasks by their estimated costs; or each is a task, ``one_each``.
        """
        most = 0.0

        def look(share: float) -> None:
            nonlocal most
            most = max(most, share)
            if watch is not None:
                watch()
            if progress is not None:
                progress(most)

        numbered = [{"number": number, **order} for number, order in enumerate(orders)]
        named = {"title": title, "addresses": addresses, "one_each": one_each}
        return answers(self._rows(work, numbered, costs_s, look, **named) if orders else [])

    def _rows(
        self,
        work: Callable[[Order], Any],
        orders: Sequence[Order],
        costs_s: Sequence[float],
        look: Callable[[float], None],
        **how: Any,
    ) -> list[Row]:
        """Answers with their numbers; ``look`` gets the completed share several times a second."""
        raise NotImplementedError


@contextlib.contextmanager
def open_runner(
    work_s: float = 0.0,
    *,
    master: str | None = None,
    session: SparkSession | None = None,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[Runner]:
    """Spark, if a master is given or the CPU seconds are worth it; else processes here."""
    is_worth_it = work_s > WORTH_SPARK_S and importlib.util.find_spec("pyspark") is not None
    if is_worth_it or master or session is not None or settings or os.environ.get(REMOTE):
        with open_session(
            master=master, session=session, settings=settings, log=log, for_tasks=True
        ) as spark:
            yield SparkRunner(spark)
    else:
        yield PoolRunner()


class SparkRunner(Runner):
    """Orders in tasks of a Spark session, at least two tasks for a core, the longest first."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.parallelism = jobs.parallelism(spark)
        self.sharers = jobs.sharers(spark)

    def _rows(
        self,
        work: Callable[[Order], Any],
        orders: Sequence[Order],
        costs_s: Sequence[float],
        look: Callable[[float], None],
        **how: Any,
    ) -> list[Row]:
        packed = [[i] for i in sorted(range(len(orders)), key=lambda i: (-costs_s[i], i))]
        if not how["one_each"]:
            packed = pack(costs_s, at_least=2 * self.parallelism)
        tasks = [[json.dumps(orders[i]) for i in task] for task in packed]
        done_s = [0.0, *itertools.accumulate(sum(costs_s[i] for i in task) for task in packed)]
        stage = handed(_Task(work), *how["addresses"])

        def job() -> list[Row]:
            frame = jobs.packed(self._spark, tasks).mapInArrow(stage, ANSWERS)
            rows: list[Row] = frame.toArrow().to_pylist()
            return rows

        def watch(group: jobs.Group) -> None:
            finished = 0
            with contextlib.suppress(Exception):  # Spark's count is not worth a failure
                finished = min(group.finished(), len(packed))
            look(done_s[finished] / (done_s[-1] or 1.0))

        return jobs.wait_for(self._spark, job, title=how["title"], watch=watch)


class _Task:
    """The work of a Spark task: its orders, one after the other."""

    def __init__(self, work: Callable[[Order], Any]) -> None:
        self._work = work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Ctrl-C is for the driver: an interrupt here comes from the work itself.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for batch in batches:
                for text in batch.column("order").to_pylist():
                    order = json.loads(text)
                    yield answer_batch(order["number"], answer_to(self._work, order))
        finally:
            signal.signal(signal.SIGINT, before)


def answer_to(work: Callable[[Any], Any], order: Any) -> str:
    """The answer to an order; a UserError is an answer too."""
    try:
        return json.dumps({"done": work(order)})
    except UserError as error:
        return json.dumps({"error": str(error)})
    except NoOrder as error:
        return json.dumps({"no_order": str(error)})


def answer_batch(number: int, text: str) -> pa.RecordBatch:
    """An answer in the form for Spark."""
    columns = [pa.array([number], pa.int32()), pa.array([text], pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["number", "answer"])


def answers(rows: Sequence[Row]) -> list[Any]:
    """The answers in the order of their numbers; the first error is raised."""
    results = []
    for row in sorted(rows, key=lambda row: int(row["number"])):
        answer = json.loads(row["answer"])
        if "error" in answer:
            raise UserError(answer["error"])
        if "no_order" in answer:
            raise NoOrder(answer["no_order"])
        results.append(answer["done"])
    return results


# A process imports from the same paths as this one.
_START: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from precedes.pipeline import runner
runner.serve()
"""


class PoolRunner(Runner):
    """Orders in processes of this machine, one for a core, which end with the call."""

    def __init__(self) -> None:
        self.parallelism = self.sharers = max(len(os.sched_getaffinity(0)), 1)

    def _rows(
        self,
        work: Callable[[Order], Any],
        orders: Sequence[Order],
        costs_s: Sequence[float],
        look: Callable[[float], None],
        **how: Any,
    ) -> list[Row]:
        waiting = deque(orders)
        rows: list[Row] = []
        deaths = Counter[int]()
        done_s, total_s = 0.0, sum(costs_s) or 1.0
        staff: list[_Worker] = []
        try:
            for _ in range(min(self.parallelism, len(orders))):
                staff.append(_Worker(work))
            while len(rows) < len(orders):
                for one in staff:
                    if one.order is None and waiting:
                        one.give(waiting.popleft())
                busy = {one.answers: one for one in staff if one.order is not None}
                for pipe in select.select(list(busy), [], [], POLL_S)[0]:
                    one = busy[pipe]
                    assert one.order is not None
                    number = one.order["number"]
                    if answer := pipe.readline():
                        rows.append({"number": number, "answer": answer})
                        one.order = None
                        done_s += costs_s[number]
                        continue
                    deaths[number] += 1
                    if deaths[number] > ATTEMPTS_MAX:
                        raise jobs.TaskError(f"its process died: {one.last_words()}")
                    waiting.append(one.order)
                    one.end()
                    staff[staff.index(one)] = _Worker(work)
                look(done_s / total_s)
        finally:
            for one in staff:
                one.end()
        return rows


class _Worker:
    """A child process with at most one order; it ends with its input."""

    def __init__(self, work: Callable[[Order], Any]) -> None:
        self.order: Order | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        path = json.dumps([item or os.getcwd() for item in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        assert self._process.stdout is not None
        self.answers = self._process.stdout
        self._send(base64.b64encode(pickle.dumps(work)).decode())

    def give(self, order: Order) -> None:
        """Send it an order; its answer can be read later, or nothing if it has died."""
        self.order = order
        self._send(json.dumps(order))

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def last_words(self) -> str:
        """The end of its output before it died."""
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:LAST_WORDS_CHARS_MAX] if lines else f"status {self._process.returncode}"

    def end(self) -> None:
        """Kill it in any state."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self.answers, self._said):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def serve() -> None:
    """Run as a process of a pool: input is pickled work, then an order a line, until it ends."""
    # Ctrl-C is for the owner: an interrupt here comes from the work itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output, sys.stdout = sys.stdout, sys.stderr  # output of the work is not an answer
    work: Callable[[Order], Any] = pickle.loads(base64.b64decode(sys.stdin.readline()))
    for line in sys.stdin:
        print(answer_to(work, json.loads(line)), file=output, flush=True)
