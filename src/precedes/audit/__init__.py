"""The exact audit of causal order: a verdict, counts, and witnesses that can be checked by hand.

>>> from precedes import audit
>>> print(audit("examples/chat.jsonl").verdict)
violated
"""

import inspect
import sys
from types import ModuleType

from precedes.audit.growing import Standing, follow
from precedes.audit.logs import audit
from precedes.audit.report import (
    HELD,
    UNKNOWN,
    VIOLATED,
    Report,
    Reports,
    Verdict,
    to_json,
    to_text,
)
from precedes.audit.views import Finding, check_views
from precedes.audit.witness import Step, Witness

__all__ = [
    "HELD",
    "UNKNOWN",
    "VIOLATED",
    "Finding",
    "Report",
    "Reports",
    "Standing",
    "Step",
    "Verdict",
    "Witness",
    "audit",
    "check_views",
    "follow",
    "to_json",
    "to_text",
]


class _Package(ModuleType):
    """This package and its function share a name: ``precedes.audit(log)`` calls the function."""

    __call__ = staticmethod(audit)


__signature__ = inspect.signature(audit)  # for editors and notebooks
sys.modules[__name__].__class__ = _Package
