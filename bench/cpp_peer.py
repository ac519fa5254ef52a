"""Workload W in bare C++ (peer.cpp), built here if there is a compiler."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("peer.cpp")
OPTIONS = ("-O3", "-march=native", "-std=c++20")


def build(directory):
    """The program, or None if there is no compiler."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        return None
    program = Path(directory) / "peer"
    subprocess.run([compiler, *OPTIONS, "-o", program, SOURCE], check=True)
    return program


def run(program, *, nodes, messages, oracle, inputs=1):
    """Deliveries, violations, latency and CPU seconds; ``inputs`` is a seed or a file."""
    command = [program, str(nodes), str(messages), str(int(oracle)), str(inputs)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def run_as(program, scenario, directory):
    """The run of a scenario, with the entries, broadcasts and delays that the simulator draws."""
    from precedes.sim.inputs.network import draw_ns
    from precedes.sim.run import Run

    simulator = Run(scenario)
    issue = simulator.world.workload.issue
    packets = len(issue) * (scenario.nodes - 1)
    delays = draw_ns(simulator.delay, simulator.generators[0], packets)
    path = Path(directory) / "inputs"
    words = [simulator.state.own.ravel(), issue.ravel(), delays]
    np.concatenate(words).astype(np.int64).tofile(path)
    return run(program, nodes=scenario.nodes, messages=len(issue), oracle=True, inputs=path)
