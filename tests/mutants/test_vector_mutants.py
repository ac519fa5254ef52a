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

READY = "elif clocks.covers(clock, need):"
AT_ONCE = """\
            clock[source] += 1
            deliver(host, slot)
            if """
LATER = """\
            state.clock[here, source] += 1
            deliver(host, slot)
"""

# The mistake, then what stands in the file and what the mutant has instead.
MUTANTS = {
    "the stamp counts the message itself": (
        """\
    clocks.copy(clock, state.need[slot])
    clock[source_of(host, slot)] += 1
""",
        """\
    clock[source_of(host, slot)] += 1
    clocks.copy(clock, state.need[slot])
""",
    ),
    "no test for repeated packets": (
        """\
        if clock[source] > need[source]:
            drop(host, slot)
        elif """,
        "        if ",
    ),
    "delivered on arrival, whatever is missing": (READY, "elif True:"),
    "only the sender's own entry is compared": (READY, "elif clock[source] >= need[source]:"),
    "a delivery is not counted": (AT_ONCE, AT_ONCE.replace("clock[source] += 1", "pass")),
    "what waits is never looked at again": (
        "                _deliver_held(state, here, source, host)\n",
        "                pass\n",
    ),
    "what has to wait is forgotten": (
        "            add_by_entry(state.held, here, slot, entry, need[entry])\n",
        "            pass\n",
    ),
    "more is asked for than is needed": (
        READY,
        "elif (clock[: state.nodes[0]] > need[: state.nodes[0]]).all():",
    ),
    "one entry of the clock is never compared": (READY, "elif clocks.covers(clock[1:], need[1:]):"),
    "a repeated packet that waits is delivered twice": (
        """\
        if state.clock[here, source] > state.need[slot, source]:
            drop(host, slot)
        else:
            state.clock[here, source] += 1
            deliver(host, slot)
""",
        """\
        state.clock[here, source] += 1
        deliver(host, slot)
""",
    ),
    "what waits is looked at only once": (LATER, LATER + "            return\n"),
    "the receiver takes the maximum": (
        AT_ONCE,
        AT_ONCE.replace(
            "clock[source] += 1",
            "for x in range(clock.size):\n                clock[x] = max(clock[x], need[x] + 1)",
        ),
    ),
}
# What each is convicted for.
REASONS = {
    "the stamp counts the message itself": "lost",
    "no test for repeated packets": "twice",
    "delivered on arrival, whatever is missing": "order",
    "only the sender's own entry is compared": "order",
    "a delivery is not counted": "twice",
    "what waits is never looked at again": "lost",
    "what has to wait is forgotten": "lost",
    "more is asked for than is needed": "lost",
    "one entry of the clock is never compared": "twice",
    "a repeated packet that waits is delivered twice": "twice",
    "what waits is looked at only once": "lost",
    "the receiver takes the maximum": "order",
}


def trials(file):
    """The schedules, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        scenario = random_scenario(file, seed)
        yield functools.partial(check_scenario, scenario, compiled=False)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    mutant = protocol(tmp_path, "vector", MUTANTS[mistake])
    assert_convicted(mistake, trials(mutant), REASONS[mistake])


def test_the_original_passes_the_same_schedules():
    assert conviction(trials("vector")) is None
