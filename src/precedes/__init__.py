"""precedes: causal broadcast for Python.

``m1 precedes m2`` when m2's sender had broadcast or delivered m1 before it broadcast m2. This
package runs protocols that keep this order, measures what they cost, and checks whether a system
has kept it.

>>> from precedes import Scenario, simulate
>>> result = simulate(Scenario(protocol="vector", nodes=5, messages=20))
>>> result.deliveries, result.violations.deliveries
(80, 0)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precedes.errors import InternalError, PeerError, PrecedesError, UserError
    from precedes.sim import Fault, Result, Scenario, simulate
    from precedes.trace import from_arrow, from_pandas, load

__version__ = "0.1.0"

# Loaded on first use: the command line answers before Numba has been imported.
_HOMES = {
    "Fault": "precedes.sim",
    "InternalError": "precedes.errors",
    "PeerError": "precedes.errors",
    "PrecedesError": "precedes.errors",
    "Result": "precedes.sim",
    "Scenario": "precedes.sim",
    "UserError": "precedes.errors",
    "from_arrow": "precedes.trace",
    "from_pandas": "precedes.trace",
    "load": "precedes.trace",
    "simulate": "precedes.sim",
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'precedes' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
