"""An experiment: a named list of scenarios, one for each run."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from precedes.model import UserError
from precedes.sim.scenario import Scenario


@dataclass(frozen=True)
class Experiment:
    """Runs that belong together: every scenario is one run, its seed included."""

    name: str
    scenarios: tuple[Scenario, ...]
    trace: bool = False  # whether the events of the runs are kept
    packets: bool = False  # and with them those of packets


def grid(
    base: Scenario, *, vary: Mapping[str, Sequence[Any]], seeds: Sequence[int]
) -> tuple[Scenario, ...]:
    """The scenarios of all combinations; the last name varies fastest but for the seed.

    A name that is no field of a scenario is a parameter of the protocol.
    """
    known = {item.name for item in fields(Scenario)}
    for name, values in vary.items():
        if not values:
            raise UserError(f"{name} varies over an empty list: give it a value or leave it out")
    if not seeds:
        raise UserError("an experiment needs a seed or more")
    found = []
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        changes = {name: value for name, value in chosen.items() if name in known}
        own = {name: value for name, value in chosen.items() if name not in known}
        parameters = {**base.parameters, **changes.get("parameters", {}), **own}
        scenario = base.replace(**{**changes, "parameters": parameters})
        found += [scenario.replace(seed=seed) for seed in seeds]
    return tuple(found)
