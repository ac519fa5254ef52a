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
TRACE_NODES = 40
TRACES_MAX = 16  # of a seed; experiments with more runs have some of them again


class Extra(dict):
    """Counters of any protocol: one that is asked for is drawn."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def __missing__(self, name):
        self[name] = self.draw.randint(1, 1000)
        return self[name]


class Series(dict):
    """Series of any protocol for every 10 s, or on a radio for every second: drawn on request."""

    def __init__(self, draw, length):
        super().__init__()
        self.draw = draw
        self.length = length

    def __missing__(self, name):
        self[name] = [float(self.draw.randint(1, 1000)) for _ in range(self.length)]
        return self[name]


def result(scenario: Scenario, draw: random.Random) -> dict:
    """A possible result of the scenario; deliveries are never 0."""
    from precedes.registry import load

    broadcasts = draw.randint(10, 1000)
    deliveries = broadcasts * (scenario.nodes - 1)
    echo = scenario.echo()
    protocol = load(scenario.protocol)
    parameters = protocol.make_parameters(scenario.parameters)
    echo["parameters"] = vars(parameters) | scenario.parameters
    return {
        "protocol": scenario.protocol,
        "nodes": scenario.nodes,
        "seed": scenario.seed,
        "tier": "compiled",
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
        "series": Series(draw, 300 if protocol.network == "radio" else 64),
        "scenario": echo,
    }


def trace(path: Path, draw: random.Random) -> str:
    """Every node broadcasts once, half of them after deliveries; packets of one message or more.

    Some messages are delivered twice.
    """
    if path.exists():
        return str(path)
    now_us = itertools.count(draw.randint(1, 99), draw.randint(1, 9))
    packets = itertools.count()
    rows: list[tuple[int, ...]] = []

    def happens(node: int, kind: EventKind, source: int, packet: int = -1) -> None:
        rows.append((1000 * next(now_us), node, kind, source, 1, packet))

    def take(node: int, sources: list[int]) -> None:
        """All from one sender; which packet a message is in is drawn."""
        inside: list[tuple[int, int]] = []
        packet, left = 0, 0
        for source in sources:
            if left == 0:
                packet, left = next(packets), draw.choice([1, 2, 2, draw.randint(20, 39)])
            left -= 1
            inside.append((source, packet))
        for source, packet in inside:
            happens(sources[0], EventKind.SEND, source, packet)
        for source, packet in inside:
            happens(node, EventKind.RECEIVE, source, packet)
        again = draw.sample(sources, draw.randint(0, len(sources)))
        for source in [*draw.sample(sources, len(sources)), *again]:
            happens(node, EventKind.DELIVER, source)

    first, then = range(TRACE_NODES // 2), range(TRACE_NODES // 2, TRACE_NODES)
    had: dict[int, list[int]] = {node: [] for node in first}
    for node in first:
        happens(node, EventKind.BROADCAST, node)
    for node in then:
        had[node] = draw.sample(first, draw.randint(0, len(first)))
        take(node, had[node])
        happens(node, EventKind.BROADCAST, node)
    for node in range(TRACE_NODES):
        take(node, [one for one in range(TRACE_NODES) if one != node and one not in had[node]])
    return write(path, rows)


def audit(draw: random.Random) -> dict[str, int]:
    """Counts as the audit of a trace gives them."""
    names = ("violations", "violating_messages", "lost", "duplicates", "phantom", "cycles")
    counts = {name: draw.randint(0, 999) for name in (*names, "unjudged", "undelivered_at_end")}
    return {"deliveries": draw.randint(1, 10**6), **counts}


def write(path: Path, rows: list[tuple[int, ...]]) -> str:
    """A trace of rows (time in ns, node, kind, source, sequence, packet); the path of its file."""
    with TraceWriter(path, nodes=TRACE_NODES) as writer:
        writer.write(Events.of(np.array(rows, np.int64)))
    return str(path)


def results(experiments: list[Experiment], seed: int) -> dict[str, list[dict]]:
    """Made-up results of experiments, by name."""
    found: dict[str, list[dict]] = {}
    for place, one in enumerate(experiments):
        found[one.name] = []
        for n, scenario in enumerate(one.scenarios):
            draw = random.Random(f"{seed} {one.name} {n}")
            made_up = result(scenario, draw)
            made_up["trace"] = None
            if one.trace:
                number = (n + 5 * place) % TRACES_MAX
                path = Path(TRACES.name) / f"{seed}-{number}.parquet"
                made_up["trace"] = trace(path, random.Random(f"{seed} {number}"))
            made_up["audit"] = audit(draw) if one.trace else None
            found[one.name].append(made_up)
    return found
