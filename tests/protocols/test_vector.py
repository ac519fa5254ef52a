"""`vector` under any network: never out of causal order, never twice, nothing from nowhere."""

from hypothesis import given
from hypothesis import strategies as st

from precedes.testing import observe, random_scenario
from tests.support import warm


@given(st.integers(0, 2**32))
def test_causal_order_whatever_the_network_does(seed):
    warm.up()
    scenario = random_scenario("vector", seed, hostile=True)
    report = observe(scenario).report
    assert report.violations == 0, (scenario, report.witnesses)
    assert report.duplicates == report.phantom == report.cycles == 0, scenario


@given(st.integers(0, 2**32))
def test_everything_arrives_on_a_network_that_loses_nothing(seed):
    warm.up()
    scenario = random_scenario("vector", seed)
    seen = observe(scenario)
    assert seen.result.lost == 0 or any(f.kind == "crash" for f in scenario.faults), scenario
    crashed = sum(fault.kind == "crash" for fault in scenario.faults)
    assert seen.result.pending_at_end == 0 or crashed, scenario


def test_the_same_schedules_convict_the_negative_control():
    """The twin: without order, some of the schedules are out of order."""
    warm.up()
    reports = [observe(random_scenario("unordered", seed)).report for seed in range(30)]
    assert sum(report.violations > 0 for report in reports) > 10
