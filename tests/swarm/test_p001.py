"""Rodrigues et al. 2018: the largest published groups; the others are in tests/papers."""

import pytest

from precedes_papers.p001 import CASES, PUBLISHED, experiments
from tests.papers.test_p001 import cell, check_fault_free

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("nodes", experiments.SIZES[6:])
@pytest.mark.parametrize("case", CASES)
def test_fault_free(case, nodes):
    check_fault_free(case, nodes)


@pytest.mark.parametrize("nodes", experiments.SIZES[6:])
def test_messages_after_one_crash(nodes):
    """Without bundling the count does not depend on any order and equals the published one."""
    run = next(
        scenario
        for experiment in experiments.experiments("full")
        if experiment.name == "one-crash"
        for scenario in experiment.scenarios
        if scenario.nodes == nodes and scenario.parameters["payload_max_bytes"] == 1
    )
    assert cell(run)[1] == PUBLISHED["Table 4, FY"]["NO-AGGR"][nodes]
