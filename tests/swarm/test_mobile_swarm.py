"""Ten thousand adversarial runs of ``mobile``, with leases and with restarts besides."""

import pytest

from precedes.audit import audit
from tests.protocols.mobile.test_mobile import history_of
from tests.support.mobile.durable_world import make, restarting
from tests.support.mobile.options import leased
from tests.support.mobile.world import run
from tests.support.seeds import COUNT, FIRST, blocks

pytestmark = pytest.mark.swarm
AFTER = FIRST + 19_999  # seeds that other tests have not used


@pytest.mark.parametrize("seeds", blocks(first=AFTER), ids=str)
def test_survives_the_adversary(seeds):
    for seed in seeds:
        world = run(seed)
        report = audit(history_of(world.oracle, world.options.hosts))
        wrong = report.violations + report.duplicates + report.phantom + report.lost
        assert wrong == 0, f"seed {seed}: {report.witnesses}"


@pytest.mark.parametrize("seeds", blocks(COUNT // 5, first=AFTER), ids=str)
def test_expulsion_breaks_nothing(seeds):
    for seed in seeds:
        run(seed, options=leased)


@pytest.mark.parametrize("seeds", blocks(COUNT // 10, first=AFTER), ids=str)
def test_restarts_change_nothing(seeds, tmp_path):
    for seed in seeds:
        run(seed, options=restarting, world=make(tmp_path))
