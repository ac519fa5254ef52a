"""Thousands of random schedules of ``vcube``, for `make swarm`.

`PRECEDES_SWARM` is how many schedules in all (10,000: half of them without faults, a quarter
with up to N - 1 crashes, a quarter of small groups that crash in a hurry), `PRECEDES_SWARM_SEED`
the first seed. A failure prints its seed and its scenario.
"""

import os

import pytest

from precedes.testing import observe
from tests.support import vcube_checks

COUNT = int(os.environ.get("PRECEDES_SWARM", "10000"))
FIRST = int(os.environ.get("PRECEDES_SWARM_SEED", "1"))
CHUNK = 250

pytestmark = [pytest.mark.swarm, pytest.mark.usefixtures("engine")]


def chunks(count):
    """Ranges of seeds, small enough for several processes to share."""
    return [range(s, min(s + CHUNK, FIRST + count)) for s in range(FIRST, FIRST + count, CHUNK)]


def each(seeds, make, check, *, packets):
    """Run and check the scenario of every seed."""
    for seed in seeds:
        scenario = make(seed)
        try:
            check(scenario, observe(scenario, packets=packets))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{scenario}") from error


@pytest.mark.parametrize("seeds", chunks(COUNT // 2), ids=str)
def test_everything_once_in_order_and_over_no_edge_twice(seeds):
    """Groups of up to 128, any size in between; every twentieth is a large one."""

    def make(seed):
        large = {"nodes": (64, 100, 127, 128)[seed // 20 % 4], "workload": "window:300"}
        return vcube_checks.scenario(seed, **(large if seed % 20 == 0 else {}))

    each(seeds, make, vcube_checks.check_everything, packets=True)


@pytest.mark.parametrize("seeds", chunks(COUNT // 4), ids=str)
@pytest.mark.parametrize("make", [vcube_checks.with_crashes, vcube_checks.with_few_left])
def test_survivors_of_crashes_agree(make, seeds):
    each(seeds, make, vcube_checks.check_survivors, packets=False)
