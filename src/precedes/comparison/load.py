"""The load that protocols are compared under: a scenario without a protocol, seeds, an error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from precedes.errors import UserError
from precedes.sim import Scenario, from_toml
from precedes.sim.experiment import from_file
from precedes.sim.scenario import Fault, reading
from precedes.sim.workloads import KINDS, Length, broadcasts, workload_of
from precedes.stores import Address, Place

ANY: Final = "unordered"  # the protocol of a load's scenario, which nobody looks at
SEEDS: Final = 5
SEEDS_MAX: Final = 1000
NODES_MAX: Final = 10_000  # what a comparison of all protocols takes grows with the square

# How many broadcasts a run has if nobody says: enough deliveries for rare errors to be seen, some
# seconds for what follows the load, and no more than takes a second or two.
DELIVERIES: Final = 200_000
DELIVERIES_MAX: Final = 2_000_000
MESSAGES_MIN: Final = 1000
SECONDS_MIN: Final = 10.0
# Deliveries in all that show an error to be rarer than E, if none is seen: some times 4 / E.
SHOWN_BY: Final = 16.0

# A crash is noticed after about as long as a missed heartbeat takes.
DETECTION_MS: Final = (100.0, 300.0)


@dataclass(frozen=True)
class Load:
    """What is compared under, and which protocols with which parameters, if that was said."""

    scenario: Scenario
    seeds: tuple[int, ...]
    error: float | None  # the share of deliveries that may be out of order; None: none may
    asked: tuple[str, ...] | None  # protocols, in the order of asking; None: all
    # Parameters that were given, by protocol; of one with several, each is compared.
    given: Mapping[str, tuple[Mapping[str, Any], ...]]

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
    found = _Found() if file is None else _from_file(file)
    if found.base is None:
        for name in ("nodes", "rate"):
            if values.get(name) is None:
                raise UserError(f"say what the load is: `{name}` is missing, or name a file")
        scenario = Scenario(protocol=ANY, **values)
    else:
        scenario = found.base.replace(**values)
    _check(scenario, error=error, seeds=seeds, crashes=crashes)
    asked = found.asked if protocols is None else _each_once(protocols)
    chosen = tuple(range(1, seeds + 1)) if seeds else found.seeds or tuple(range(1, SEEDS + 1))
    scenario = _with_length(scenario, error=error, seeds=len(chosen))
    workload_of(scenario)
    if crashes:
        scenario = with_crashes(scenario, crashes)
    return Load(scenario=scenario, seeds=chosen, error=error, asked=asked, given=found.given)


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
class _Found:
    """What a file says."""

    base: Scenario | None = None
    seeds: tuple[int, ...] = ()
    asked: tuple[str, ...] | None = None
    given: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)


def _from_file(file: Place) -> _Found:
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
    given: dict[str, list[Mapping[str, Any]]] = {}
    for one in scenarios:
        own = given.setdefault(one.protocol, [])
        if one.parameters and one.parameters not in own:
            own.append(one.parameters)
    return _Found(
        base=bases[0],
        seeds=tuple(dict.fromkeys(one.seed for one in scenarios)) if is_experiment else (),
        # A scenario's protocol is one of those that are compared, an experiment's are the ones.
        asked=tuple(given) if is_experiment else None,
        given={name: tuple(own) for name, own in given.items() if own},
    )


def _with_length(scenario: Scenario, *, error: float | None, seeds: int) -> Scenario:
    """The scenario with a number of messages, if nothing says how long it goes on."""
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
    """The load with so many crashes, each in the middle of sending a message to all others.

    That is the worst moment: some have the message and build on it, others never get it. A node
    that sends directly to everybody is half through a broadcast around the middle of the run.
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
    """Whether a node crashes in it."""
    return any(fault.kind == "crash" for fault in scenario.faults)


def with_nodes(load: Load, nodes: int) -> Scenario:
    """The same load of the whole group on another number of nodes, in a shorter run."""
    one = load.scenario.replace(nodes=nodes, faults=(), oracle=False)
    if one.messages is None:
        return one
    fewer = max(math.ceil(one.messages / 4), min(one.messages, MESSAGES_MIN // 4))
    return one.replace(messages=fewer)
