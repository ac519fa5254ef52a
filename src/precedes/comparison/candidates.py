"""Which protocols can serve a load, with which parameters, and why the others cannot."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from precedes import catalogue, delays, registry
from precedes.comparison.load import Load, has_crash
from precedes.errors import UserError
from precedes.parts import sizing
from precedes.sim import Scenario
from precedes.sim.memory import limit_bytes, world_bytes
from precedes.sim.runs import outside

# What clocks are sized for. Without an error of the user's, one that makes errors aims at the
# first; one that finds them by a hash looks into the second share of deliveries (docs/sizing.md).
ERROR: Final = 1e-4
CHECKED_ERROR: Final = 1e-3

# Components of a dynamic clock: so many make the clock that the load asks for.
COMPONENTS: Final = 4
COMPONENT_MIN: Final = 4

# Answers are kept for so long at the load's rate, and at least as many as by default.
LOG_S: Final = 10.0
LOG_MIN: Final = 1024
LOG_MAX: Final = 1 << 20

CLOCKS: Final = ("probabilistic", "hashed", "dcs")  # sized by the formula

NOT_COMPARED: Final = {
    "failure_detector": "it finds crashes, and delivers messages as they arrive: see unordered",
}
BROKEN: Final = {
    "reliable": "it needs links that lose nothing: what follows a lost packet is never delivered",
    "unique": "it needs links that repeat nothing: a packet that arrives twice counts as another",
    "fifo": "it needs links that keep the order of packets",
}


@dataclass(frozen=True)
class Candidate:
    """A protocol with the parameters that a load asks for."""

    label: str
    protocol: str
    parameters: Mapping[str, Any]
    guarantee: str  # causal, probable or none: what is promised of order
    given: Mapping[str, Any]  # those of the parameters that the load does not change

    def scenario(self, load: Scenario) -> Scenario:
        """The load with this protocol."""
        return load.replace(protocol=self.protocol, parameters=dict(self.parameters))


@dataclass(frozen=True)
class Excluded:
    """A protocol that is not run, or whose runs failed, and why."""

    label: str
    why: str


def candidates_of(load: Load) -> tuple[list[Candidate], list[Excluded]]:
    """What is run, and what is not: of all protocols, or of those that were asked for.

    A protocol that was named is run even if the load breaks what it assumes, or if another would be
    smaller: somebody wants to see it.
    """
    found: list[Candidate] = []
    excluded: list[Excluded] = []
    for name in load.asked or _known():
        for given in load.given.get(name) or ({},):
            for candidate in _variants(name, given, load):
                why = _why_not(candidate, load, named=load.asked is not None)
                if why is None:
                    found.append(candidate)
                else:
                    excluded.append(Excluded(candidate.label, why))
    return _told_apart(found), excluded


def _known() -> list[str]:
    found = []
    for name in catalogue.names():
        # What another package brings and does not work, 'precedes protocols' tells.
        with contextlib.suppress(registry.ContractError):
            found.append(registry.load(name).name)
    return found


def _variants(name: str, given: Mapping[str, Any], load: Load) -> list[Candidate]:
    """A protocol with the parameters of the load; what was given comes first."""
    protocol = registry.load(name)
    if name == "dcs" and "detector" not in given:
        kinds = [("dcs", {"detector": "none"}), ("dcs+hash", {"detector": "hash"})]
    else:
        kinds = [(protocol.name, {})]
    found = []
    for label, own in kinds:
        fixed = {**own, **given}
        sized = parameters_for(name, load.scenario, error=load.error, given=fixed)
        protocol.make_parameters(dict(sized))
        exact = name == "dcs" and sized.get("detector") == "hash"
        guarantee = "causal" if exact else protocol.guarantee
        found.append(Candidate(label, name, sized, guarantee, fixed))
    return found


def parameters_for(
    name: str, scenario: Scenario, *, error: float | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """What a load asks of a protocol's parameters, with what was given."""
    aim = _aim(name, given, error)
    found: dict[str, Any] = {}
    if name in CLOCKS:
        entries, delay = _clock_for(scenario, aim)
        if name == "dcs":
            found |= {
                "error": aim,
                "delay": delay,
                "component_entries": max(math.ceil(entries / COMPONENTS), COMPONENT_MIN),
            }
        else:
            found |= {"entries": entries, "per_process": sizing.PER_PROCESS}
        if _checks(name, given):
            mean_ms = sizing.delay_ms(delay)[0]
            needed = LOG_S * scenario.rate
            log = max(LOG_MIN, min(1 << math.ceil(math.log2(max(needed, 1))), LOG_MAX))
            found |= {"grace_ms": max(round(mean_ms), 1), "log": log}
    return {**found, **given}


