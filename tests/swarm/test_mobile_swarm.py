"""Ten thousand adversarial runs of ``mobile``, with leases and with restarts besides."""

import pytest

from precedes.audit import audit
from tests.mobile_durable_world import make, restarting
from tests.mobile_options import leased
from tests.mobile_world import run
from tests.test_mobile import history_of

pytestmark = pytest.mark.swarm
STEP = 250


@pytest.mark.parametrize("first", range(20_000, 30_000, STEP))
def test_survives_the_adversary(first):
    for seed in range(first, first + STEP):
        world = run(seed)
        report = audit(history_of(world.oracle, world.options.hosts))
        wrong = report.violations + report.duplicates + report.phantom + report.lost
        assert wrong == 0, f"seed {seed}: {report.witnesses}"


@pytest.mark.parametrize("first", range(20_000, 22_000, STEP))
def test_expulsion_breaks_nothing(first):
    for seed in range(first, first + STEP):
        run(seed, options=leased)


@pytest.mark.parametrize("first", range(20_000, 21_000, STEP))
def test_restarts_change_nothing(first, tmp_path):
    for seed in range(first, first + STEP):
        run(seed, options=restarting, world=make(tmp_path))
