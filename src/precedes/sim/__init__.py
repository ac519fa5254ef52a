"""The simulator: one host for every protocol, deterministic from one seed."""

from precedes.sim.result import Result
from precedes.sim.runs import simulate
from precedes.sim.scenario import Fault, Scenario, from_toml

__all__ = ["Fault", "Result", "Scenario", "from_toml", "simulate"]
