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
from precedes.sim.workloads import KINDS, Length, replayed
from precedes.stores import Address

if TYPE_CHECKING:
    from precedes.sim.result import Result

# Defaults of a run without a size or length.
NODES, MESSAGES = 20, 1000


def add(commands: common.Commands) -> None:
    """Add the command."""
    parser = common.command(
        commands,
        "simulate",
        _run,
        ("simulate vector", f"one run: {NODES} nodes, {MESSAGES:,} messages"),
        ("simulate unordered --nodes 9 --messages 300 --trace t", "write a trace"),
        ("simulate --scenario experiments/crash.toml --json", "read a scenario file"),
        help="run a protocol in the simulator",
        description="Run a protocol in the simulator. Delays are in ms, the rate is that of the "
        "whole group.",
        notes="A scenario file can also set faults, bandwidth and skew: see 'precedes docs "
        "scenarios'.\n\n",
    )
    option(parser, "protocol", None, "name, or path of your own file or folder", nargs="?")
    option(parser, "--scenario", "FILE", "read the scenario from a TOML file", Address.of)
    sizes = {
        "nodes": f"size of the group ({NODES})",
        "messages": f"total number of broadcasts ({MESSAGES:,})",
    }
    fields = ("nodes", "messages", "duration_s", "rate", "workload", "delay")
    common.add_scenario(parser, *fields, **sizes)
    flag(parser, "--per-link", "draw one delay for each link", dest="per", const="link")
    common.add_scenario(parser, "loss", "duplication", "fifo", "mtu_bytes", "seed")
    common.add_parameters(parser)
    flag(parser, "--no-oracle", "skip the oracle (faster)", dest="oracle", const=False)
    option(parser, "--trace", "DIR", "write a trace into this directory", common.folder)
    flag(parser, "--packets", "record packets too (with --trace)")
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
    values = {**result.as_dict(), "trace": None if trace is None else str(trace)}
    text = str(result) if trace is None else f"{result}\n{'trace':{frames.LABEL}}{trace}"
    return common.answer(options, values, text)


def _note_code(scenario: Scenario, tier: str) -> None:
    """Note the tier in which the run begins: compiled or interpreted."""
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
        phrase = "compiled code is" if is_cached else "no compiled code"
        note(f"{protocol.name}: {phrase} in the cache, {cache_root()}")


def _say_tier(scenario: Scenario, result: Result) -> None:
    """Report that a run was slow because its protocol was not compiled."""
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

    values = common.values_of(options, Scenario)
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
    scenario = Scenario(**{"nodes": NODES, **values})
    has_length = scenario.messages is not None or scenario.duration_s
    if has_length or KINDS.law_of(scenario.workload).LENGTH is not Length.OPEN:
        return scenario
    return scenario.replace(messages=MESSAGES)


def _trace_path(directory: Address, scenario: Scenario) -> Address:
    """The path of a scenario's trace in a directory, which is made if necessary."""
    import hashlib

    from precedes.files import make_directory

    if directory.is_local:
        make_directory(directory.local)
    # The same scenario gives the same file; another one never replaces it.
    text = json.dumps(scenario.unusual(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = Path(scenario.protocol).stem
    return directory / f"{name}-{scenario.nodes}-{scenario.seed}-{digest}.parquet"
