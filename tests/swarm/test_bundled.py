"""`bundled` on tens of thousands of crash schedules, and in the largest published groups.

`PRECEDES_SWARM` is how many schedules to run (10,000), `PRECEDES_SWARM_SEED` the first seed.
"""

import os

import pytest

from precedes.papers.p001 import experiments
from precedes.papers.p001.published import CASES, PUBLISHED
from tests.papers.test_p001 import LATENCY_OTHERWISE, MESSAGES_OTHERWISE, cell
from tests.support.crashing import check, schedule

COUNT = int(os.environ.get("PRECEDES_SWARM", "10000"))
FIRST = int(os.environ.get("PRECEDES_SWARM_SEED", "1"))
CHUNK = 500

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_exactly_once_and_one_completion_under_crashes(first):
    broadcasts = 0
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        try:
            broadcasts += check(schedule(seed))
        except AssertionError as error:
            raise AssertionError(f"tests.support.crashing.schedule({seed}): {error}") from error
    assert broadcasts > 0


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT // 10, CHUNK))
def test_with_tests_instead_of_being_told(first):
    """In a synchronous network, where the detector makes no mistakes."""
    for seed in range(first, min(first + CHUNK, FIRST + COUNT // 10)):
        scenario = schedule(seed)
        parameters = {**scenario.parameters, "tests": True, "rounds": 200}
        synchronous = scenario.replace(
            delay="uniform:0.1:1", per="use", transmission_ms=0.01, parameters=parameters
        )
        try:
            check(synchronous)
        except AssertionError as error:
            raise AssertionError(f"tests.support.crashing.schedule({seed}): {error}") from error


@pytest.mark.parametrize("nodes", experiments.SIZES[6:])
@pytest.mark.parametrize("case", CASES)
def test_fault_free(case, nodes):
    printed_ms, printed = (PUBLISHED[f"Table {n}, FF"][case][nodes] for n in (3, 4))
    latency_ms, messages = cell(experiments.scenario(case, nodes))
    assert latency_ms == LATENCY_OTHERWISE.get((case, nodes), printed_ms)
    assert messages == MESSAGES_OTHERWISE.get((case, nodes), printed)


@pytest.mark.parametrize("nodes", experiments.SIZES[6:])
def test_messages_after_one_crash(nodes):
    """Without bundling the count depends on no order: it is as printed."""
    run = next(
        scenario
        for experiment in experiments.experiments("full")
        if experiment.name == "one-crash"
        for scenario in experiment.scenarios
        if scenario.nodes == nodes and scenario.parameters["payload_max_bytes"] == 1
    )
    assert cell(run)[1] == PUBLISHED["Table 4, FY"]["NO-AGGR"][nodes]
