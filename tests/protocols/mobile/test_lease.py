"""Permanent failures: hosts that fall silent are expelled, and never deliver after it."""

import pytest

from precedes.protocols.mobile import cell, messages
from precedes.protocols.mobile.host import ACK, HEARTBEAT, IN, OUT
from precedes.protocols.mobile.station import LEASE
from tests.support.mobile.mutants import MUTANTS, classes
from tests.support.mobile.options import leased
from tests.support.mobile.oracle import Violation
from tests.support.mobile.stage import MobileHost, MobileStation, Stage
from tests.support.mobile.world import run

MS = 1_000_000
LEASE_NS = 1000 * MS
SEEDS = range(60)

# The defect -> edits, and seeds that show it.
DEFECTS = {
    "a host that knows no lease": ([("_has_lease", "not lease_ns", "True")], (147, 529, 690)),
    "an expelled host is not told": (
        [(where, "self.tell_if_over(...)", "") for where in ("on_from_host", "on_host_ack")],
        (147, 177, 188),
    ),
    "a host expelled before it was in is not told": (
        [("_on_join", "session == memory.left", "False")],
        (233, 237, 238),
    ),
    "a join empties the send buffer": (MUTANTS["A1.2: a join empties the send buffer"][1:], ()),
}


def test_expulsion_breaks_nothing():
    worlds = [run(seed, options=leased) for seed in SEEDS]
    assert sum(world.expelled for world in worlds) > 100
    assert sum(world.oracle.deliveries for world in worlds) > 4000


@pytest.mark.parametrize("name", DEFECTS)
def test_is_convicted(name):
    edits, seeds = DEFECTS[name]
    host_class, station_class = classes(*edits)
    made = {"host_class": host_class, "station_class": station_class}
    with pytest.raises(Violation):
        [run(seed, options=leased, **made) for seed in (*seeds, *range(300))]


def silent_host(made=(MobileHost, MobileStation)):
    """Host 0 hears its station, which hears it no more; host 1 goes on broadcasting."""
    stage = Stage(hosts=2, stations=1, classes=made, lease_ns=LEASE_NS, ack_ns=20 * MS)
    stage.at_station(0, "begin")
    stage.attach(0, 0)
    stage.attach(1, 0)
    stage.fire(0, ACK)
    stage.pass_all(messages.HostAck)
    stage.fire(~0, cell.ACK)
    late = stage.keep(messages.StationAck, to=0)
    stage.lose()
    return stage, late


def expel(stage):
    """Let the lease of host 0 run out at the station, and keep host 1 alive."""
    station = stage.stations[0]
    stage.now_ns += 2 * LEASE_NS
    station.cell.records[1].heard_ns = stage.now_ns
    stage.at_station(0, "on_timer", (LEASE,))
    assert list(station.cell.records) == [1]
    stage.oracle.ended.add((0, 1))
    stage.lose()


def broadcast_to_0(stage):
    stage.broadcast(1)
    stage.pass_on(messages.FromHost)
    stage.pass_on(messages.FromStation, to=0)


def test_a_host_stops_before_it_is_expelled():
    stage, ack = silent_host()
    stage.hand(ack)
    stage.now_ns += int(0.7 * LEASE_NS)
    broadcast_to_0(stage)
    assert len(stage.delivered[0]) == 1
    stage.lose()
    stage.now_ns += int(0.2 * LEASE_NS)  # the station waits for a whole lease
    broadcast_to_0(stage)
    assert len(stage.delivered[0]) == 1
    assert len(stage.hosts[0].early) == 1


def test_a_late_acknowledgement_does_not_lengthen_a_lease():
    """It tells when the host was heard, not that it still is."""
    stage, late = silent_host()
    expel(stage)
    stage.hand(late)
    broadcast_to_0(stage)
    assert stage.delivered[0] == []


def test_a_lease_counted_from_the_arrival_of_an_acknowledgement_is_convicted():
    now = "self.confirmed_ns = self.environment.now_ns"
    made = classes(("_on_ack", "self.confirmed_ns = max(...)", now))
    stage, late = silent_host(made)
    expel(stage)
    stage.hand(late)
    with pytest.raises(Violation, match="after a station has ended its life"):
        broadcast_to_0(stage)


def test_an_expelled_host_learns_it_and_begins_a_new_life():
    stage, _ = silent_host()
    expel(stage)
    stage.call(0, "on_timer", (HEARTBEAT, stage.hosts[0].epoch))
    stage.pass_on(messages.HostAck)
    stage.pass_on(messages.LeaveAck)
    assert stage.hosts[0].mode == OUT
    stage.call(0, "join")
    stage.pass_on(messages.Join)
    stage.pass_on(messages.InitAck)
    assert stage.hosts[0].mode == IN
    broadcast_to_0(stage)
    assert len(stage.delivered[0]) == 1
