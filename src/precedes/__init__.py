"""precedes: causal broadcast for Python.

``m1 precedes m2`` when m2's sender had broadcast or delivered m1 before it broadcast m2. This
package runs protocols that keep this order, measures what they cost, and checks whether a system
has kept it.

>>> from precedes import simulate
>>> result = simulate("vector", nodes=5, messages=20)
>>> result.deliveries, result.violations.deliveries
(80, 0)
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.audit import audit
    from precedes.comparison import Comparison, compare
    from precedes.errors import InternalError, PeerError, PrecedesError, UserError
    from precedes.progress import ProgressBar
    from precedes.sim import Fault, Result, Scenario, simulate
    from precedes.trace import EventHandler, from_arrow, from_pandas, load
    from precedes.viewer.inline import Diagram, view

__version__ = "0.2.0"

# Loaded on first use: the command line answers before Numba has been imported.
_HOMES = {
    "Comparison": ".comparison",
    "Diagram": ".viewer.inline",
    "EventHandler": ".trace",
    "Fault": ".sim",
    "InternalError": ".errors",
    "PeerError": ".errors",
    "PrecedesError": ".errors",
    "ProgressBar": ".progress",
    "Result": ".sim",
    "Scenario": ".sim",
    "UserError": ".errors",
    "audit": ".audit",
    "compare": ".comparison",
    "from_arrow": ".trace",
    "from_pandas": ".trace",
    "load": ".trace",
    "simulate": ".sim",
    "view": ".viewer.inline",
}

__all__ = [
    "Comparison",
    "Diagram",
    "EventHandler",
    "Fault",
    "InternalError",
    "PeerError",
    "PrecedesError",
    "ProgressBar",
    "Result",
    "Scenario",
    "UserError",
    "audit",
    "compare",
    "from_arrow",
    "from_pandas",
    "load",
    "simulate",
    "view",
]

__getattr__, __dir__ = exports(__name__, _HOMES)
