"""``mobile`` in adversarial runs: the invariants on every step and at rest, and the audit after.

``tests/support/mobile/world.py`` draws the trouble, ``oracle.py`` next to it judges; a failing seed
is repeated by ``python -c "from tests.support.mobile.world import run; run(SEED)"``.
"""

import contextlib

import pytest

from precedes.audit import audit
from tests.support.mobile.mutants import MUTANTS, classes
from tests.support.mobile.options import leased
from tests.support.mobile.oracle import Violation, history_of
from tests.support.mobile.world import World, run

SEEDS = range(240)


@pytest.mark.parametrize("first", range(0, len(SEEDS), 40))
def test_survives_the_adversary(first):
    """No violation, stall or orphan; and the audit, which knows the events alone, agrees."""
    deliveries = 0
    for seed in SEEDS[first : first + 40]:
        world = run(seed)
        deliveries += world.oracle.deliveries
        report = audit(history_of(world.oracle, world.options.hosts))
        assert report.violations == report.duplicates == report.phantom == 0, f"seed {seed}"
        assert report.lost == 0, f"seed {seed}: {report.witnesses}"
        assert report.deliveries <= world.oracle.deliveries
    assert deliveries > 1000


def test_expulsion_breaks_nothing():
    """Permanent failures: hosts that fall silent are expelled, and never deliver after it."""
    worlds = [run(seed, options=leased) for seed in range(60)]
    assert sum(world.expelled for world in worlds) > 100
    assert sum(world.oracle.deliveries for world in worlds) > 4000


class _Patient(World):
    """Notes down wrong deliveries instead of stopping at the first."""

    def _at_once(self, host, effect, sends):
        try:
            super()._at_once(host, effect, sends)
        except Violation:
            self.oracle.rows.append((host, "deliver", effect[1].name))


def test_the_audit_finds_what_the_oracle_finds():
    """A defect that duplicates and reorders, judged from the events of the run alone."""
    name = "A1.24: the number of catch-up messages is not known"
    host_class, station_class = classes(*MUTANTS[name][1:])
    convicted = 0
    for seed in range(24):
        world = None

        class Kept(_Patient):
            def __init__(self, *arguments, **named):
                nonlocal world
                super().__init__(*arguments, **named)
                world = self

        with contextlib.suppress(Violation):
            run(seed, host_class=host_class, station_class=station_class, world=Kept)
        report = audit(history_of(world.oracle, world.options.hosts))
        convicted += report.verdict == "violated"
    assert convicted >= 6
