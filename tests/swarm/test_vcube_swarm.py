"""Thousands of random schedules of ``vcube``.

Half of them are without faults, a quarter with up to N - 1 crashes, a quarter of small groups that
crash in a hurry.
"""

import pytest

from precedes.testing import observe
from tests.support import vcube_checks
from tests.support.seeds import COUNT, blocks, repeat

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


def each(seeds, make, check, *, packets):
    """Run and check the scenario of every seed."""
    for seed in seeds:
        scenario = make(seed)
        with repeat(f"seed {seed}, {scenario}"):
            check(scenario, observe(scenario, packets=packets))


@pytest.mark.parametrize("seeds", blocks(COUNT // 2), ids=str)
def test_everything_once_in_order_and_over_no_edge_twice(seeds):
    """Groups of up to 128, any size in between; every twentieth is a large one."""

    def make(seed):
        large = {"nodes": (64, 100, 127, 128)[seed // 20 % 4], "workload": "window:300"}
        return vcube_checks.scenario(seed, **(large if seed % 20 == 0 else {}))

    each(seeds, make, vcube_checks.check_everything, packets=True)


@pytest.mark.parametrize("seeds", blocks(COUNT // 4), ids=str)
@pytest.mark.parametrize("make", [vcube_checks.with_crashes, vcube_checks.with_few_left])
def test_survivors_of_crashes_agree(make, seeds):
    each(seeds, make, vcube_checks.check_survivors, packets=False)
