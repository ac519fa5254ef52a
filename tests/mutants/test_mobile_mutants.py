"""Every defect of ``mobile`` is found by random adversarial runs.

Of those that come to light once in hundreds of runs the seeds that show them come first; two have
runs of their own kind. ``make swarm`` convicts all of them again, with other seeds.
"""

import functools
from dataclasses import replace

import pytest

from tests.support.convictions import assert_convicted
from tests.support.mobile.mutants import LEASED, MUTANTS, SideChannel, classes
from tests.support.mobile.options import draw, leased
from tests.support.mobile.world import World, run

SEEDS = range(400)
# Seeds that convict, for defects that few seeds show.
SHOWN_BY = {
    "B": (4, 24),
    "D": (82, 120),
    "F": (4, 107),
    "M": (26,),
    "S": (97, 155),
    "T": (166, 471),
    "A1.16": (74, 83),
    "A1.46": (23, 28),
    "A2.40": (23, 83),
    "A4.65": (8, 17),
    "A4.100": (17, 20),
    "a host that knows no lease": (147, 529, 690),
    "a lease is counted from the arrival of an acknowledgement": (74,),
    "an expelled host gets no report": (147, 177, 188),
    "a host expelled before it was in gets no report": (233, 237, 238),
}


class Careless(World):
    """Does not look whether what must be durable is: the symptom itself must show."""

    checks_disk = False
    events_max = 60_000  # a defect need not be looked at for longer


def selective(seed):
    """Runs in which hosts acknowledge out of order and then crash."""
    options = draw(seed)
    settings = replace(options.settings, selective=True, ack_ns=20_000_000, window=150)
    trouble = {"crash_ms": 150, "loss": 0.3, "move_ms": (2000, 4000), "broadcast_ms": 60.0}
    rest = {"hosts": 3, "stations": 2, "churn_ms": 0, "active_ms": 500.0}
    return replace(options, **trouble, **rest, settings=settings)


def joining(seed):
    """Runs in which joins are late, and hosts have long moved on and joined elsewhere."""
    options = draw(seed)
    settings = replace(options.settings, connect_ns=60_000_000)
    trouble = {"churn_ms": 150, "late_ms": 1500.0, "move_ms": (20, 120), "wire_ms": (5, 200)}
    losses = {"duplication": 0.3, "loss": 0.3, "nowhere": 0.0, "crash_ms": 0, "torn": 0.0}
    few = {"hosts": 3, "stations": 4, "broadcast_ms": 400.0, "active_ms": 1500.0}
    return replace(options, **trouble, **losses, **few, settings=settings)


# Runs for defects that those of the usual kind show once in thousands.
OPTIONS = {"S": joining, "T": selective}


def seeds_of(name):
    """The seeds to try, the telling ones first."""
    return (*SHOWN_BY.get(name.split(":")[0], ()), *SEEDS)


def trials(defective, seeds, *, world=Careless, options=draw):
    """Runs of these seeds, each as a function that judges the machines on it."""
    host_class, station_class = defective
    for seed in seeds:
        yield functools.partial(
            run, seed, host_class=host_class, station_class=station_class, world=world,
            options=options,
        )  # fmt: skip


@pytest.mark.parametrize("name", [*MUTANTS, *LEASED])
def test_is_convicted(name):
    options = leased if name in LEASED else OPTIONS.get(name.split(":")[0], draw)
    reason, *edits = (MUTANTS | LEASED)[name]
    assert_convicted(name, trials(classes(*edits), seeds_of(name), options=options), reason)


def test_a_side_channel_is_convicted():
    assert_convicted("O", trials(classes(), SEEDS, world=SideChannel), "I3")


# Another run may show a defect by another of what must hold.
INVARIANTS = [f"I{number}" for number in range(1, 11)]
SYMPTOMS = (*INVARIANTS, "ended", "left", "orphans", "range", "restless")


@pytest.mark.swarm
@pytest.mark.parametrize("name", MUTANTS)
def test_is_convicted_by_other_seeds(name):
    options = OPTIONS.get(name.split(":")[0], draw)
    reason, *edits = MUTANTS[name]
    judged = trials(classes(*edits), range(30_000, 40_000), options=options)
    assert_convicted(name, judged, reason, *SYMPTOMS)
