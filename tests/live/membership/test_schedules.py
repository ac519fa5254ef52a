"""Group membership under an adversary: random and written schedules, mutants, coverage."""

import re

import pytest

from tests.support.membership import founding, mutants
from tests.support.membership.same import check_all
from tests.support.membership.schedules import EXPECTED, SCHEDULES
from tests.support.seeds import blocks

SCHEDULES_OF_A_PROFILE = 300
SCHEDULES_OF_THE_SWARM = 20_000  # of all profiles together
# Each of these has to happen in the schedules of the tests: records lost with their sender, crashes
# in each role and phase, takeovers, partitions, restarts under a name in use, transfers that fail.
ALWAYS = ("crash_member", "crash_coordinator", "excluded", "left", "bad_pair", "restart")
COVERED = {
    "mixed": (
        *("lost_DATA", "lost_CHANGE", "lost_PREPARE", "lost_REJECT", "lost_ACCEPT", "blackout"),
        *("lost_DECIDED", "lost_INSTALLED", "lost_JOIN", "false_suspicion", "phase_split"),
        *("crash_frozen", "reproposed", "complaint", "bodies", "double", "learner", "promoted"),
        *("lost_ACCEPTED", "lost_FETCH", "crash_left", "crash_decided", "last_left"),
    ),
    "joins": (
        *("lost_GET_STATE", "lost_STATE", "crash_learner", "crash_sender", "crash_joiner"),
        *("trap_JOIN", "trap_STATE", "takeover", "replaced", "double", "transfer", "restored"),
        *("gate_waits", "state_discarded", "refused_state", "transfer_failed", "promoted"),
    ),
    "one_way": (
        *("phase_deaf", "phase_mute", "phase_chain", "lost_PROMISE", "crash_learner", "restored"),
        *("last_left", "gate_waits"),
    ),
    "five": (
        *("lost_FETCH", "lost_BODIES", "lost_PROMISE", "crash_decided", "bodies"),
        *("crash_learner", "crash_sender", "restored", "takeover"),
    ),
    "founding": ("founded", "restart", "LOST", "EXCLUDED"),
}


@pytest.mark.parametrize("profile", COVERED)
def test_product_and_reference_decide_the_same(profile):
    covered = check_all(range(1, SCHEDULES_OF_A_PROFILE + 1), [profile])
    expected = COVERED[profile] if profile == "founding" else (*ALWAYS, *COVERED[profile])
    assert [name for name in expected if not covered[name]] == []


@pytest.mark.swarm
@pytest.mark.parametrize("seeds", blocks(SCHEDULES_OF_THE_SWARM // len(COVERED)), ids=str)
def test_many_schedules(seeds):
    check_all(seeds, COVERED)


@pytest.mark.parametrize("where", [*SCHEDULES, *founding.WRITTEN])
def test_written_schedule(where):
    assert mutants.verdict_of(where) == EXPECTED.get(where, "held: ")


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_mutant_is_convicted_for_its_reason(name):
    mutant = mutants.MUTANTS[name]
    assert mutants.verdict_of(mutant.where) == EXPECTED.get(mutant.where, "held: ")
    with mutants.applied(name):
        verdict = mutants.verdict_of(mutant.where)
    assert re.match(mutant.reason, verdict), verdict
