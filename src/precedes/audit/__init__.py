"""The exact audit of causal order: a verdict, counts, and witnesses anyone can check."""

from precedes.audit.causal_order import (
    HELD,
    UNKNOWN,
    VIOLATED,
    WITNESSES_MAX,
    Judgement,
    Prepared,
    Report,
    audit,
    judge,
    prepare,
    violations_at,
)
from precedes.audit.report import combined_verdict, to_json, to_text
from precedes.audit.witness import Step, Witness

__all__ = [
    "HELD",
    "UNKNOWN",
    "VIOLATED",
    "WITNESSES_MAX",
    "Judgement",
    "Prepared",
    "Report",
    "Step",
    "Witness",
    "audit",
    "combined_verdict",
    "judge",
    "prepare",
    "to_json",
    "to_text",
    "violations_at",
]
