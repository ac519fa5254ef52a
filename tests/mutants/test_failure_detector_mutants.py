"""Mistakes in the failure detector, each of which the properties of its tests must convict."""

import random

import pytest

from precedes.parts import tester
from precedes.sim import Fault
from tests.protocols.test_failure_detector import crash_set, finished, scenario, suspects
from tests.support.edited import protocol

SEEDS = range(8)

# The mistake, then what stands in the file and what the mutant has instead.
MUTANTS = {
    "everybody tests all of a cluster": ("    return before == place\n", "    return True\n"),
    "only the first of a cluster is ever tested": (
        "    return before == place\n",
        "    return place == 0\n",
    ),
    "replies carry no counters": ("            if state > 0:\n", "            if state < 0:\n"),
    "what a reply says is not believed": (
        "        _learn(detector, here, process, value_of(inbox, i) >> PROCESS_BITS, host)\n",
        "        pass\n",
    ),
    "a late round is taken for this one": (
        "        replied = detector.replied[here, tested] == own[ROUND]\n",
        "        replied = detector.replied[here, tested] > 0\n",
    ),
    "a stopped timer counts": ("or key != KEYS + own[GENERATION]:", "or key < KEYS:"),
    "an even counter means faulty": (
        "detector.state[here, process] & 1 == 1\n\n\n@compiled.function()\ndef owns_packet",
        "detector.state[here, process] & 1 == 0\n\n\n@compiled.function()\ndef owns_packet",
    ),
    "who is suspected wrongly never learns it": (
        "        detector.process[here, FENCED] = 1\n",
        "        pass\n",
    ),
}


def convicted(path):
    """Whether a schedule finds that a view is wrong, a role doubled, or a suspect not fenced."""
    for seed in SEEDS:
        rng = random.Random(seed)
        nodes = rng.choice((4, 5, 7, 8, 11))
        crashed = crash_set(rng, nodes)
        faults = [Fault("crash", node=node, at_s=rng.uniform(0, 0.1)) for node in crashed]
        chosen = scenario(nodes, faults, horizon_s=1.5, seed=seed, protocol=path)
        detector = finished(chosen, tier="interpreted")
        for node in set(range(nodes)) - crashed:
            if suspects(detector, node) != crashed:
                return f"seed {seed}: the view of node {node}"
    calm = scenario(8, [], horizon_s=0.3, protocol=path)
    detector = finished(calm, tier="interpreted")
    rounds = detector.process[:, tester.ROUND].sum()
    if detector.counter[tester.TESTS_SENT] != 3 * rounds:
        return "more tests than one for each process and cluster"
    pause = [Fault("pause", node=3, at_s=0.1, for_s=0.3)]
    paused = scenario(8, pause, horizon_s=1.0, protocol=path)
    detector = finished(paused, tier="interpreted")
    fenced = detector.process[:, tester.FENCED].tolist()
    return None if fenced == [0, 0, 0, 1, 0, 0, 0, 0] else "the suspect is not fenced"


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    found = convicted(protocol(tmp_path, "failure_detector", MUTANTS[mistake], part="tester"))
    print(f"{mistake}: {found}")
    assert found, f"{mistake}: nobody noticed"


def test_the_original_passes_the_same_schedules():
    assert convicted("failure_detector") is None
