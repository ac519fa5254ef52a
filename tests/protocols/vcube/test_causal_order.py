"""``vcube`` on hundreds of random schedules, judged by the trace: with and without crashes."""

import pytest

from precedes.testing import assert_conforms, observe
from tests.support import vcube_checks
from tests.support.seeds import repeat

pytestmark = pytest.mark.usefixtures("engine")


def test_everything_once_in_order_and_over_no_edge_twice():
    for seed in range(1000, 1200):
        scenario = vcube_checks.scenario(seed)
        with repeat(f"seed {seed}, {scenario}"):
            vcube_checks.check_everything(scenario, observe(scenario, packets=True))


@pytest.mark.parametrize("nodes", [64, 100, 128])
def test_larger_groups(nodes):
    for seed in range(2):
        scenario = vcube_checks.scenario(seed, nodes=nodes, workload="window:300:2")
        vcube_checks.check_everything(scenario, observe(scenario, packets=True))


def test_survivors_of_crashes_agree():
    crashed = discarded = 0
    for seed in range(1000, 1250):
        scenario = vcube_checks.with_crashes(seed)
        with repeat(f"seed {seed}, {scenario}"):
            seen = observe(scenario)
            crashed += vcube_checks.check_survivors(scenario, seen)
        discarded += seen.result.extra["discarded"]
    assert crashed > 1000, "too few crashes to show anything"
    assert discarded > 50, "too few messages died with their sources to show anything"


def test_small_groups_that_crash_in_a_hurry():
    for seed in range(1000, 1200):
        scenario = vcube_checks.with_few_left(seed)
        with repeat(f"seed {seed}, {scenario}"):
            vcube_checks.check_survivors(scenario, observe(scenario))


def test_conforms_compiled():
    assert_conforms("vcube", schedules=12)
