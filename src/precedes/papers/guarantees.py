"""What a paper promises of every run, judged by the audit of its trace.

The audit knows broadcasts and deliveries alone, and shares no code with the protocol. Experiments
with ``trace=True`` have it in their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from precedes.errors import InternalError
from precedes.papers.claims import About, Claim, equal
from precedes.papers.measured import Run, measure, ranged

# What the audit counts against a promise.
CAUSAL_ORDER: Final = ("violations", "cycles", "unjudged")
AT_MOST_ONCE: Final = ("duplicates", "phantom")
# A run that has come to rest: nothing is on its way any more.
EXACTLY_ONCE: Final = (*AT_MOST_ONCE, "lost", "undelivered_at_end")


def kept(about: About, *, runs: Sequence[Run], against: Sequence[str], reason: str = "") -> Claim:
    """``equal`` if the audits of all these runs count nothing of what is ``against`` a promise."""

    @ranged(0)
    def broken(run: Run) -> float:
        audit = run["audit"]
        if audit is None or not audit["deliveries"]:
            raise InternalError(f"{about}: a run without a trace, or without deliveries")
        return float(sum(audit[name] for name in against))

    return equal(about, published=0, measured=measure(broken, runs), reason=reason)
