"""The runs of section 6: its five scenarios by trees, processes and crashes."""

from __future__ import annotations

import random
from typing import Any, Final

from precedes.sim import Fault, Scenario
from precedes.sim.experiment import Experiment
from precedes_papers.measured import Fitted
from precedes_papers.p001 import CASES

# Table 1, as parameters of the protocol.
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "NO-AGGR": {"payload_max_bytes": 1, "tree_bytes": 1, "ack_bytes": 1, "delay_max_ms": 0.0},
    "SMALL2": {"payload_max_bytes": 1460, "tree_bytes": 24, "ack_bytes": 20, "delay_max_ms": 2.0},
    "BIG2": {"payload_max_bytes": 1460, "tree_bytes": 500, "ack_bytes": 20, "delay_max_ms": 2.0},
    "SMALL10": {"payload_max_bytes": 1460, "tree_bytes": 24, "ack_bytes": 20, "delay_max_ms": 10.0},
    "BIG10": {"payload_max_bytes": 1460, "tree_bytes": 500, "ack_bytes": 20, "delay_max_ms": 10.0},
}
# t_s = 0.1 in a FIFO port for each packet, t_t = 0.8 on the link, and after t_r = 0.1 at the
# receiver 0.1 more until it reacts, which is not in the paper but in its figures: a hop is 1.1.
NETWORK: Final[dict[str, Any]] = {
    "transmission_ms": 0.1,
    "delay": "constant:0.8",
    "processing_ms": 0.2,
}
# The tests of section 6.1, on a port of their own.
TESTS: Final[dict[str, Any]] = {"tests": True, "interval_ms": 30.0, "timeout_ms": 4.0}
CRASH_SPAN_S: Final = 0.010  # Table 5: crashes at uniform times; the paper does not say when
TABLE_3: Final = ("Table 3, FF", "Table 3, FY")
FITTED: Final = (
    Fitted("processing_ms", NETWORK["processing_ms"], "Table 3", items=TABLE_3),
    Fitted("crash span, s", CRASH_SPAN_S, "Table 5", experiments=("crashes", "traced")),
)

SIZES: Final = (8, 16, 32, 64, 128, 256, 512, 1024)
TREES: Final = (1, 2, 4, 8, 16)
SHARED_NODES: Final = 16
PROFILED: Final = ("SMALL2", "BIG2")
PROFILE: Final[dict[str, Any]] = {"profile_node": 0, "profile_ms": 2.0, "profile_slices": 50}
OVERLOADED: Final = (64, 256)
SMALL: Final = 256
# Crashes in runs whose traces are audited.
TRACED: Final = ("NO-AGGR", "SMALL2", "BIG10")
TRACED_SIZES: Final = (8, 16, 64)
TRACED_SEEDS: Final = range(1, 6)


def scenario(case: str, nodes: int, **parameters: Any) -> Scenario:
    """Every process broadcasts once at the start (section 6.1)."""
    return Scenario(
        protocol="bundled",
        nodes=nodes,
        workload="window:0",
        oracle=False,
        parameters={**SETTINGS[case], **parameters},
        **NETWORK,
    )


def shared_trees(trees: int) -> str:
    """Table 2: one broadcast for each process, from the roots of this number of trees."""
    return f"burst:{trees}:{SHARED_NODES // trees}"


def crashing(case: str, nodes: int, seed: int) -> Scenario:
    """Table 5: log2(n) - 1 processes crash at random times."""
    # The text is the seed: another one draws other crashes.
    rng = random.Random(f"paper 001, table 5, {nodes} {seed}")
    chosen = rng.sample(range(nodes), nodes.bit_length() - 2)
    faults = [Fault("crash", node=node, at_s=rng.uniform(0, CRASH_SPAN_S)) for node in chosen]
    base = scenario(case, nodes, rounds=12, **TESTS)
    return base.replace(faults=tuple(faults), seed=seed)


def crash_seeds(scale: str, nodes: int) -> range:
    """Seeds of the crashes of Table 5: ten times the published number, more for small groups.

    In these, detection is most of the latency, and the latency varies. At the quick scale the large
    groups, which take the time, have four drawings.
    """
    if nodes <= SMALL:
        return range(1, 31)
    return range(1, 11 if scale == "full" else 5)


def experiments(scale: str) -> list[Experiment]:
    """Only the crashes of Table 5 are drawn; all else is the same whatever the seed."""
    cells = [(case, nodes) for nodes in SIZES for case in CASES]
    return [
        Experiment(
            "trees",
            tuple(
                scenario(case, SHARED_NODES).replace(workload=shared_trees(trees))
                for trees in TREES
                for case in CASES
            ),
        ),
        Experiment("fault-free", tuple(scenario(case, nodes) for case, nodes in cells)),
        Experiment(
            "one-crash",
            tuple(
                scenario(case, nodes, rounds=2, **TESTS).replace(faults=(Fault("crash", node=1),))
                for case, nodes in cells
            ),
        ),
        Experiment(
            "crashes",
            tuple(
                crashing(case, nodes, seed)
                for case, nodes in cells
                for seed in crash_seeds(scale, nodes)
            ),
        ),
        Experiment(
            "traced",
            tuple(
                crashing(case, nodes, seed)
                for case in TRACED
                for nodes in TRACED_SIZES
                for seed in TRACED_SEEDS
            ),
            trace=True,
        ),
        Experiment("profile", tuple(scenario(case, SIZES[-1], **PROFILE) for case in PROFILED)),
        Experiment(
            "port",
            tuple(
                scenario("NO-AGGR", nodes, rounds=2, own_channel=own_channel, **TESTS)
                for nodes in OVERLOADED
                for own_channel in (True, False)
            ),
        ),
    ]
