"""The audit of a streaming DataFrame: each run has its state in Spark's store.

Spark hands the rows of a run to one task per micro-batch, which goes on from the state that the
batch before left (``BatchAuditor``), and returns what is wrong as rows. State, rows and the offsets
of the source belong to one batch: a batch that was interrupted is judged again from the same state,
and gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from precedes.audit.growing.auditor import BYTES_MAX
from precedes.audit.growing.batches import (
    COLUMNS,
    EARLY_ROWS_MAX,
    LATE_BYTES,
    SCHEMA,
    BatchAuditor,
    Finding,
)
from precedes.audit.report import WITNESSES, counted_deliveries, other_findings
from precedes.errors import UserError
from precedes.pipeline.spark.jobs import Portable
from precedes.spark.transforms import Transform, checked_events, schema_of, usual, with_kinds
from precedes.trace import Dialect
from precedes.trace.sort.pack import run_title

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

FINDINGS: Final = pa.schema(
    [
        pa.field("run_id", pa.string()),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("message", pa.string()),
        pa.field("earlier", pa.string()),
        pa.field("sentence", pa.string(), nullable=False),
    ]
)
STATE: Final = StructType(
    [
        StructField("content", BinaryType()),  # null once the run cannot be judged any more
        StructField("number", LongType()),  # of the next finding
        StructField("seen_ms", LongType()),  # when the last rows came
    ]
)
STORE: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def causal_audit_stream(
    *,
    idle_s: float | None = None,
    complete: bool = False,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    first: int = 0,
    gaps: bool = False,
    witnesses: int = WITNESSES,
    bytes_max: int = BYTES_MAX,
    late_bytes: int = LATE_BYTES,
    early_rows_max: int = EARLY_ROWS_MAX,
) -> Transform:
    """Return a transform of streaming events into one row per finding, in append mode.

    Events are those of ``causal_audit``, with whole numbers as ``local_seq``. It counts the rows of
    a node, of any kind, from ``first`` on; then rows may come in any order, and up to
    ``early_rows_max`` rows of a run are kept until the rows before them have come. With ``gaps`` it
    only rises, and each micro-batch must bring the rows of a node behind those of earlier ones.

    The result has ``run_id``, ``number`` (from 0 in each run), ``kind``, ``node``, ``message``,
    ``earlier`` and ``sentence``. Rows of the kinds ``violation``, ``duplicate`` and ``cycle`` come
    with the micro-batch that completes them. After ``idle_s`` seconds without rows a run has ended:
    up to ``witnesses`` rows of the kind ``phantom`` follow, with ``complete`` as many of the kind
    ``lost``, and one of the kind ``end`` with the verdict and all counts; its state is dropped.
    Without ``idle_s`` runs never end, and all state is kept.

    A run that cannot be judged gives one row of the kind ``error``, and is ignored from then on:
    its rows are malformed, it needs more than ``bytes_max`` bytes of state, or a node appears after
    messages were dropped, which begins when ``late_bytes`` are kept. Other runs go on.
    """
    if idle_s is not None and not idle_s > 0:
        raise UserError(f"idle_s must be more than 0 seconds, not {idle_s:g}")
    for name, value in (("witnesses", witnesses), ("early_rows_max", early_rows_max)):
        if value < 0:
            raise UserError(f"{name} must be 0 or more, not {value}")
    dialect = Dialect(columns=columns or {}, kinds=kinds or {}, complete=complete)
    options: dict[str, Any] = {
        "first": first,
        "gaps": gaps,
        "witnesses": witnesses,
        "bytes_max": bytes_max,
        "open_bytes": late_bytes,
        "early_rows_max": early_rows_max,
    }
    idle_ms = None if idle_s is None else max(round(idle_s * 1000), 1)
    processor = _Runs(_Judge(dialect, options), idle_ms)

    def transform(events: DataFrame) -> DataFrame:
        known = schema_of(events)
        if known is None:
            chosen = usual(events, dialect)
        else:
            store = events.sparkSession.conf.get(STORE) or ""
            if "RocksDB" not in store:
                raise UserError(f"the state of a stream needs RocksDB: set {STORE} to {ROCKSDB}")
            chosen = _as_text(checked_events(events, known, dialect), dialect)
        return chosen.groupBy("run_id").transformWithStateInPandas(
            statefulProcessor=processor,
            outputStructType=from_arrow_schema(FINDINGS),
            outputMode="Append",
            timeMode="None" if idle_ms is None else "ProcessingTime",
        )

    return transform


def _as_text(events: DataFrame, dialect: Dialect) -> DataFrame:
    """Checked events with the columns of ``usual`` and their types."""
    if events.schema["local_seq"].dataType.typeName() not in WHOLE:
        raise UserError(
            "the column local_seq of a stream holds times: number the rows of a node, since a time "
            "does not tell which rows are still missing"
        )
    if "message" in events.columns:
        message = F.col("message").cast("string")
    else:
        joins = ["join", *(theirs for theirs, ours in dialect.kinds.items() if ours == "join")]
        pair = F.concat(F.col("source").cast("string"), F.lit(":"), F.col("seq").cast("string"))
        names_nothing = F.col("kind").isin(joins) & (F.col("seq") == 0)
        message = F.when(~F.coalesce(names_nothing, F.lit(False)), pair)
    return events.select(
        F.col("run_id").cast("string").alias("run_id"),
        F.col("node").cast("string").alias("node"),
        F.col("local_seq").cast("long").alias("local_seq"),
        F.col("kind").cast("string").alias("kind"),
        message.alias("message"),
    )


WHOLE: Final = ("byte", "short", "integer", "long", "void")


@dataclass(frozen=True)
class _Judge:
    """The audit of one run, from its state to its state."""

    dialect: Dialect
    options: dict[str, Any]

    def take(self, run_id: str | None, content: bytes | None, events: pa.Table) -> _Outcome:
        """Judge the rows of a micro-batch."""
        try:
            if run_id is None:
                raise UserError("the column run_id has empty cells")
            auditor = self._auditor(run_id, content)
            auditor.take(auditor.batch + 1, events)
            return auditor.findings, auditor.content()
        except UserError as error:
            return [Finding("error", str(error))], None

    def end(self, run_id: str, content: bytes) -> list[Finding]:
        """Audit the end of a run."""
        try:
            auditor = self._auditor(run_id, content)
            report = auditor.end(complete=self.dialect.complete).report
        except UserError as error:
            return [Finding("error", str(error))]
        texts = [counted_deliveries(report.deliveries, report.violations)]
        texts += other_findings(vars(report))
        return [*auditor.findings, Finding("end", f"{report.verdict}: {', '.join(texts)}")]

    def _auditor(self, run_id: str, content: bytes | None) -> BatchAuditor:
        return BatchAuditor(content, title=run_title(run_id), **self.options)


_Outcome = tuple[list[Finding], bytes | None]


class _Runs(Portable, StatefulProcessor):  # type: ignore[misc]
    """Stateful processor of the runs: states, timers, and pandas in and out."""

    def __init__(self, judge: _Judge, idle_ms: int | None) -> None:
        self._judge = judge
        self._idle_ms = idle_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Store the handle of the state store."""
        self._handle = handle
        self._state = handle.getValueState("run", STATE)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """The rows of one run in a micro-batch."""
        now_ms = -1 if self._idle_ms is None else timerValues.getCurrentProcessingTimeInMs()
        state = self._state.get()
        if state is None and self._idle_ms is not None:
            self._handle.registerTimer(now_ms + self._idle_ms)
        content, number, _ = (None, 0, 0) if state is None else state
        findings: list[Finding] = []
        if state is None or content is not None:
            events = pa.concat_tables([_events(piece, self._judge.dialect) for piece in rows])
            before = None if content is None else bytes(content)
            findings, content = self._judge.take(key[0], before, events)
        self._state.update((content, number + len(findings), now_ms))
        return _as_pandas(key[0], number, findings)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """A run from which nothing came for a while, unless rows came since."""
        state = self._state.get()
        if state is None:
            return iter(())
        content, number, seen_ms = state
        due_ms = seen_ms + (self._idle_ms or 0)
        if due_ms > timerValues.getCurrentProcessingTimeInMs():
            self._handle.registerTimer(due_ms)
            return iter(())
        self._state.clear()
        findings = [] if content is None else self._judge.end(key[0], bytes(content))
        return _as_pandas(key[0], number, findings)

    def close(self) -> None:
        """Nothing is open."""


def _events(piece: pd.DataFrame, dialect: Dialect) -> pa.Table:
    """Rows as Spark hands them to Python as rows of an audit."""
    columns = [
        pa.array(piece[name].to_numpy(), SCHEMA.field(name).type, from_pandas=True)
        for name in COLUMNS
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return pa.Table.from_batches([with_kinds(batch, dialect)])


def _as_pandas(run_id: str | None, number: int, findings: list[Finding]) -> Iterator[pd.DataFrame]:
    """Findings as Spark takes them from Python."""
    import pandas as pd

    rows = [
        {"run_id": run_id, "number": number + at, **finding._asdict()}
        for at, finding in enumerate(findings)
    ]
    if rows:
        yield pd.DataFrame(rows, columns=FINDINGS.names)
