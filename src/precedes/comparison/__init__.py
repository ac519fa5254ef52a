"""Which protocol for a load: run all that can serve it, audit, rank, recommend in a sentence.

A load (``load``) becomes candidates with parameters of its own (``candidates``), whose runs are
carried out by Spark or by processes of this machine (``carry``, ``worker``); records become rows
(``rows``), rows are ranked by a rule (``ranking``), and the result (``result``) is written as
tables (``tables``) and as a page (``page``). ``comparing`` is all of that.
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.comparison.comparing import Plan, carry_out_plan, compare, plan
    from precedes.comparison.ranking import Recommendation, Standing
    from precedes.comparison.result import Comparison
    from precedes.comparison.rows import Row

_HOMES = {
    "Comparison": ".result",
    "Plan": ".comparing",
    "Recommendation": ".ranking",
    "Row": ".rows",
    "Standing": ".ranking",
    "carry_out_plan": ".comparing",
    "compare": ".comparing",
    "plan": ".comparing",
}

__all__ = [
    "Comparison",
    "Plan",
    "Recommendation",
    "Row",
    "Standing",
    "carry_out_plan",
    "compare",
    "plan",
]

__getattr__, __dir__ = exports(__name__, _HOMES)
