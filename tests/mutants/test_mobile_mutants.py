"""Every defect of ``mobile`` is found by random adversarial runs, as by its own schedule.

Of those that come to light once in hundreds of runs the seeds that show them come first; two have
runs of their own kind. ``make swarm`` convicts all of them again, with other seeds.
"""

import functools
from dataclasses import replace

import pytest

from tests.support.convictions import Raises, assert_convicted
from tests.support.mobile.mutants import LEASED, MUTANTS, SideChannel, classes
from tests.support.mobile.options import draw
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
}
# A station looks for a message that it no longer stores.
GONE = Raises(KeyError, r"^\(\d+, \d+\)$")
# What each is convicted for.
REASONS = {
    "A: an acknowledgement overwrites the position (A1.36)": "I3",
    "B: what was received stays over a change of cell (A1.6-10)": "I3",
    "C: what comes between grant and want is taken from > mark (A4.91)": "I3",
    "C: what comes between grant and want is left out": "I3",
    "D: delivered elsewhere is known of later copies only (A4.96)": "I3",
    "E: the owner is not frozen by a grant (A4.78)": "I1",
    "F: messages are accepted while the record is only wanted (A2.2-8)": "I1",
    "G: the grant does not give the record its new session (A4.78)": "restless",
    "H: a request that still waits deletes others (A4.55-61)": "restless",
    "I: an old request is answered with its own session, and nobody else (A4.72)": "restless",
    "J: transmission before the join is answered (A1.11-13)": "I1",
    "K: nothing is remembered of a deleted record (A2.32)": "I4",
    "L: nothing is remembered of a life that has ended (A2.39-43)": "restless",
    "M: a later life begins with the oldest message stored (A2.32-34)": "I3",
    "M: a later life does not wait for the end of the one before": "I2",
    "N: the position is saved with acknowledgements only (IV-E)": "I3",
    "P: what is beyond the window is never sent": "I7",
    "Q: catch-up messages and stamps share a counter (A2.13-17)": "I3",
    "S: births are learned from joins alone": "restless",
    "T: what was acknowledged out of order is never repeated": "restless",
    "A1.1: sessions and numbers are reset by a join": "I1",
    "A1.3: a join or init is sent once": "restless",
    "A1.14: a leave is sent once": "restless",
    "A1.14: a leave does not wait for own messages": "left",
    "A1.16: datagrams of other cells are heeded": "I3",
    "A1.24: the number of catch-up messages is not known": "I3",
    "A1.46: the end of a life is not told from that of another": "restless",
    "A2.11: a late acknowledgement moves the position back": "range",
    "A2.12: one host's acknowledgement discards for all": "I6",
    "A2.15: one acknowledgement ends the catching up": "I3",
    "A2.22: the position of another session is taken": "I3",
    "A2.29: a repeated request is not answered": "restless",
    "A2.40: a station that only wants the record obeys a leave": "orphans",
    "A4.57: a waiting request deletes owners, too": "restless",
    "A4.65: a station with a record does not pass requests on": "restless",
    "A4.67: a second request is granted while the first is served": "orphans",
    "A4.75: the position in the request is not looked at": "I3",
    "A4.86: everything undelivered is caught up on": "I3",
    "A4.91: the record is let go before its messages are looked up": GONE,
    "A4.100: a request that came meanwhile is forgotten": "restless",
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


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in LEASED])
def test_is_convicted(name):
    options = OPTIONS.get(name.split(":")[0], draw)
    judged = trials(classes(MUTANTS[name]), seeds_of(name), options=options)
    assert_convicted(name, judged, REASONS[name])


def test_a_side_channel_is_convicted():
    assert_convicted("O", trials(classes([]), SEEDS, world=SideChannel), "I3")


# Another run may show a defect by another of what must hold.
INVARIANTS = [f"I{number}" for number in range(1, 11)]
SYMPTOMS = (*INVARIANTS, "ended", "left", "orphans", "range", "restless")


@pytest.mark.swarm
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in LEASED])
def test_is_convicted_by_other_seeds(name):
    options = OPTIONS.get(name.split(":")[0], draw)
    judged = trials(classes(MUTANTS[name]), range(30_000, 40_000), options=options)
    assert_convicted(name, judged, REASONS[name], *SYMPTOMS)
