"""An experiment: a named list of scenarios, one for each run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from precedes import registry
from precedes.errors import UserError, meant
from precedes.sim.scenario import Scenario, at_key, from_table, reading
from precedes.stores import Address, Place

SWITCHES: Final = ("trace", "packets")
# Billions of deliveries: a run that takes longer is assumed never to end.
RUN_SECONDS_MAX: Final = 3600.0
# Names of a scenario that a sweep varies in another way, or not at all.
NOT_VARIED: Final = {
    "seed": "seeds, a count or a list",
    "protocol": "protocols, a list",
    "faults": "a file for each set of faults",
    "parameters": "the parameters' own names",
}


@dataclass(frozen=True)
class Experiment:
    """Runs that belong together: every scenario is one run, its seed included."""

    name: str
    scenarios: tuple[Scenario, ...]
    trace: bool = False  # whether the events of the runs are kept
    packets: bool = False  # and with them those of packets
    run_seconds_max: float = RUN_SECONDS_MAX  # a run that takes longer has failed

    def __post_init__(self) -> None:
        _check_seconds(self.run_seconds_max)


def grid(
    base: Scenario, *, vary: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> tuple[Scenario, ...]:
    """The scenarios of all combinations; the last name varies fastest but for the seed.

    A name that is not a field of a scenario is a parameter of the protocol.
    """
    known = {item.name for item in fields(Scenario)}
    for name, values in vary.items():
        if not values:
            raise UserError(f"{name} varies over an empty list: give it a value or leave it out")
    if not seeds:
        raise UserError("an experiment needs a seed or more")
    scenarios = []
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        changes = {name: value for name, value in chosen.items() if name in known}
        own = {name: value for name, value in chosen.items() if name not in known}
        parameters = {**base.parameters, **changes.get("parameters", {}), **own}
        scenario = base.replace(**{**changes, "parameters": parameters})
        scenarios += [scenario.replace(seed=seed) for seed in seeds]
    return tuple(scenarios)


def from_file(path: Place) -> Experiment:
    """The experiment in a file: a scenario and a ``[sweep]`` table (docs/sweeps.md)."""
    path = Address.of(path)
    with reading(path) as table:
        sweep = table.pop("sweep", None)
        if not isinstance(sweep, dict):
            raise UserError("there is no [sweep] table: see 'precedes docs sweeps'")
        base = from_table(table)
        switches = {name: _switch(name, sweep.pop(name, False)) for name in SWITCHES}
        if switches["packets"] and not switches["trace"]:
            raise at_key("packets", "packets are events of a trace: set trace = true too")
        limit_s = sweep.pop("run_seconds_max", RUN_SECONDS_MAX)
        _check_seconds(limit_s)
        seeds = _seeds(sweep.pop("seeds", [base.seed]))
        protocols = _list("protocols", sweep.pop("protocols", [base.protocol]))
        vary = _varied(sweep, protocols)
        scenarios: list[Scenario] = []
        for protocol in protocols:
            # The parameters in the file are those of its own protocol.
            parameters = base.parameters if protocol == base.protocol else {}
            chosen = {k: v for k, v in vary.items() if _applies(k, protocol)}
            start = base.replace(protocol=protocol, parameters=parameters)
            scenarios += grid(start, vary=chosen, seeds=seeds)
        for scenario in scenarios:
            registry.load(scenario.protocol).make_parameters(scenario.parameters)
        return Experiment(
            name=path.stem, scenarios=tuple(scenarios), run_seconds_max=limit_s, **switches
        )


def _check_seconds(value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value <= 1e7:
        text = f"run_seconds_max is a number of seconds above 0, at most 1e7, not {value!r:.60}"
        raise at_key("run_seconds_max", text)


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise at_key(name, f"{name} takes true or false, not {value!r:.60}")
    return value


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise at_key(name, f"{name} takes a list of values, not {value!r:.60}")
    if any(value.count(one) > 1 for one in value):
        raise at_key(name, f"{name} names a value twice")
    return value


def _seeds(value: Any) -> list[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= 100_000:
            raise at_key("seeds", f"seeds is a list, or a count of 1 to 100,000, not {value}")
        return list(range(1, value + 1))
    seeds = _list("seeds", value)
    if not all(isinstance(seed, int) and not isinstance(seed, bool) for seed in seeds):
        raise at_key("seeds", "seeds are whole numbers")
    return seeds


def _varied(sweep: dict[str, Any], protocols: list[Any]) -> dict[str, list[Any]]:
    """The lists to vary by field or parameter; an unknown name is a UserError."""
    known = [item.name for item in fields(Scenario)]
    lists: dict[str, list[Any]] = {}
    for name, value in sweep.items():
        field = "workload" if name == "kind" else name
        if field in NOT_VARIED:
            raise at_key(name, f"{name} is not varied in this way: use {NOT_VARIED[field]}")
        if field not in known and not any(_applies(field, protocol) for protocol in protocols):
            own = [row["name"] for one in protocols for row in registry.load(one).parameter_help()]
            hint = meant(name, (*known, *own))
            reason = f"neither a field of a scenario nor a parameter of {protocols}"
            raise at_key(name, f"{name} is {reason}{hint}")
        lists[field] = _list(name, value)
    return lists


def _applies(name: str, protocol: Any) -> bool:
    if not isinstance(protocol, str):
        raise at_key("protocols", f"protocols are names, not {protocol!r:.60}")
    if name in {item.name for item in fields(Scenario)}:
        return True
    return name in {row["name"] for row in registry.load(protocol).parameter_help()}
