"""Classical mistakes in a vector-clock broadcast, each of which the suite must convict.

Every mutant is `vector` with one edit. It runs interpreted on the same random schedules as the
original, which passes them all; a mutant that passes too would show that the schedules are weak.
"""

import pytest

from precedes.testing import check_scenario, conformance, random_scenario
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


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    mutant = protocol(tmp_path, "vector", MUTANTS[mistake])
    found = conformance(mutant, schedules=len(SEEDS), seed=SEEDS[0], compiled=False, failures_max=1)
    print(f"{mistake}: convicted by schedule {found.schedules} of {len(SEEDS)}")
    assert found.failures, f"{mistake}: nobody noticed"


def test_the_original_passes_the_same_schedules():
    for seed in SEEDS:
        check_scenario(random_scenario("vector", seed), compiled=False)
