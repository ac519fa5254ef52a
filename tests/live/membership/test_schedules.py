"""Group membership under an adversary: random and written schedules, mutants, coverage."""

import re

import pytest

from tests.support.membership import founding, mutants
from tests.support.membership.same import check_all
from tests.support.membership.schedules import SCHEDULES
from tests.support.seeds import blocks

SCHEDULES_OF_A_PROFILE = 300
SCHEDULES_OF_THE_SWARM = 20_000  # of four profiles together
# Each of these has to happen in the schedules of the tests: records lost with their sender, crashes
# in each role and phase, takeovers, partitions, restarts under a name in use.
COVERED = (
    *("lost_DATA", "lost_CHANGE", "lost_PREPARE", "lost_PROMISE", "lost_REJECT", "lost_ACCEPT"),
    *("lost_ACCEPTED", "lost_DECIDED", "lost_FETCH", "lost_BODIES", "lost_INSTALLED"),
    *("crash_member", "crash_left", "crash_coordinator", "crash_frozen", "crash_decided"),
    *("reproposed", "complaint", "excluded", "left", "last_left", "blackout", "bad_pair"),
    *("phase_split", "phase_deaf", "phase_mute", "phase_chain", "false_suspicion", "bodies"),
    *("founded", "restart", "LOST", "EXCLUDED"),
)


def test_product_and_reference_decide_the_same():
    covered = check_all(range(1, SCHEDULES_OF_A_PROFILE + 1))
    assert [name for name in COVERED if not covered[name]] == []


@pytest.mark.swarm
@pytest.mark.parametrize("seeds", blocks(SCHEDULES_OF_THE_SWARM // 4), ids=str)
def test_many_schedules(seeds):
    check_all(seeds)


@pytest.mark.parametrize("where", [*SCHEDULES, *founding.WRITTEN])
def test_written_schedule(where):
    assert mutants.verdict_of(where) == "held: "


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_mutant_is_convicted_for_its_reason(name):
    mutant = mutants.MUTANTS[name]
    assert mutants.verdict_of(mutant.where) == "held: "
    with mutants.applied(name):
        verdict = mutants.verdict_of(mutant.where)
    assert re.match(mutant.reason, verdict), verdict
