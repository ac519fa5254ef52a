"""Stations and hosts that restart from their journals, in the adversary's hands."""

import pytest

from precedes.contract import machines
from precedes.errors import PeerError
from precedes.protocols.mobile import messages, restart
from precedes.protocols.mobile.restart import LoggedStation
from tests.support.mobile.durable_world import make, restarting
from tests.support.mobile.oracle import Violation
from tests.support.mobile.world import run

SEEDS = range(24)


def test_restarts_change_nothing(tmp_path):
    """Restarts with torn writes: no violation, and a station comes back as it was."""
    worlds = [run(seed, options=restarting, world=make(tmp_path)) for seed in SEEDS]
    assert sum(world.restarts for world in worlds) > 200
    assert sum(world.oracle.deliveries for world in worlds) > 2000


@pytest.mark.parametrize("what", ["what is on its links", "what it stores", "the last input"])
def test_a_station_that_forgets_is_convicted(tmp_path, monkeypatch, what):
    whole = LoggedStation.restore

    def restore(self, records):
        records = list(records)
        whole(self, records[:-1] if what == "the last input" else records)
        if what == "what is on its links":
            for link in self.links.values():
                link.first += len(link.waiting)
                link.waiting = []
        elif what == "what it stores":
            self.machine.cell.stored, self.machine.cell.stamps = {}, {}
            self.machine.cell.base = self.machine.cell.next_stamp

    monkeypatch.setattr(LoggedStation, "restore", restore)
    with pytest.raises((Violation, PeerError, KeyError)):
        [run(seed, options=restarting, world=make(tmp_path)) for seed in SEEDS]


def station():
    environment = machines.Environment(lambda: 0.5)
    return LoggedStation(0, (1,), (0, 1), messages.Settings(), environment), environment


def test_messages_wait_until_they_are_confirmed():
    logged, environment = station()
    logged.begin()
    logged.hear(messages.Join(0, 7, 1, 0, messages.NONE, 0))
    sent = [effect for effect in environment.effects if effect[0] == restart.FRAME_EFFECT]
    assert sent == [(restart.FRAME_EFFECT, 1, 0, messages.Joined(7, 1))]
    environment.effects = []
    logged.resume(1, 0)
    assert environment.effects == sent
    assert logged.confirmed(1, 1) is not None
    assert logged.confirmed(1, 1) is None
    environment.effects = []
    logged.resume(1, 1)
    assert environment.effects == []


def test_a_frame_that_came_before_is_confirmed_again_and_not_played():
    logged, environment = station()
    flood = machines.Flood(machines.Message((3, 0), b"x"))
    assert logged.frame(1, 0, flood) is not None
    environment.effects = []
    assert logged.frame(1, 0, flood) is None
    assert logged.frame(1, 2, flood) is None  # a gap: the link must be made anew
    assert environment.effects == [(restart.CONFIRM_EFFECT, 1, 1)] * 2
    assert logged.machine.cell.next_stamp == 1


def test_records_of_others_are_refused():
    logged, _ = station()
    with pytest.raises(PeerError):
        logged.restore([b"q123"])
    with pytest.raises(PeerError, match="never sent"):
        logged.confirmed(1, 5)
