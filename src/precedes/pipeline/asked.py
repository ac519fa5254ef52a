"""What was asked of runs, as typed columns: the scenario's fields and the protocols' parameters.

A field of the scenario is a column of its own name, a parameter is ``param_<name>``: of its value
where a run's protocol has it, and null elsewhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from precedes import registry
from precedes.sim import Scenario
from precedes.sim.scenario import Fault

PARAMETER: Final = "param_"

# Columns that tables of runs have anyway, and the values that are no plain ones.
ELSEWHERE: Final = ("protocol", "nodes", "seed", "parameters", "faults")
FAULTS: Final = "faults"

# Faults with a longer description are told apart by a digest.
FAULTS_CHARACTERS_MAX: Final = 100


def scenario_types() -> dict[str, type]:
    """The scenario's columns and what they hold."""
    plain = {"int": int, "float": float, "str": str, "bool": bool}
    types = {
        field.name: plain[str(field.type).removesuffix(" | None")]
        for field in dataclasses.fields(Scenario)
        if field.name not in ELSEWHERE
    }
    return {**types, FAULTS: str}


def parameter_types(protocols: Iterable[str]) -> dict[str, type]:
    """The columns of these protocols' parameters and what they hold, by name.

    Where two protocols have a parameter of one name and different types, numbers become float and
    everything else text.
    """
    found: dict[str, set[type]] = {}
    for protocol in sorted(set(protocols)):
        for name, value in vars(registry.load(protocol).make_parameters({})).items():
            found.setdefault(PARAMETER + name, set()).add(_type_of(value))
    return {name: _common(types) for name, types in sorted(found.items())}


def _type_of(value: Any) -> type:
    return next((kind for kind in (bool, int, float) if isinstance(value, kind)), str)


def _common(types: set[type]) -> type:
    if len(types) == 1:
        return next(iter(types))
    return float if types == {int, float} else str


def cells(scenario: Scenario, types: Mapping[str, type]) -> dict[str, Any]:
    """The values of one run in columns of ``scenario_types`` and ``parameter_types``."""
    parameters = vars(registry.load(scenario.protocol).make_parameters(scenario.parameters))
    values = {
        **{name: getattr(scenario, name) for name in scenario_types() if name != FAULTS},
        FAULTS: faults_word(scenario.faults),
        **{PARAMETER + name: value for name, value in parameters.items()},
    }
    return {
        name: None if value is None else types[name](value)
        for name, value in values.items()
        if name in types
    }


def faults_word(faults: Sequence[Fault]) -> str:
    """Faults as one word: what is said of each, or a digest if that is long."""
    told = []
    for fault in faults:
        said = {k: v for k, v in asdict(fault).items() if v != getattr(Fault, k, None)}
        kind = said.pop("kind")
        told.append(f"{kind}({','.join(f'{k}={_plain(v)}' for k, v in said.items())})")
    text = "+".join(told) or "none"
    if len(text) <= FAULTS_CHARACTERS_MAX:
        return text
    return f"{len(faults)}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _plain(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)
