"""What the audit finds beyond its report."""

from precedes.audit.stages import Loop, carry_out, cut_evenly
from precedes.trace.rows import HistoryRows


def pairs(history, *, ranges=2):
    """All violating deliveries, as (node, (source, number))."""
    rows = HistoryRows(history)
    spans = cut_evenly(rows, ranges)
    outcome = carry_out(rows, spans, runner=Loop(), violations_max=history.kind.size)
    return {(node, (source, seq)) for node, source, seq in outcome.violations}
