"""precedes: causal broadcast for Python.

``m1 precedes m2`` when m2's sender had broadcast or delivered m1 before it broadcast m2. This
package runs protocols that keep this order, measures what they cost, and checks whether a system
has kept it.

>>> from precedes import Scenario, simulate
>>> result = simulate(Scenario(protocol="vector", nodes=5, messages=20))
>>> result.deliveries, result.violations.deliveries
(80, 0)
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.errors import InternalError, PeerError, PrecedesError, UserError
    from precedes.sim import Fault, Result, Scenario, simulate
    from precedes.trace import from_arrow, from_pandas, load

__version__ = "0.2.0"

# Loaded on first use: the command line answers before Numba has been imported.
_HOMES = {
    "Fault": ".sim",
    "InternalError": ".errors",
    "PeerError": ".errors",
    "PrecedesError": ".errors",
    "Result": ".sim",
    "Scenario": ".sim",
    "UserError": ".errors",
    "from_arrow": ".trace",
    "from_pandas": ".trace",
    "load": ".trace",
    "simulate": ".sim",
}

__all__ = [
    "Fault",
    "InternalError",
    "PeerError",
    "PrecedesError",
    "Result",
    "Scenario",
    "UserError",
    "from_arrow",
    "from_pandas",
    "load",
    "simulate",
]

__getattr__, __dir__ = exports(__name__, _HOMES)
