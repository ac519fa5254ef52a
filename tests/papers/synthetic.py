"""Results made up for experiments that nobody runs: every number drawn, none from a paper."""

import random

from precedes.sim import Scenario
from precedes.sim.experiment import Experiment


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
    from precedes.protocols import load

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


def results(experiments: list[Experiment], seed: int) -> dict[str, list[dict]]:
    """Made-up results of experiments, by name."""
    return {
        one.name: [
            result(s, random.Random(f"{seed} {one.name} {n}")) for n, s in enumerate(one.scenarios)
        ]
        for one in experiments
    }
