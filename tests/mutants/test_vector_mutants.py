"""Classical mistakes in a vector-clock broadcast, each of which the suite must convict.

Every mutant is `vector` with one edit. It runs interpreted on the same random schedules as the
original, which passes them all; a mutant that passes too would show that the schedules are weak.
"""

import functools

import pytest

from precedes.testing import check_scenario, random_scenario
from tests.support.convictions import assert_convicted, conviction
from tests.support.edited import protocol

SEEDS = range(1, 13)

SOURCE = "source = host.source_of(...)"

# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    "the stamp counts the message itself": (
        "lost",
        (
            "broadcast", "clocks.copy(clock, state.need[slot]); clock[...] += 1",
            "clock[...] += 1; clocks.copy(clock, state.need[slot])",
        ),
    ),
    "no test for repeated packets": (
        "twice", ("receive", "clock[source] > need[source]", "False"),
    ),
    "delivered on arrival, whatever is missing": (
        "order", ("receive", "clocks.covers(...)", "True"),
    ),
    "only the sender's own entry is compared": (
        "order",
        ("receive", "clocks.covers(clock, need)", "clock[source] >= need[source]", SOURCE),
    ),
    "a delivery is not counted": ("twice", ("receive", "clock[source] += 1", "")),
    "what waits is never looked at again": ("lost", ("receive", "_deliver_held(...)", "")),
    "what has to wait is forgotten": ("lost", ("receive", "state.held.add(...)", "")),
    "more is asked for than is needed": (
        "lost",
        (
            "receive(state)", "clocks.covers(clock, need)",
            "(clock[: state.nodes] > need[: state.nodes]).all()",
        ),
    ),
    "one entry of the clock is never compared": (
        "twice", ("receive", "clocks.covers(clock, need)", "clocks.covers(clock[1:], need[1:])"),
    ),
    "a repeated packet that waits is delivered twice": (
        "twice", ("_deliver_held", "state.clock[here, source] > state.need[slot, source]", "False"),
    ),
    "what waits is looked at only once": (
        "lost", ("_deliver_held", "host.deliver(slot)", "host.deliver(slot); return"),
    ),
    "the receiver takes the maximum": (
        "order",
        (
            "receive", "clock[source] += 1",
            "for x in range(clock.size): clock[x] = max(clock[x], need[x] + 1)",
            "clocks.covers(clock, need)",
        ),
    ),
}  # fmt: skip


def trials(file):
    """The schedules, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        scenario = random_scenario(file, seed)
        yield functools.partial(check_scenario, scenario, compiled=False)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    reason, *edits = MUTANTS[mistake]
    mutant = protocol(tmp_path, "vector", *edits)
    assert_convicted(mistake, trials(mutant), reason)


def test_the_original_passes_the_same_schedules():
    assert conviction(trials("vector")) is None
