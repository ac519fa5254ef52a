"""Ten thousand adversarial runs of ``mobile``, with leases and with restarts besides."""

import pytest

from precedes.audit import audit
from tests.protocols.mobile.test_mobile import history_of
from tests.support.mobile.durable_world import make, restarting
from tests.support.mobile.options import leased
from tests.support.mobile.world import run

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