def _checks(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a clock's errors are found by a hash."""
    return name == "hashed" or (name == "dcs" and given.get("detector") == "hash")


def _aim(name: str, given: Mapping[str, Any], error: float | None) -> float:
    return CHECKED_ERROR if _checks(name, given) else error or ERROR


def _clock_for(scenario: Scenario, error: float) -> tuple[int, str]:
    """The entries of a clock by ``precedes size`` for a load, and the normal delays of that load.

    If no clock of any size will do, it has as many entries as there are nodes.
    """
    delay = stand_in(scenario.delay)
    try:
        found = sizing.size(rate=scenario.rate, nodes=scenario.nodes, error=error, delay=delay)
    except UserError:
        return max(scenario.nodes, sizing.PER_PROCESS), delay
    return found.entries, delay


def stand_in(delay: str) -> str:
    """Normal delays with the mean and deviation of others, as far as the formula takes them.

    Its deviations are up to half of the mean; a table of round trips counts as the default.
    """
    law = delays.read(delay)
    if isinstance(law, delays.Matrix):
        return sizing.DELAY
    mean_ms, deviation_ms = _moments_ms(law)
    mean_ms = max(mean_ms, 0.01)
    deviation_ms = min(max(deviation_ms, mean_ms / 100), mean_ms / 2)
    # Rounded down, so that the deviation stays within half of the mean.
    return f"normal:{math.ceil(mean_ms * 100) / 100:g}:{math.floor(deviation_ms * 1000) / 1000:g}"


def _moments_ms(law: delays.Delay) -> tuple[float, float]:
    match law:
        case delays.Normal():
            return law.mean_ms, law.deviation_ms
        case delays.LogUniform():
            low, high = law.low_ms, law.high_ms
            if high == low:
                return low, 0.0
            span = math.log(high / low)
            mean = (high - low) / span
            square = (high**2 - low**2) / (2 * span)
            return mean, math.sqrt(max(square - mean**2, 0.0))
        case delays.Uniform():
            return (law.low_ms + law.high_ms) / 2, (law.high_ms - law.low_ms) / math.sqrt(12)
        case delays.LogNormal():
            mean = law.median_ms * math.exp(law.sigma**2 / 2)
            return mean, mean * math.sqrt(math.expm1(law.sigma**2))
        case delays.Exponential():
            return law.mean_ms, law.mean_ms
        case delays.Constant():
            return law.always_ms, 0.0
        case _:
            usual, *others = astuple(law)
            return float(usual), max((abs(float(one) - usual) for one in others), default=0.0)


def _why_not(candidate: Candidate, load: Load, *, named: bool) -> str | None:
    """Why a candidate is not run, if it is not."""
    protocol = registry.load(candidate.protocol)
    if protocol.network == "radio":
        return "it needs a radio, with hosts that move between stations; this load is on links"
    scenario = candidate.scenario(load.scenario)
    wanted, most = world_bytes(scenario), limit_bytes(scenario, sharers=1)
    if wanted > most:
        return f"its run would take {wanted / 2**30:.1f} GiB of memory, of {most / 2**30:.1f}"
    if named:
        return None
    if candidate.protocol in NOT_COMPARED:
        return NOT_COMPARED[candidate.protocol]
    broken = outside(scenario)
    if broken:
        return "; ".join(BROKEN[name] for name in broken)
    if not protocol.survives_crashes and has_crash(load.scenario):
        return "it does not survive crashes: who is asked for what is missing may be gone"
    return _too_wide(candidate, load)


def _too_wide(candidate: Candidate, load: Load) -> str | None:
    """Whether a clock for this load would be no smaller than one that makes no errors."""
    chosen = {"entries", "error", "component_entries"} & set(candidate.given)
    if candidate.protocol not in CLOCKS or chosen:
        return None
    aim = _aim(candidate.protocol, candidate.given, load.error)
    entries, nodes = _clock_for(load.scenario, aim)[0], load.scenario.nodes
    if entries < nodes:
        return None
    least = "at least " if entries == nodes else ""
    return (
        f"for errors below {aim:g} at this load its clock takes {least}{entries:,} entries, and "
        f"vector's, which makes none, {nodes:,}"
    )


def _told_apart(candidates: list[Candidate]) -> list[Candidate]:
    """Labels of their own: several candidates of one protocol are named by what differs."""
    found: dict[str, Candidate] = {}
    for one in candidates:
        same = [other.parameters for other in candidates if other.label == one.label]
        names = sorted({name for parameters in same for name in parameters})
        varied = [name for name in names if len({str(each.get(name)) for each in same}) > 1]
        words = ",".join(f"{name}={one.parameters.get(name)}" for name in varied)
        label = f"{one.label}[{words}]" if len(same) > 1 else one.label
        found.setdefault(label, replace(one, label=label))
    return list(found.values())
