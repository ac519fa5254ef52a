"""Random schedules of every protocol; which ones, and how many: tests/support/swarm/turns.py."""

import tempfile
from pathlib import Path

import pytest

from tests.support.seeds import repeat
from tests.support.swarm.counts import DELIVERIES, VIOLATIONS, Counts, Schedule
from tests.support.swarm.plugin import COUNTED, TAKEN, skip_if_late
from tests.support.swarm.turns import ENOUGH, turns

pytestmark = pytest.mark.swarm
FAILURES_MAX = 5  # of a turn: then it ends


def pytest_generate_tests(metafunc):
    """A test for each turn."""
    metafunc.parametrize("turn", turns(metafunc.config.option), ids=str)


def test_schedules(turn, request, record_property):
    skip_if_late(request.config)
    family = turn.family
    if family.compiled:
        request.getfixturevalue("engine")
    record_property(TAKEN, turn.number)
    counts, failures = Counts(), []
    for seed in turn.seeds:
        try:
            with (
                repeat(f"python -m tests.support.swarm {family.name} {seed}"),
                tempfile.TemporaryDirectory() as directory,
            ):
                schedule = family.check(seed, Path(directory))
        except Exception as error:
            failures.append(error)
            schedule = Schedule(has_failed=True)
        counts.add(family.protocol, schedule)
        if len(failures) == FAILURES_MAX:
            break
    record_property(COUNTED, counts.packed())
    if failures:
        raise failures[0] if len(failures) == 1 else ExceptionGroup(str(turn), failures)
    assert counts.total(DELIVERIES) > 0, "nothing was delivered, so nothing was shown"
    if len(turn.seeds) >= ENOUGH and family.is_mixed is not None:
        # The twin of "never": schedules like these do convict what keeps no order.
        assert (counts.total(VIOLATIONS) > 0) == family.is_mixed
