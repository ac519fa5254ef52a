"""``mobile`` in adversarial runs: the invariants on every step and at rest, and the audit after.

``tests/support/mobile/world.py`` draws the trouble, ``oracle.py`` beside it judges; a failing seed
is repeated by ``python -c "from tests.support.mobile.world import run; run(SEED)"``.
"""

import contextlib
import itertools

import numpy as np
import pytest

from precedes.audit import audit
from precedes.trace import History
from tests.support.mobile.mutants import MUTANTS, classes
from tests.support.mobile.oracle import Violation
from tests.support.mobile.world import World, run

SEEDS = range(240)
CODES = {"broadcast": 0, "deliver": 3}


def history_of(oracle, hosts):
    """The rows of a run as the audit takes them; lives are membership."""
    logs = [[] for _ in range(hosts)]
    joins, state = [], {}
    for host, kind, name in oracle.rows:
        if kind in CODES:
            logs[host].append((CODES[kind], oracle.index[name]))
        else:
            state[host] = kind
            if kind == "join":
                message = -1 if name is None else oracle.index[name]
                joins.append((host, len(logs[host]), message))
    rows = list(itertools.chain(*logs))
    return History(
        nodes=hosts,
        offsets=np.array([0, *itertools.accumulate(map(len, logs))]),
        kind=np.array([kind for kind, _ in rows], np.int8),
        message=np.array([message for _, message in rows], np.int32),
        message_source=np.array([name[0] for name in oracle.names], np.int32),
        message_sequence=np.array([name[1] + 1 for name in oracle.names], np.int32),
        complete=True,
        join_node=np.array([host for host, _, _ in joins], np.int32),
        join_row=np.array([row for _, row, _ in joins], np.int64),
        join_message=np.array([message for _, _, message in joins], np.int32),
        # A host that has never joined is due nothing either.
        departed=np.array([host for host in range(hosts) if state.get(host) != "join"], np.int32),
    )


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
    host_class, station_class = classes(MUTANTS[name])
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
