"""Selects the protocols that can serve a load, with parameters; the others with reasons."""

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

# Error rates that clocks are sized for. Without one from the user, protocols that make errors use
# the first; those that detect errors by a hash search the second share of deliveries
# (docs/sizing.md).
ERROR: Final = 1e-4
CHECKED_ERROR: Final = 1e-3

# Number of components that make up the clock of a dynamic clock set.
COMPONENTS: Final = 4
COMPONENT_MIN: Final = 4

# Answers are kept for this time at the load's rate, and at least the default number of them.
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
    """A protocol with parameters for a load."""

    label: str
    protocol: str
    parameters: Mapping[str, Any]
    guarantee: str  # causal, probable or none: the promised order
    fixed: Mapping[str, Any]  # the parameters that the load does not change

    def scenario(self, load: Scenario) -> Scenario:
        """The load with this protocol."""
        return load.replace(protocol=self.protocol, parameters=dict(self.parameters))


@dataclass(frozen=True)
class Excluded:
    """A protocol that is not run, or whose runs failed, with the reason."""

    label: str
    why: str


def candidates_of(load: Load) -> tuple[list[Candidate], list[Excluded]]:
    """The candidates and the excluded ones, of all protocols or of those requested.

    A protocol that was named is run even if the load breaks its assumptions, or if another would be
    smaller: the user wants to see it.
    """
    candidates: list[Candidate] = []
    excluded: list[Excluded] = []
    for name in load.asked or _known():
        for parameters in load.fixed.get(name) or ({},):
            for candidate in _variants(name, parameters, load):
                why = _why_not(candidate, load, named=load.asked is not None)
                if why is None:
                    candidates.append(candidate)
                else:
                    excluded.append(Excluded(candidate.label, why))
    return _with_unique_labels(candidates), excluded


def _known() -> list[str]:
    names = []
    for name in catalogue.names():
        # Broken protocols of other packages are reported by 'precedes protocols'.
        with contextlib.suppress(registry.ContractError):
            names.append(registry.load(name).name)
    return names


def _variants(name: str, fixed: Mapping[str, Any], load: Load) -> list[Candidate]:
    """A protocol with the parameters for the load; given ones have priority."""
    protocol = registry.load(name)
    if name == "dcs" and "detector" not in fixed:
        kinds = [("dcs", {"detector": "none"}), ("dcs+hash", {"detector": "hash"})]
    else:
        kinds = [(protocol.name, {})]
    variants = []
    for label, own in kinds:
        merged = {**own, **fixed}
        sized = parameters_for(name, load.scenario, error=load.error, fixed=merged)
        protocol.make_parameters(dict(sized))
        exact = name == "dcs" and sized.get("detector") == "hash"
        guarantee = "causal" if exact else protocol.guarantee
        variants.append(Candidate(label, name, sized, guarantee, merged))
    return variants


def parameters_for(
    name: str, scenario: Scenario, *, error: float | None, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """Parameters of a protocol for a load, including the given ones."""
    aim = _aim(name, fixed, error)
    parameters: dict[str, Any] = {}
    if name in CLOCKS:
        entries, delay = _clock_for(scenario, aim)
        if name == "dcs":
            parameters |= {
                "error": aim,
                "delay": delay,
                "component_entries": max(math.ceil(entries / COMPONENTS), COMPONENT_MIN),
            }
        else:
            parameters |= {"entries": entries, "per_process": sizing.PER_PROCESS}
        if _checks(name, fixed):
            mean_ms = sizing.delay_ms(delay)[0]
            needed = LOG_S * scenario.rate
            log = max(LOG_MIN, min(1 << math.ceil(math.log2(max(needed, 1))), LOG_MAX))
            parameters |= {"grace_ms": max(round(mean_ms), 1), "log": log}
    return {**parameters, **fixed}


def _checks(name: str, fixed: Mapping[str, Any]) -> bool:
    """Return whether a clock's errors are detected by a hash."""
    return name == "hashed" or (name == "dcs" and fixed.get("detector") == "hash")


def _aim(name: str, fixed: Mapping[str, Any], error: float | None) -> float:
    return CHECKED_ERROR if _checks(name, fixed) else error or ERROR


def _clock_for(scenario: Scenario, error: float) -> tuple[int, str]:
    """The entries of a clock by ``precedes size`` for a load, and the normal delays of that load.

    If no clock of any size is enough, it has as many entries as there are nodes.
    """
    delay = stand_in(scenario.delay)
    try:
        clock = sizing.size(rate=scenario.rate, nodes=scenario.nodes, error=error, delay=delay)
    except UserError:
        return max(scenario.nodes, sizing.PER_PROCESS), delay
    return clock.entries, delay


def stand_in(delay: str) -> str:
    """Normal delays with the mean and deviation of others, within the range of the formula.

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
    """The reason why a candidate is not run, if any."""
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
        return "it does not survive crashes: a crashed sender does not answer requests"
    return _too_wide(candidate, load)


def _too_wide(candidate: Candidate, load: Load) -> str | None:
    """Return whether a clock for this load would be at least as large as one without errors."""
    chosen = {"entries", "error", "component_entries"} & set(candidate.fixed)
    if candidate.protocol not in CLOCKS or chosen:
        return None
    aim = _aim(candidate.protocol, candidate.fixed, load.error)
    entries, nodes = _clock_for(load.scenario, aim)[0], load.scenario.nodes
    if entries < nodes:
        return None
    least = "at least " if entries == nodes else ""
    return (
        f"for errors below {aim:g} at this load its clock takes {least}{entries:,} entries, and "
        f"vector's, which makes none, {nodes:,}"
    )


def _with_unique_labels(candidates: list[Candidate]) -> list[Candidate]:
    """Unique labels: several candidates of one protocol are named by their differences."""
    labelled: dict[str, Candidate] = {}
    for one in candidates:
        same = [other.parameters for other in candidates if other.label == one.label]
        names = sorted({name for parameters in same for name in parameters})
        varied = [name for name in names if len({str(each.get(name)) for each in same}) > 1]
        words = ",".join(f"{name}={one.parameters.get(name)}" for name in varied)
        label = f"{one.label}[{words}]" if len(same) > 1 else one.label
        labelled.setdefault(label, replace(one, label=label))
    return list(labelled.values())
