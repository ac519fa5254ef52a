"""Results made up for experiments that nobody runs: every number drawn, none from a paper."""

import itertools
import random
import tempfile
from pathlib import Path

import numpy as np

from precedes.model import EventKind, Events
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.trace import TraceWriter

TRACES = tempfile.TemporaryDirectory()
TRACE_NODES = 6


class Extra(dict):
    """Counters of any protocol: one that is asked for is drawn."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def __missing__(self, name):
        self[name] = self.draw.randint(1, 1000)
        return self[name]


class Series(dict):
    """What any protocol has in every 10 s: one that is asked for is drawn."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def __missing__(self, name):
        self[name] = [float(self.draw.randint(1, 1000)) for _ in range(64)]
        return self[name]


def result(scenario: Scenario, draw: random.Random) -> dict:
    """What a run of the scenario could give; deliveries are never 0."""
    from precedes.registry import load

    broadcasts = draw.randint(10, 1000)
    deliveries = broadcasts * (scenario.nodes - 1)
    echo = scenario.echo()
    parameters = load(scenario.protocol).make_parameters(scenario.parameters)
    echo["parameters"] = vars(parameters) | scenario.parameters
    return {
        "protocol": scenario.protocol,
        "nodes": scenario.nodes,
        "seed": scenario.seed,
        "broadcasts": broadcasts,
        "deliveries": deliveries,
        "packets": draw.randint(1, deliveries),
        "messages_sent": draw.randint(1, deliveries),
        "packets_by_messages": [draw.randint(1, 1000) for _ in range(17)],
        "packets_by_bytes": [draw.randint(1, 1000) for _ in range(16)],
        "nodes_by_largest_packet": [draw.randint(1, 99) for _ in range(draw.randint(20, 999))],
        "bytes_sent": draw.randint(1, 10**9),
        "violations": {
            "deliveries": draw.randint(1, deliveries),
            "messages": draw.randint(1, broadcasts),
        },
        "lost": draw.randint(0, 9),
        "duplicates": draw.randint(0, 9),
        "pending_max": draw.randint(1, 99),
        "pending_at_end": draw.randint(0, 9),
        "latency": {
            name: draw.uniform(10, 500)
            for name in ("reception_mean", "delivery_mean", "p50", "p99")
        },
        "cpu_s": draw.random(),
        "wall_s": draw.random(),
        "simulated_s": draw.uniform(1, 1000),
        "complete": True,
        "extra": Extra(draw),
        "series": Series(draw),
        "scenario": echo,
    }


def trace(path: Path, draw: random.Random) -> str:
    """Every one of a few nodes broadcasts once; packets have one message or two."""
    now_us = itertools.count(draw.randint(1, 99), draw.randint(1, 9))
    nodes = range(TRACE_NODES)
    rows = [(1000 * next(now_us), node, EventKind.BROADCAST, node, 1, -1) for node in nodes]
    for node in nodes:
        others = [source for source in nodes if source != node]
        for at, source in enumerate(others):
            packet = 100 * node + at // draw.choice([1, 2])
            rows.append((1000 * next(now_us), node, EventKind.RECEIVE, source, 1, packet))
        for source in draw.sample(others, len(others)):
            rows.append((1000 * next(now_us), node, EventKind.DELIVER, source, 1, -1))
    return write(path, rows)


def write(path: Path, rows: list[tuple[int, ...]]) -> str:
    """A trace of rows (time in ns, node, kind, source, sequence, packet); the path of its file."""
    with TraceWriter(path, nodes=TRACE_NODES) as writer:
        writer.write(Events.of(np.array(rows, np.int64)))
    return str(path)


def results(experiments: list[Experiment], seed: int) -> dict[str, list[dict]]:
    """Made-up results of experiments, by name."""
    found: dict[str, list[dict]] = {}
    for one in experiments:
        found[one.name] = []
        for n, scenario in enumerate(one.scenarios):
            draw = random.Random(f"{seed} {one.name} {n}")
            made_up = result(scenario, draw)
            path = Path(TRACES.name) / f"{one.name}-{n}-{seed}.parquet"
            made_up["trace"] = trace(path, draw) if one.trace else None
            found[one.name].append(made_up)
    return found
