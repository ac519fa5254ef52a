"""`vcube` keeps its promise to the survivors when crashes are found by tests, not told."""

import pytest

pytest.importorskip("precedes.protocols.vcube")

from precedes.testing import observe
from tests.support import vcube_checks
from tests.support.convictions import Convicted
from tests.support.places import PROTOCOLS
from tests.support.seeds import repeat

# Compiles an engine of its own; in `make test` the schedules of faults of live groups, and the
# survivors of crashes that are told, show the halves of it.
pytestmark = pytest.mark.swarm

PROTOCOL = str(PROTOCOLS / "vcube_with_tests.py")


def scenario(seed, **parameters):
    """A schedule with crashes in a synchronous network: a test and its reply take at most 3 ms."""
    told = vcube_checks.with_crashes(seed)
    return told.replace(
        protocol=PROTOCOL,
        delay="uniform:0.1:1",
        per="use",
        processing_ms=0.0,
        transmission_ms=min(told.transmission_ms, 0.01),
        parameters={**told.parameters, **parameters},
    )


def test_survivors_of_crashes_agree():
    crashed = found = 0
    for seed in range(30):
        chosen = scenario(seed)
        with repeat(f"seed {seed}, {chosen}"):
            seen = observe(chosen)
            crashed += vcube_checks.check_survivors(chosen, seen)
        found += seen.result.extra["suspicions_by_test"]
        assert seen.result.extra["fenced"] == 0
    assert crashed > 50
    assert found >= crashed


def test_without_tests_they_do_not():
    """The twin: after a single round, later crashes are not found."""
    failed = 0
    for seed in range(30):
        chosen = scenario(seed, rounds=1)
        try:
            vcube_checks.check_survivors(chosen, observe(chosen))
        except Convicted as error:
            assert error.reason in ("lost", "waiting", "survivors"), error  # noqa: PT017
            failed += 1
    assert failed > 5


def test_interpreted_gives_the_same():
    chosen = scenario(1)
    ours, theirs = observe(chosen), observe(chosen, tier="interpreted")
    assert (ours.rows == theirs.rows).all()
