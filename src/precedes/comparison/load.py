"""The load that protocols are compared under: a scenario without a protocol, seeds, an error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from precedes.errors import UserError, meant
from precedes.sim import Scenario, from_toml
from precedes.sim.experiment import from_file
from precedes.sim.scenario import Fault, LoadFields, reading
from precedes.sim.workloads import KINDS, Length, broadcasts, workload_of
from precedes.stores import Address, Place

ANY: Final = "unordered"  # the protocol in a load's scenario, which is ignored
FIELDS: Final = ("nodes", *LoadFields.__annotations__)
INSTEAD: Final = {
    "protocol": "`protocols` is a list of names",
    "seed": "`seeds` is the number of seeds of each protocol",
    "parameters": "name an experiment file, whose [sweep] table may set parameters",
}
SEEDS: Final = 5
SEEDS_MAX: Final = 1000
NODES_MAX: Final = 10_000  # the cost of a comparison of all protocols grows with the square

# Default number of broadcasts of a run: enough deliveries to see rare errors, some
# seconds for protocols that adapt to the load, and at most a second or two of CPU time.
DELIVERIES: Final = 200_000
DELIVERIES_MAX: Final = 2_000_000
MESSAGES_MIN: Final = 1000
SECONDS_MIN: Final = 10.0
# Deliveries in all that bound an error rate by E, if none is seen: some times 4 / E.
SHOWN_BY: Final = 16.0

# A crash is detected after about the time of a missed heartbeat.
DETECTION_MS: Final = (100.0, 300.0)


@dataclass(frozen=True)
class Load:
    """The load of a comparison, with the requested protocols and parameters, if any."""

    scenario: Scenario
    seeds: tuple[int, ...]
    error: float | None  # the share of deliveries that may be out of order; None: none may
    asked: tuple[str, ...] | None  # requested protocols, in this order; None: all
    # Given parameters by protocol; of several for one, each is compared.
    fixed: Mapping[str, tuple[Mapping[str, Any], ...]]

    def as_dict(self) -> dict[str, Any]:
        """The load in plain values, as results carry it."""
        left_out = ("protocol", "seed", "parameters", "oracle", "memory_max_bytes")
        echo = self.scenario.echo()
        return {
            **{name: value for name, value in echo.items() if name not in left_out},
            "seeds": list(self.seeds),
            "error": self.error,
        }

    def __str__(self) -> str:
        one = self.scenario
        words = [f"{one.nodes:,} nodes", f"{one.rate:g} broadcasts/s", f"delays {one.delay}"]
        if one.workload != "poisson":
            words[1] = f"workload {one.workload}"
        for name in ("loss", "duplication"):
            if getattr(one, name):
                words.append(f"{name} {getattr(one, name):g}")
        if one.faults:
            words.append(f"{len(one.faults)} fault{'s' if len(one.faults) > 1 else ''}")
        count = (
            f"{one.messages:,} messages"
            if one.messages is not None
            else (f"{one.duration_s:g} s" if one.duration_s else "its own length")
        )
        runs = f"{len(self.seeds)} run{'s' if len(self.seeds) > 1 else ''} of {count}"
        return ", ".join([*words, runs])


def load_of(
    file: Place | None = None,
    *,
    protocols: Sequence[str] | None = None,
    error: float | None = None,
    seeds: int | None = None,
    crashes: int = 0,
    **values: Any,
) -> Load:
    """The load of a file, of fields of a scenario, or of a file with other fields.

    Of an experiment file the protocols, their parameters and the seeds are those of its ``[sweep]``
    table; of a scenario's the parameters belong to its own protocol.
    """
    for name in values:
        if name not in FIELDS:
            hint = INSTEAD.get(name) or f"a load has {', '.join(FIELDS)}{meant(name, FIELDS)}"
            raise UserError(f"a comparison has no argument {name!r}: {hint}")
    contents = _Contents() if file is None else _from_file(file)
    if contents.base is None:
        for name in ("nodes", "rate"):
            if values.get(name) is None:
                raise UserError(f"the load has no `{name}`: give it, or name a file")
        scenario = Scenario(protocol=ANY, **values)
    else:
        scenario = contents.base.replace(**values)
    _check(scenario, error=error, seeds=seeds, crashes=crashes)
    asked = contents.asked if protocols is None else _each_once(protocols)
    chosen = tuple(range(1, seeds + 1)) if seeds else contents.seeds or tuple(range(1, SEEDS + 1))
    scenario = _with_length(scenario, error=error, seeds=len(chosen))
    workload_of(scenario)
    if crashes:
        scenario = with_crashes(scenario, crashes)
    return Load(scenario=scenario, seeds=chosen, error=error, asked=asked, fixed=contents.fixed)


def _each_once(names: Sequence[str]) -> tuple[str, ...]:
    if not names or not all(names):
        raise UserError("name a protocol or more, as in vector,vcube")
    return tuple(dict.fromkeys(names))


def _check(scenario: Scenario, *, error: float | None, seeds: int | None, crashes: int) -> None:
    if error is not None and not 0 < error < 1:
        raise UserError(f"error must be a share between 0 and 1, such as 1e-4, not {error:g}")
    if seeds is not None and not 1 <= seeds <= SEEDS_MAX:
        raise UserError(f"seeds is a count from 1 to {SEEDS_MAX:,}, not {seeds}")
    if scenario.nodes > NODES_MAX:
        raise UserError(
            f"a comparison takes groups of up to {NODES_MAX:,} nodes, not {scenario.nodes:,}: "
            "simulate larger ones with 'precedes simulate'"
        )
    if not 0 <= crashes < scenario.nodes - 1:
        raise UserError(
            f"crashes must leave two nodes alive: between 0 and {scenario.nodes - 2}, not {crashes}"
        )


@dataclass(frozen=True)
class _Contents:
    """The contents of a file."""

    base: Scenario | None = None
    seeds: tuple[int, ...] = ()
    asked: tuple[str, ...] | None = None
    fixed: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)


def _from_file(file: Place) -> _Contents:
    path = Address.of(file)
    with reading(path) as table:
        is_experiment = "sweep" in table
    scenarios = from_file(path).scenarios if is_experiment else (from_toml(path),)
    bases = [one.replace(protocol=ANY, parameters={}, seed=1) for one in scenarios]
    varied = [
        item.name
        for item in fields(Scenario)
        if any(getattr(one, item.name) != getattr(bases[0], item.name) for one in bases)
    ]
    if varied:
        raise UserError(
            f"{path}: a comparison takes one load, and {', '.join(varied)} varies: give it one "
            "value, or use 'precedes sweep'"
        )
    parameters: dict[str, list[Mapping[str, Any]]] = {}
    for one in scenarios:
        own = parameters.setdefault(one.protocol, [])
        if one.parameters and one.parameters not in own:
            own.append(one.parameters)
    return _Contents(
        base=bases[0],
        seeds=tuple(dict.fromkeys(one.seed for one in scenarios)) if is_experiment else (),
        # A scenario's protocol is added to the comparison, an experiment's are all of it.
        asked=tuple(parameters) if is_experiment else None,
        fixed={name: tuple(own) for name, own in parameters.items() if own},
    )


def _with_length(scenario: Scenario, *, error: float | None, seeds: int) -> Scenario:
    """The scenario with a number of messages, if nothing else bounds its length."""
    if scenario.messages is not None or scenario.duration_s:
        return scenario
    if KINDS.law_of(scenario.workload).LENGTH is not Length.OPEN:
        return scenario
    others = scenario.nodes - 1
    wanted = max(DELIVERIES, SHOWN_BY / error / seeds if error else 0.0)
    messages = max(wanted / others, SECONDS_MIN * scenario.rate, MESSAGES_MIN)
    most = max(DELIVERIES_MAX / others, MESSAGES_MIN / 5)
    return scenario.replace(messages=math.ceil(min(messages, most)))


def with_crashes(scenario: Scenario, count: int) -> Scenario:
    """The load with this number of crashes, each in the middle of sending a message to all others.

    That is the worst moment: some have the message and depend on it, others never get it. A node
    that sends directly to all is half through a broadcast around the middle of the run.
    """
    others = scenario.nodes - 1
    each = broadcasts(scenario) / scenario.nodes
    faults = []
    for number in range(count):
        whole = int(each * (number + 1) / (count + 1))
        faults.append(
            Fault(
                kind="crash",
                node=(number * scenario.nodes) // count if count > 1 else scenario.nodes // 2,
                after_sends=whole * others + max(others // 2, 1),
                detection_ms=DETECTION_MS,
            )
        )
    return scenario.replace(faults=(*scenario.faults, *faults))


def has_crash(scenario: Scenario) -> bool:
    """Return whether a node crashes in it."""
    return any(fault.kind == "crash" for fault in scenario.faults)


def with_nodes(load: Load, nodes: int) -> Scenario:
    """The same load of the whole group on another number of nodes, in a shorter run."""
    one = load.scenario.replace(nodes=nodes, faults=(), oracle=False)
    if one.messages is None:
        return one
    fewer = max(math.ceil(one.messages / 4), min(one.messages, MESSAGES_MIN // 4))
    return one.replace(messages=fewer)
