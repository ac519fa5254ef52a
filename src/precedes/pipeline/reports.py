"""Reports on their way out of Spark's tasks, and as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from precedes.audit import Report, Step, Witness
from precedes.pipeline.spark import jobs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNTS: Final = (
    "nodes", "messages", "deliveries", "violations", "violating_messages", "lost", "duplicates",
    "phantom", "cycles", "unjudged", "undelivered_at_end", "skipped",
)  # fmt: skip

RUNS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
        pa.field("notes", pa.list_(pa.string()), nullable=False),
    ]
)
STEP: Final = pa.struct(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
    ]
)
VIOLATIONS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("node", pa.string()),
        pa.field("message", pa.string()),
        pa.field("earlier", pa.string()),
        pa.field("sentence", pa.string(), nullable=False),
        pa.field("steps", pa.list_(STEP), nullable=False),
    ]
)


class AuditFrames(NamedTuple):
    """What an audit found: a row a run, and a row a witness, with its path through the log."""

    runs: DataFrame
    violations: DataFrame


def report_of(row: Mapping[str, Any]) -> Report:
    """The report that ``dataclasses.asdict`` made, also after a way through JSON."""
    witnesses = tuple(
        Witness(**{**one, "steps": tuple(Step(**step) for step in one["steps"])})
        for one in row["witnesses"]
    )
    return Report(**{**row, "notes": tuple(row["notes"]), "witnesses": witnesses})


def frames_of(spark: SparkSession, reports: Sequence[Report]) -> AuditFrames:
    """Reports as two frames, ``RUNS`` and ``VIOLATIONS``."""
    runs = [
        {
            "run_id": str(report.run_id),
            "verdict": report.verdict,
            "notes": list(report.notes),
            **{name: getattr(report, name) for name in COUNTS},
        }
        for report in reports
    ]
    violations = [
        _violation(report, number, witness)
        for report in reports
        for number, witness in enumerate(report.witnesses)
    ]
    return AuditFrames(
        jobs.frame_of(spark, pa.Table.from_pylist(runs, RUNS)),
        jobs.frame_of(spark, pa.Table.from_pylist(violations, VIOLATIONS)),
    )


def _violation(report: Report, number: int, witness: Witness) -> dict[str, Any]:
    return {
        "run_id": str(report.run_id),
        "number": number,
        "kind": witness.kind,
        "node": witness.node_name,
        "message": witness.message_name,
        "earlier": witness.earlier_name,
        "sentence": witness.sentence,
        "steps": [
            {
                "node": step.node_name,
                "kind": step.kind,
                "message": step.message_name,
                "position": step.position,
            }
            for step in witness.steps
        ],
    }
