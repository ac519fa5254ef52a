"""A run that failed, as a scenario file and the command that repeats it."""

from __future__ import annotations

import json
import shlex
from typing import Any

from precedes.pipeline.directory import FAILED, make_folder, write_aside
from precedes.pipeline.plan import PlannedRun
from precedes.sim import Scenario
from precedes.sim.scenario import NETWORK, TOP, WORKLOAD
from precedes.stores import Address


def command_for(run: PlannedRun, directory: Address) -> str:
    """Write the run's scenario into the directory and return the command that runs it."""
    path = _path(run, directory)
    make_folder(path.parent)
    write_aside(path, to_toml(run.scenario).encode())
    trace = f" --trace {shlex.quote(str(directory / FAILED))}" if run.trace else ""
    packets = " --packets" if run.trace and run.packets else ""
    return f"precedes simulate --scenario {shlex.quote(str(path))}{trace}{packets}"


def forget(run: PlannedRun, directory: Address) -> None:
    """Remove what was kept of a run that failed: it has finished since."""
    _path(run, directory).remove()


def _path(run: PlannedRun, directory: Address) -> Address:
    return directory / FAILED / f"{run.name}.toml"


def to_toml(scenario: Scenario) -> str:
    """A scenario as a file that ``from_toml`` reads."""
    values = scenario.echo()
    lines = [f"{name} = {_value(values[name])}" for name in TOP if values[name] is not None]
    sections = {"workload": WORKLOAD, "network": NETWORK}
    for section, names in sections.items():
        lines.append(f"\n[{section}]")
        for name in names:
            value = values["workload" if name == "kind" else name]
            if value is not None:
                lines.append(f"{name} = {_value(value)}")
    if scenario.parameters:
        lines.append("\n[parameters]")
        lines += [f"{_key(name)} = {_value(v)}" for name, v in scenario.parameters.items()]
    for fault in values["faults"]:
        lines.append("\n[[faults]]")
        lines += [f"{name} = {_value(value)}" for name, value in fault.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return (
        name
        if name.replace("_", "").replace("-", "").isalnum() and name.isascii()
        else (json.dumps(name))
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for the characters that JSON need not escape.
        return json.dumps(value).replace("\x7f", "\\u007f")
    return repr(value)
