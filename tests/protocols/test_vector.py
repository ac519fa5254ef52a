"""`vector` and `hashed` under any network: never out of order, never twice, nothing from nowhere.

On networks that keep to what a protocol assumes, the conformance suite judges the same of all.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.testing import observe, random_scenario
from tests.protocols.hashed import test_hashed
from tests.support import warm


@pytest.mark.parametrize(
    ("protocol", "parameters"), [("vector", lambda _seed: {}), ("hashed", test_hashed.parameters)]
)
@given(seed=st.integers(0, 2**32))
def test_causal_order_whatever_the_network_does(protocol, parameters, seed):
    warm.up()
    scenario = random_scenario(protocol, seed, hostile=True).replace(parameters=parameters(seed))
    report = observe(scenario).report
    assert report.violations == 0, (scenario, report.witnesses)
    assert report.duplicates == report.phantom == report.cycles == 0, scenario


def test_the_same_schedules_convict_the_negative_control():
    """The twin: without order, some of the schedules are out of order."""
    warm.up()
    reports = [observe(random_scenario("unordered", seed)).report for seed in range(30)]
    assert sum(report.violations > 0 for report in reports) > 10
