"""Published rules of `dcs`, and other mistakes, each of which must be detected.

Every mutant is `dcs` with one edit in one of its files. The stress convicts it by a deadlock, by
states that differ at rest, or by a decision that the delivered sets say was wrong.
"""

import functools
import sys

import numpy as np
import pytest

from precedes import contract
from precedes.protocols.dcs.state import CARRIES, GENERATIONS
from precedes.registry import load
from tests.support import dcs_stress
from tests.support.convictions import assert_convicted, conviction, hold
from tests.support.dcs_watch import Watcher
from tests.support.delivered_sets import DeliveredSets
from tests.support.edited import protocol

SEEDS = (20, 37, *range(1, 11))

# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    # The text after Algorithm 2: p_i executes R1, for its own entries and its own S_incr.
    "a delivery increments the receiver's own entries": (
        "counts",
        (
            "_record(state, here)", "state.own[source, ...]",
            "state.own[state.dcs.node[here], ...]",
        ),
    ),
    "a delivery increments in the receiver's own components": (
        "counts",
        (
            "_record(state, here)", "state.stamp[slot, INCREMENTS + s]",
            "state.dcs.S_incr[here, s]",
        ),
    ),
    # R2: the maximum of both clocks.
    "a delivery takes the maximum": (
        "counts",
        (
            "_record(state, here, slot)", "dcs.clock[here, ...] += 1",
            "x = ...\n"
            "dcs.clock[here, x] = max(dcs.clock[here, x], state.need[slot, x] + 1)",
        ),
    ),
    # checkExpand: reactivated only if an entry of the message is larger.
    "a covered component stays inactive although the message hits it": (
        "deactivated early", ("_is_news", "if ... == c: return True", "if ... == c: break"),
        ("_record", "components.activate(...)", ""),
    ),
    # IV-D: all operations block until the decision, also those that a message asks for.
    "a round blocks what messages bring": (
        "deactivated early",
        (
            "check_expand(dcs, need, stamp, here, slot, host)",
            "carries > dcs.components.active[here]",
            "host.now_ns() >= dcs.round.blocked_until_ns[here]"
            " and carries > dcs.components.active[here]",
        ),
        ("_record", "components.activate(...)", ""),
    ),
    # IV-E: what an own message newer than the vector carries is not asked about.
    "a component is removed although messages that carry it are in flight": (
        "removed early", ("seal", "found = set_hash.plus(...)", ""),
    ),
    # III-D: an index that is added again is the old component.
    "a component that is added again has the old generation": (
        "counts", ("remove", "part.generation[here, c] + 1", "part.generation[here, c]"),
    ),
    "a late decision applies to a component that has changed": (
        "deactivated early", ("_on_decision", "_same(...)", "True"),
    ),
    "a decision is taken before all have answered": (
        "removed early", ("_on_answer", "round.awaited[here] == 0", "True"),
    ),
    "what waits for an entry that is gone is never looked at again": (
        "stuck", ("_forget_stale", "queue.forget_entries(...)", ""),
    ),
    "what waits is not looked at after a delivery": (
        "lost", ("_arrive", "if state.held.ends.begin[here] != NONE: ...", ""),
    ),
}  # fmt: skip


def trials(name):
    """A case that no schedule shows, then the schedules, each as a function that judges."""
    yield functools.partial(check_stale, name)
    for seed in SEEDS:
        scenario = dcs_stress.pulses(seed).replace(protocol=name, horizon_s=600.0)
        yield functools.partial(judge, name, scenario)


def check_stale(name):
    """A message waits for a component that is removed then: nothing is missing any more."""
    made = load(name)
    group = contract.Group(nodes=3, hosted=np.array([0], np.int32), seed=3)
    shape = {"component_entries": 2, "spread": 1, "components": 2}
    capacity = contract.Capacity(slots=4, reserve_bytes=1 << 16)
    state = made.allocate(made.make_parameters(shape), group, capacity)
    host = contract.allocate_host(capacity, seed=1)
    for slot, generation in ((0, 0), (1, 1)):
        host.name[2 * slot : 2 * slot + 2] = slot + 1, 1
        state.stamp[slot, CARRIES] = 2
        state.stamp[slot, GENERATIONS + 1] = generation
    state.need[0, 2] = 1  # in the second component, of which the second message has a newer one
    for slot in (0, 1):
        contract.receive(state, 0, slot + 1, np.array([0, slot], np.int64), 1, host)
    length = int(host.registers[contract.LENGTH])
    hold(contract.ends(host.effects, length, 0), "stuck", "it waits for an entry that is gone")


def judge(name, scenario):
    sets = DeliveredSets(name, scenario.nodes, Watcher(scenario).check)
    with sets.installed():
        made, result = dcs_stress.run(scenario, tier="interpreted")
    dcs_stress.check_at_rest(made, result)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    reason, *edits = MUTANTS[mistake]
    mutant = protocol(tmp_path, "dcs", *edits)
    assert_convicted(mistake, trials(mutant), reason)


def test_the_original_passes_the_same_schedules(tmp_path):
    assert conviction(trials(protocol(tmp_path, "dcs"))) is None


# IV-D: a component is acknowledged if its counters are equal.
COUNTERS = (
    "seal",
    "found = int(dcs.part.hash[here, c])",
    "for x in range(dcs.entries):\n"
    "    found += int(dcs.clock[here, c * dcs.entries + x]) << (2 * x)",
)


@pytest.mark.parametrize("literal", [False, True])
def test_equal_counters_are_not_equal_sets(tmp_path, literal):
    """Two nodes have delivered one message each that hits the same entry: a round must notice."""
    made = load(protocol(tmp_path, "dcs", *([COUNTERS] if literal else [])))
    group = contract.Group(nodes=4, hosted=np.arange(4, dtype=np.int32), seed=3)
    shape = {"component_entries": 2, "spread": 1, "per_component": 1}
    capacity = contract.Capacity(slots=4, reserve_bytes=1 << 16)
    state = made.allocate(made.make_parameters(shape), group, capacity)
    state.own[:] = 0
    host = contract.allocate_host(capacity, seed=1)
    for source in (0, 1):
        host.name[2 * source : 2 * source + 2] = source, 1
        contract.broadcast(state, source, source, host)
    contract.receive(state, 2, 0, np.array([0, 0], np.int64), 1, host)
    contract.receive(state, 3, 1, np.array([0, 1], np.int64), 1, host)
    assert np.array_equal(state.dcs.clock[2], state.dcs.clock[3])
    seal = sys.modules[made.state.__module__.replace(".state", ".rounds")].seal
    assert (seal(state.dcs, 2, 0, 0) == seal(state.dcs, 3, 0, 0)) == literal
