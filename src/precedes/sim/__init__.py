"""The simulator: one host for every protocol, deterministic from one seed.

Importing this package imports neither Numba nor NumPy; using it does.
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.sim.result import Result
    from precedes.sim.runs import simulate
    from precedes.sim.scenario import Fault, Scenario, from_toml

_HOMES = {
    "Fault": ".scenario",
    "Result": ".result",
    "Scenario": ".scenario",
    "from_toml": ".scenario",
    "simulate": ".runs",
}

__all__ = ["Fault", "Result", "Scenario", "from_toml", "simulate"]

__getattr__, __dir__ = exports(__name__, _HOMES)
