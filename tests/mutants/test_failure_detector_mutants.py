"""Mistakes in the failure detector, each of which the properties of its tests must convict."""

import functools
import random

import pytest

from precedes.sim import Fault
from tests.protocols.test_failure_detector import crash_set, finished, scenario, suspects
from tests.support.convictions import assert_convicted, conviction, hold
from tests.support.edited import protocol

SEEDS = range(8)

# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    "everybody tests all of a cluster": ("tests", ("_is_tester", "before == place", "True")),
    "only the first of a cluster is ever tested": (
        "missed", ("_is_tester", "before == place", "place == 0"),
    ),
    "replies carry no counters": ("missed", ("on_packet", "state > 0", "False")),
    "what a reply says is not believed": ("missed", ("on_packet", "_learn(...)", "")),
    "a late round is taken for this one": (
        "missed", ("_await", "replied = ... == own.round[here]", "replied = ... > 0"),
    ),
    "a stopped timer counts": ("missed", ("on_expiry", "key != KEYS + ...", "key < KEYS")),
    "an even counter means faulty": ("missed", ("is_faulty", "... & 1 == 1", "... & 1 == 0")),
    "who is suspected wrongly never learns it": (
        "fence", ("_learn", "detector.process.fenced[here] = 1", ""),
    ),
}  # fmt: skip


def trials(path):
    """Schedules with crashes, a calm one, and one with a pause, each as a function that judges."""
    for seed in SEEDS:
        yield functools.partial(check_views, path, seed)
    yield functools.partial(check_roles, path)
    yield functools.partial(check_fence, path)


def check_views(path, seed):
    """All who are left have found out who has crashed, and suspect nobody else."""
    rng = random.Random(seed)
    nodes = rng.choice((4, 5, 7, 8, 11))
    crashed = crash_set(rng, nodes)
    faults = [Fault("crash", node=node, at_s=rng.uniform(0, 0.1)) for node in crashed]
    chosen = scenario(nodes, faults, horizon_s=1.5, seed=seed, protocol=path)
    detector = finished(chosen, tier="interpreted")
    for node in set(range(nodes)) - crashed:
        found = suspects(detector, node)
        hold(found >= crashed, "missed", f"node {node} knows {found} of {crashed}")
        hold(found <= crashed, "falsely suspected", f"node {node} suspects {found - crashed}")


def check_roles(path):
    """Every process is tested once a round in each of its clusters."""
    detector = finished(scenario(8, [], horizon_s=0.3, protocol=path), tier="interpreted")
    rounds = detector.process.round.sum()
    tests = detector.counter.tests[0]
    hold(tests == 3 * rounds, "tests", f"{tests} in {rounds} rounds")


def check_fence(path):
    """A wrongly suspected process learns of it, and no other does."""
    pause = [Fault("pause", node=3, at_s=0.1, for_s=0.3)]
    detector = finished(scenario(8, pause, horizon_s=1.0, protocol=path), tier="interpreted")
    fenced = detector.process.fenced.tolist()
    hold(fenced == [0, 0, 0, 1, 0, 0, 0, 0], "fence", fenced)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    reason, *edits = MUTANTS[mistake]
    mutant = protocol(tmp_path, "failure_detector", *edits, part="tester")
    assert_convicted(mistake, trials(mutant), reason)


def test_the_original_passes_the_same_schedules():
    assert conviction(trials("failure_detector")) is None
