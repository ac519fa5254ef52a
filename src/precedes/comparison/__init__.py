"""Protocol comparison under a load: run all that can serve it, audit, rank, recommend.

A load (``load``) becomes candidates with parameters of its own (``candidates``), whose runs are
carried out by Spark or by processes of this machine (``carry``, ``worker``); records become rows
(``rows``), rows are ranked by a rule (``ranking``), and the result (``result``) is written as
tables (``tables``) and as a page (``page``). ``comparing`` is all of that.
"""

from precedes.comparison.comparing import Plan, carry_out_plan, compare, plan
from precedes.comparison.ranking import Recommendation, Standing
from precedes.comparison.result import Comparison
from precedes.comparison.rows import Row

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
