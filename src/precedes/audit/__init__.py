"""The exact audit of causal order: a verdict, counts, and witnesses anyone can check.

>>> from precedes.audit import audit
>>> [report.verdict for report in audit("examples/chat.jsonl")]
['violated']
"""

from precedes.audit.growing import Standing, follow
from precedes.audit.logs import audit
from precedes.audit.report import HELD, UNKNOWN, VIOLATED, Report, Reports, to_json, to_text
from precedes.audit.witness import Step, Witness

__all__ = [
    "HELD",
    "UNKNOWN",
    "VIOLATED",
    "Report",
    "Reports",
    "Standing",
    "Step",
    "Witness",
    "audit",
    "follow",
    "to_json",
    "to_text",
]
