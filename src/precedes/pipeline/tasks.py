"""Stages of an audit on Spark: the same function for many orders, a small answer for each.

What is large goes from files to files; through Spark go orders and answers alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from precedes.errors import UserError
from precedes.model import Progress
from precedes.pipeline.plan import pack
from precedes.pipeline.spark import jobs
from precedes.stores import Address, handed
from precedes.trace.rows import NoOrder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Order = dict[str, Any]
ANSWERS: Final = "number int, answer string"


def run_stage(
    spark: SparkSession,
    work: Callable[[Order], Any],
    orders: Sequence[Order],
    costs_s: Sequence[float],
    *,
    title: str,
    progress: Progress | None = None,
    addresses: Sequence[Address] = (),
    one_each: bool = False,
) -> list[Any]:
    """The answers to all orders, in their order; of those that are UserErrors the first is raised.

    ``work`` is a function of a module, or an object, that tasks can import; orders and answers are
    JSON. Orders are packed into tasks by what each may cost, at least two tasks for a core; or each
    is a task, ``one_each``, the longest first. ``addresses`` is where the work opens files.
    """
    texts = [json.dumps({"number": number, **order}) for number, order in enumerate(orders)]
    packed = [[i] for i in sorted(range(len(texts)), key=lambda i: (-costs_s[i], i))]
    if not one_each:
        packed = pack(costs_s, at_least=2 * jobs.parallelism(spark))
    tasks = [[texts[i] for i in task] for task in packed]
    stage = handed(_Stage(work), *addresses)

    def job() -> list[dict[str, Any]]:
        return jobs.packed(spark, tasks).mapInArrow(stage, ANSWERS).toArrow().to_pylist()

    watch = None
    if progress is not None:
        task_costs_s = [sum(costs_s[i] for i in task) for task in packed]
        watch = jobs.TaskProgress(spark, len(tasks), progress, costs_s=task_costs_s)
    rows = jobs.wait_for(spark, job, title=title, watch=watch) if orders else []
    return answers(rows)


def answers(rows: Sequence[dict[str, Any]]) -> list[Any]:
    """The answers in the order of their numbers; the first error is raised."""
    found = []
    for row in sorted(rows, key=lambda row: int(row["number"])):
        answer = json.loads(row["answer"])
        if "error" in answer:
            raise UserError(answer["error"])
        if "no_order" in answer:
            raise NoOrder(answer["no_order"])
        found.append(answer["done"])
    return found


def answer_to(work: Callable[[Any], Any], order: Any) -> str:
    """What a task says of an order; a mistake of the user's is told, not raised."""
    try:
        return json.dumps({"done": work(order)})
    except UserError as error:
        return json.dumps({"error": str(error)})
    except NoOrder as error:
        return json.dumps({"no_order": str(error)})


def answer_batch(numbers: Sequence[int], texts: Sequence[str]) -> pa.RecordBatch:
    """Answers as Spark takes them."""
    columns = [pa.array(numbers, pa.int32()), pa.array(texts, pa.string())]
    return pa.RecordBatch.from_arrays(columns, names=["number", "answer"])


class _Stage:
    """What a task does with its orders, one after the other."""

    def __init__(self, work: Callable[[Order], Any]) -> None:
        self._work = work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column("order").to_pylist():
                order = json.loads(text)
                yield answer_batch([order["number"]], [answer_to(self._work, order)])
