"""TCP-Flooding: hosts, stations and whole runs."""

import pytest

from precedes.contract import machines
from precedes.contract.machines import Environment, Flood, Message
from precedes.errors import UserError
from precedes.protocols import flooding
from precedes.sim import Scenario, simulate
from tests.support.edited import protocol

RUN = Scenario(protocol="flooding", nodes=30, rate=5.0, duration_s=15.0)


def test_a_run_delivers_everything_in_causal_order():
    result = simulate(RUN)
    assert result.complete
    assert result.lost == result.duplicates == result.violations.deliveries == 0
    assert result.deliveries > 28 * result.broadcasts  # but for those before a connection
    assert result.extra["messages_per_delivery"] > 1.0


@pytest.mark.parametrize(
    ("new", "found"),
    [
        ("complete[::-1]", "violations"),
        ("complete * 2", "duplicates"),
        ("complete[1:]", "lost"),
    ],
)
def test_and_would_be_found_if_it_did_not(new, found, tmp_path):
    edit = ("receive", "for one in complete: ...", f"for one in {new}: ...")
    planted = protocol(tmp_path, "flooding", edit)
    result = simulate(RUN.replace(protocol=planted))
    assert (result.violations.deliveries if found == "violations" else getattr(result, found)) > 0


def test_hosts_that_move_are_refused():
    scenario = Scenario(protocol="flooding", nodes=3, messages=1)
    with pytest.raises(UserError, match="hosts that stay"):
        simulate(scenario.replace(parameters={"mobility": "waypoint"}))
    for given in ({"fault_station": 1}, {"leave_every_s": 1.0}):
        with pytest.raises(UserError, match="neither fail nor leave"):
            simulate(scenario.replace(parameters=given))


BUSY = {"bandwidth_bps": 2e5, "joins_s": 0.1, "warm_up_s": 0.0, "drain_s": 1.0}


def test_a_load_that_it_does_not_carry():
    """Section V-A: buffers and delays grow for as long as it lasts."""
    delays = []
    for duration_s in (5.0, 20.0):
        scenario = Scenario(
            protocol="flooding", nodes=30, rate=60.0, duration_s=duration_s, parameters=BUSY
        )
        delays.append(simulate(scenario).extra["delay_ms"])
    assert delays[1] > 2 * delays[0]


def test_what_waits_for_a_host_is_bounded():
    scenario = Scenario(
        protocol="flooding", nodes=30, rate=60.0, duration_s=20.0,
        parameters={**BUSY, "queue_messages": 50},
    )  # fmt: skip
    with pytest.raises(
        UserError, match=r"station \d keeps 50 messages for host \d+.*queue_messages"
    ):
        simulate(scenario)


def test_a_host_refuses_what_its_queue_does_not_hold():
    environment = Environment(lambda: 0.0)
    host = flooding.make_host(0, flooding.Parameters(queue_messages=2), environment, None)
    host.move(0)
    host.join()
    assert [host.broadcast(b"") for _ in range(3)] == [0, 1, None]
    host.receive(flooding.machines.Opened(0, 0, 1, 0))
    assert host.broadcast(b"") is None
    host.receive(flooding.reno.Segment(0, 0, 0, 0, (), 200))
    assert host.broadcast(b"") == 2


def test_messages_wait_until_a_host_is_heard_of():
    environment = Environment(lambda: 0.0)
    station = flooding.make_station(0, (), (), flooding.Parameters(), environment)
    station.receive(flooding.machines.Open(0, 4, 1))
    station.receive_wired(1, Flood(Message((9, 0), b"")))
    station.on_timer((flooding.machines.SPACED, 1, 4))
    environment.effects = []
    assert station.stored_count() == 1
    station.receive(flooding.reno.Segment(0, 4, 0, 0, (), 0))
    sent = [effect[1] for effect in environment.effects if effect[0] == machines.RADIO]
    assert [(one.first, one.size) for one in sent] == [(0, 100)]


def test_sizes_on_the_air():
    parameters = flooding.Parameters()
    segment = flooding.reno.Segment(0, 0, 0, 536, (), 0)
    assert flooding.air_bytes(segment, parameters) == 596
    assert flooding.air_bytes(flooding.machines.Open(0, 0, 1), parameters) == 60


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("payload_bytes", 0),
        ("segment_bytes", 0),
        ("window_segments", 10**10),
        ("queue_messages", 0),
        ("timeout_min_ms", 0.5),
        ("timeout_first_ms", 250_000.0),
        ("timeout_max_ms", 500.0),
        ("connect_first_ms", float("nan")),
        ("connect_max_s", -1.0),
        ("delayed_ack_ms", float("inf")),
        ("spacing_ms", -5.0),
        ("jitter", 1.5),
    ],
)
def test_parameters_that_make_no_connection(name, value):
    with pytest.raises(UserError, match="must be between") as raised:
        flooding.Parameters(**{name: value})
    assert name in str(raised.value)
