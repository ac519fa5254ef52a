"""`bundled` on tens of thousands of crash schedules, and in the largest published groups."""

import pytest

from precedes.papers.p001 import experiments
from precedes.papers.p001.published import CASES, PUBLISHED
from tests.papers.test_p001 import cell, check_fault_free
from tests.support.crashing import check, schedule
from tests.support.seeds import COUNT, blocks, repeat

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("seeds", blocks(), ids=str)
def test_exactly_once_and_one_completion_under_crashes(seeds):
    broadcasts = 0
    for seed in seeds:
        with repeat(f"tests.support.crashing.schedule({seed})"):
            broadcasts += check(schedule(seed))
    assert broadcasts > 0


@pytest.mark.parametrize("seeds", blocks(COUNT // 10), ids=str)
def test_with_tests_instead_of_being_told(seeds):
    """In a synchronous network, where the detector makes no mistakes."""
    for seed in seeds:
        scenario = schedule(seed)
        parameters = {**scenario.parameters, "tests": True, "rounds": 200}
        synchronous = scenario.replace(
            delay="uniform:0.1:1", per="use", transmission_ms=0.01, parameters=parameters
        )
        with repeat(f"tests.support.crashing.schedule({seed}), synchronous"):
            check(synchronous)


@pytest.mark.parametrize("nodes", experiments.SIZES[6:])
@pytest.mark.parametrize("case", CASES)
def test_fault_free(case, nodes):
    check_fault_free(case, nodes)


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
