"""``precedes simulate``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from precedes import frames
from precedes.cli import common
from precedes.cli.common import flag, option
from precedes.console import is_verbose, note, phase, say
from precedes.errors import UserError
from precedes.progress import ProgressBar
from precedes.sim.scenario import Scenario, from_toml
from precedes.sim.workloads import replayed
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.sim.result import Result


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "simulate",
        _run,
        ("simulate vector --nodes 20 --messages 1000", "one run"),
        ("simulate unordered --nodes 9 --messages 300 --trace t", "with events"),
        ("simulate --scenario experiments/crash.toml --json", "from a file"),
        help="run a protocol in the simulator",
        description="Run a protocol in the simulator. Delays are in ms; the rate is of the group.",
        notes="Faults, bandwidth, skew and more: in a scenario file, see 'precedes docs "
        "scenarios'.\n\n",
    )
    option(parser, "protocol", None, "a name, or a file (.py) or folder of your own", nargs="?")
    option(parser, "--scenario", "FILE", "start from a TOML file", Address.of)
    common.add_scenario(parser, "nodes", "messages", "duration_s", "rate", "workload", "delay")
    flag(parser, "--per-link", "draw a delay once for each link", dest="per", const="link")
    common.add_scenario(parser, "loss", "duplication", "fifo", "mtu_bytes", "seed")
    common.add_parameters(parser)
    flag(parser, "--no-oracle", "do not count errors: faster", dest="oracle", const=False)
    option(parser, "--trace", "DIR", "write the trace into DIR", common.folder)
    flag(parser, "--packets", "with --trace: packets too")
    common.add_tier(parser)
    common.add_json(parser)


def _run(options: argparse.Namespace) -> int:
    from precedes.sim.runs import simulate, warnings

    scenario = scenario_of(options)
    if options.packets and options.trace is None:
        raise UserError("--packets goes with --trace DIR")
    trace = None if options.trace is None else _trace_path(options.trace, scenario)
    for line in warnings(scenario):
        say(line)
    label = f"simulate {scenario.protocol}"
    _note_code(scenario, options.tier)
    with phase(label), ProgressBar(label) as bar:
        result = simulate(
            scenario, trace=trace, packets=options.packets, progress=bar, tier=options.tier
        )
    if result.tier != "compiled" and options.tier == "auto":
        _say_tier(scenario, result)
    found = {**result.as_dict(), "trace": None if trace is None else str(trace)}
    text = str(result) if trace is None else f"{result}\n{'trace':{frames.LABEL}}{trace}"
    return common.answer(options, found, text)


def _note_code(scenario: Scenario, tier: str) -> None:
    """Note how the run begins: by compiled code, or interpreted."""
    if not is_verbose():
        return
    from precedes.compiled import cache_root
    from precedes.registry import load
    from precedes.sim.switch import code_of

    protocol = load(scenario.protocol)
    if protocol.network != "links":
        note(f"{protocol.name}: plain Python")
    elif protocol.resolve_tier(tier) == "interpreted":
        note(f"{protocol.name}: interpreted")
    else:
        is_cached = code_of(protocol, name=scenario.protocol).is_cached()
        found = "compiled code is" if is_cached else "no compiled code"
        note(f"{protocol.name}: {found} in the cache, {cache_root()}")


def _say_tier(scenario: Scenario, result: Result) -> None:
    """Say that a run was slow because its protocol was not compiled."""
    from precedes.registry import load
    from precedes.sim.switch import INTERPRETED_TIMES, code_of

    protocol = load(scenario.protocol)
    if protocol.network != "links" or protocol.resolve_tier("auto") != "auto":
        return
    code = code_of(protocol, name=scenario.protocol)
    how = "interpreted" if result.tier == "interpreted" else "interpreted at first"
    text = f"{result.protocol} ran {how}; compiled it is some {INTERPRETED_TIMES} times as fast"
    if code.is_being_made():
        text += f"; a compiler works in the background, see {code.lock_path.with_suffix('.log')}"
    say(text)


def scenario_of(options: argparse.Namespace) -> Scenario:
    """The scenario of the options, on top of a file if one is named."""
    from precedes.sim.inputs.broadcasts import read_graph

    values = common.given_of(options, Scenario)
    values["parameters"] = common.pairs_of(options, "set")
    if options.scenario is not None:
        note(f"{options.scenario}: a scenario")
        base = from_toml(options.scenario)
        same = values.get("protocol", base.protocol) == base.protocol
        # The file's parameters are those of its own protocol.
        inherited = base.parameters if same else {}
        values["parameters"] = {**inherited, **values["parameters"]}
        return base.replace(**values)
    if "protocol" not in values:
        raise UserError("name a protocol, or a scenario with --scenario FILE")
    if "nodes" not in values and (graph := replayed(values.get("workload", ""))) is not None:
        values["nodes"] = max(read_graph(graph).agents, 2)
    if "nodes" not in values:
        raise UserError("say how many nodes: --nodes N")
    return Scenario(**values)


def _trace_path(directory: Address, scenario: Scenario) -> Address:
    """Where the trace of a scenario goes in a directory, which is made if it is not there."""
    import hashlib

    from precedes.files import make_directory

    if directory.is_local:
        make_directory(directory.local)
    # The same scenario gives the same file; another one never replaces it.
    text = json.dumps(scenario.unusual(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = Path(scenario.protocol).stem
    return directory / f"{name}-{scenario.nodes}-{scenario.seed}-{digest}.parquet"
