"""The radio: who hears whom, what collides, how hosts move; and whole runs on it."""

import io
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precedes.audit import audit
from precedes.contract.machines import Environment, RadioParameters
from precedes.errors import UserError
from precedes.registry import load as load_protocol
from precedes.sim import Fault, Scenario, simulate
from precedes.sim.radio.mobility import Mobility, read_positions, station_places, tree_of
from precedes.trace import load, read_trace
from precedes.trace.formats.tables import from_arrow
from precedes.trace.rows import DELIVER
from tests.support.edited import protocol
from tests.support.radio import Bench
from tests.support.swarm import radio_schedules


def test_an_antenna_sends_one_at_a_time_and_its_queue_is_bounded():
    bench = Bench([0.0], [50.0], queue_max=2)
    for name in "abcd":
        bench.send(0, name, 0)
    assert list(bench.heard()) == ["a", "b", "c"]
    assert bench.access.dropped == 1


def test_stations_stand_on_a_triangular_grid():
    places = station_places(7, 190.0)
    away = np.hypot(*(places[:, np.newaxis] - places).transpose(2, 0, 1))
    assert places[0].tolist() == [0.0, 0.0]
    assert np.allclose(np.sort(away[0])[1:], 190.0)
    assert all(np.isclose(row, 190.0).sum() == 3 for row in away[1:])
    assert len(np.unique(station_places(70, 1.0).round(6), axis=0)) == 70


@pytest.mark.parametrize("kind", ["star", "line", "grid"])
def test_trees_lead_everywhere(kind):
    neighbours, routes = tree_of(station_places(20, 190.0), kind)
    assert sum(map(len, neighbours)) == 2 * 19
    for source in range(20):
        for target in range(20):
            steps, at = 0, source
            while at != target:
                assert routes[at][target] in neighbours[at]
                at = routes[at][target]
                steps += 1
                assert steps < 20


@pytest.mark.parametrize("mobility", ["waypoint", "pingpong", "roam"])
def test_hosts_move_at_their_speed_and_stay_in_reach(mobility):
    parameters = RadioParameters(mobility=mobility, speed_m_per_s=3.0)
    places = station_places(7, parameters.spacing_m)
    walk = Mobility(parameters, places, 12, np.random.default_rng(1))
    farthest_m = 0.0
    for step in range(1, 300):
        before = walk.hosts.copy()
        walk.advance(step * 2.0, 2.0)
        assert np.hypot(*(walk.hosts - before).T).max() <= 6.0 + 1e-9
        away = np.hypot(*(walk.hosts[:, np.newaxis] - places).transpose(2, 0, 1))
        reach_m = away.min(axis=1).max()
        assert mobility == "roam" or reach_m <= parameters.range_m + 1e-9
        farthest_m = max(farthest_m, reach_m)
    assert (farthest_m > parameters.range_m + 1e-6) == (mobility == "roam")
    assert np.hypot(*(walk.hosts - before).T).max() > 1.0


def test_positions_come_from_a_file(tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text("time_s,host,x_m,y_m\n0,0,0,0\n10,0,100,0\n0,1,5,5\n")
    walk = Mobility(
        RadioParameters(mobility=f"file:{path}"),
        station_places(7, 190.0),
        2,
        np.random.default_rng(1),
    )
    walk.advance(2.5, 2.5)
    assert walk.hosts.tolist() == [[25.0, 0.0], [5.0, 5.0]]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("0,0,0,0\n", "no position of host 1"),
        ("0,0,0,0\n0,2,1,1\n", "host 2 is not one of 0..1"),
        ("0,0,0,0\n5,1,1,1\n4,1,1,1\n", ":3: the rows of host 1 go back"),
        ("0,0,x,0\n", ":1: a row is"),
        ("0,0,nan,0\n", ":1: a position is not a finite number"),
    ],
)
def test_wrong_positions_are_reported_with_their_line(tmp_path, text, wrong):
    path = tmp_path / "walk.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=wrong):
        read_positions(path, 2)


def overlap(tmp_path, **parameters):
    """Hosts 1 and 2 stand where stations 1 and 2 both reach, host 0 at station 0."""
    path = tmp_path / "places.csv"
    path.write_text("0,0,0,0\n0,1,144,81\n0,2,141,84\n")
    return simulate(
        Scenario(
            protocol="mobile",
            nodes=3,
            workload="window:2000",
            parameters={"stations": 3, "mobility": f"file:{path}", "joins_s": 1.0, **parameters},
        )
    )


def test_schedule_r_stations_in_step_collide_for_ever(tmp_path):
    """Two stations get a message at the same time; without jitter they repeat it in step."""
    assert overlap(tmp_path).complete
    stuck = overlap(tmp_path, jitter=0.0)
    assert not stuck.complete
    assert stuck.lost > 0


@pytest.mark.parametrize("mac", ["aloha", "csma"])
def test_a_run_keeps_causal_order_as_the_audit_sees_it(tmp_path, mac):
    scenario = Scenario(
        protocol="mobile",
        nodes=25,
        rate=30.0,
        duration_s=12.0,
        loss=0.05,
        seed=3,
        faults=(Fault("pause", node=4, at_s=4.0, for_s=3.0),),
        parameters={"mobility": "waypoint", "speed_m_per_s": 25.0, "mac": mac, "lease_s": 20.0},
    )
    path = tmp_path / "mobile.parquet"
    result = simulate(scenario, trace=path)
    assert result.complete
    assert result.violations.deliveries == result.duplicates == result.lost == 0
    assert result.extra["moves"] > 20
    assert result.extra["faults"] == 1
    (history,) = read_trace(path)
    assert np.unique(history.join_node).size == 25
    report = audit(history)
    assert report.verdict == "held"
    assert report.deliveries == result.deliveries
    for again in (
        load(io.BytesIO(as_lines(path)), "jsonl")[0],
        *from_arrow(as_events(path)),
    ):
        other = audit(again)
        assert (other.verdict, other.deliveries) == ("held", report.deliveries)
    again = simulate(scenario)
    assert again.deliveries == result.deliveries
    assert again.latency == result.latency


def as_events(path):
    """A trace as a table of events: names instead of numbers, rows in no order."""
    table = pq.read_table(path)
    table = table.take(np.random.default_rng(1).permutation(table.num_rows))
    names = [
        None if kind == "join" and seq == 0 else f"{source}:{seq}"
        for kind, source, seq in zip(
            *(table.column(name).to_pylist() for name in ("kind", "source", "seq")), strict=True
        )
    ]
    columns = {
        "node": table.column("node").cast(pa.string()),
        "local_seq": table.column("local_seq"),
        "kind": table.column("kind").cast(pa.string()),
        "message": pa.array(names),
    }
    return pa.table(columns)


def as_lines(path):
    """A trace as JSON lines."""
    table = as_events(path).sort_by("local_seq")
    rows = table.select(["node", "kind", "message"]).to_pylist()
    return "\n".join(json.dumps(row) for row in rows).encode()


FAR = "0,0,0,0\n0,1,50,0\n0,2,100,20\n0,3,150,0\n0,4,60,30\n0,5,20,20\n0,6,9000,9000\n"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "change",
    [
        {"horizon_s": 3.0},
        {"faults": (Fault("crash", node=2, at_s=2.0),)},
        {"faults": (Fault("pause", node=2, at_s=2.0, for_s=60.0),)},
        {"faults": (Fault("pause", node=2, at_s=1.5, for_s=2.5),)},
    ],
)
def test_the_oracle_and_the_audit_call_the_same_things_lost(tmp_path, change, seed):
    """Of runs cut short, hosts that are down, far away, expelled and back: also own messages."""
    places = tmp_path / "places.csv"
    places.write_text(FAR)
    parameters = {"stations": 2, "joins_s": 1.0, "drain_s": 2.0, "lease_s": 1.0}
    parameters["mobility"] = f"file:{places}"
    scenario = Scenario(
        protocol="mobile", nodes=7, rate=30.0, duration_s=5.0, loss=0.2, seed=seed,
        parameters=parameters,
    )  # fmt: skip
    path = tmp_path / "run.parquet"
    result = simulate(scenario.replace(**change), trace=path)
    report = audit(read_trace(path)[0])
    assert report.lost + report.undelivered_at_end == result.lost
    assert report.violations == result.violations.deliveries
    assert report.duplicates == result.duplicates


def test_an_own_message_that_does_not_come_back_is_lost(tmp_path):
    """Planted: the run ends while messages are under way to the hosts that broadcast them."""
    scenario = Scenario(
        protocol="mobile", nodes=4, rate=40.0, duration_s=4.0, horizon_s=2.0, loss=0.3, seed=2,
        parameters={"stations": 1, "joins_s": 0.5},
    )  # fmt: skip
    path = tmp_path / "run.parquet"
    result = simulate(scenario, trace=path)
    (history,) = read_trace(path)
    source = history.message_source[history.message]
    node = np.repeat(np.arange(4), np.diff(history.offsets))
    own = np.count_nonzero((history.kind == DELIVER) & (source == node))
    assert 0 < own < result.broadcasts
    report = audit(history)
    assert report.undelivered_at_end == result.lost >= result.broadcasts - own


def test_a_run_does_not_end_while_a_message_is_on_a_wire():
    """Its source has its acknowledgement, and no station keeps it for a host yet."""
    scenario = Scenario(
        protocol="flooding", nodes=2, messages=50, rate=20.0, seed=2077401753,
        parameters={"stations": 3, "spacing_m": 100.0, "mac": "csma", "tree": "grid",
                    "joins_s": 0.1, "warm_up_s": 0.0},
    )  # fmt: skip
    result = simulate(scenario)
    assert result.complete
    assert (result.lost, result.deliveries) == (0, 50)


def test_a_run_does_not_end_while_a_host_has_yet_to_learn_that_it_was_expelled():
    """It lacks what its station has stamped since, and gets that in its next life."""
    scenario = Scenario(
        protocol="mobile", nodes=12, messages=50, rate=5.0, seed=529573327059,
        parameters={"spacing_m": 150.0, "half_duplex": True, "tree": "grid", "joins_s": 0.1,
                    "warm_up_s": 0.0, "mobility": "waypoint", "speed_m_per_s": 25.0,
                    "step_ms": 100.0, "lease_s": 1.0},
    )  # fmt: skip
    result = simulate(scenario)
    assert result.complete
    assert result.lost == 0


def test_a_host_that_is_expelled_while_it_leaves_sends_its_messages_first(tmp_path):
    """It joins again, and leaves for good once they have been acknowledged."""
    radio_schedules.check("mobile", 467481384723, tmp_path)


def test_a_run_does_not_end_while_an_expelled_host_that_will_come_back_has_messages(tmp_path):
    """It was expelled while it left, and is away: its messages are those of its next life."""
    radio_schedules.check("mobile", 294944926999, tmp_path)


LEAVING = Scenario(
    protocol="mobile", nodes=12, rate=30.0, duration_s=15.0, loss=0.1, seed=2,
    faults=(Fault("pause", node=3, at_s=4.0, for_s=3.0), Fault("crash", node=5, at_s=6.0)),
    parameters={"stations": 3, "mobility": "waypoint", "speed_m_per_s": 25.0, "joins_s": 0.5,
                "leave_every_s": 0.4, "away_s": 1.0, "lease_s": 5.0},
)  # fmt: skip


@pytest.mark.parametrize("away_s", [0.0, 1.0])
def test_hosts_leave_and_come_back(tmp_path, away_s):
    """IV-C: every life is audited, and what a host delivered in one comes in no other."""
    path = tmp_path / "lives.parquet"
    scenario = LEAVING.replace(parameters={**LEAVING.parameters, "away_s": away_s})
    result = simulate(scenario, trace=path)
    report = audit(read_trace(path)[0])
    assert result.complete
    assert report.verdict == "held"
    assert report.deliveries == result.deliveries
    assert result.violations.deliveries == result.duplicates == result.lost == 0
    lives = result.extra["joins"]
    assert (lives > 20) == (away_s > 0)
    assert 6 < result.extra["leaves"] <= lives
    rows = pq.read_table(path)
    kinds = Counter(
        kind
        for kind, source, node, seq in zip(
            *(rows.column(name).to_pylist() for name in ("kind", "source", "node", "seq")),
            strict=True,
        )
        if kind == "leave" or (kind == "join" and seq == 0)
    )
    assert kinds["join"] == lives
    assert kinds["leave"] >= result.extra["leaves"]


def test_a_second_life_that_begins_too_early_is_convicted(tmp_path):
    """Planted: as published, it begins with the oldest message, which the first life delivered."""
    edit = ("_on_join", "... if datagram.previous == NONE else ...", "...")
    planted = protocol(tmp_path, "mobile", edit)
    path = tmp_path / "lives.parquet"
    result = simulate(LEAVING.replace(protocol=planted), trace=path)
    report = audit(read_trace(path)[0])
    assert report.verdict == "violated"
    assert report.duplicates == result.duplicates > 0


def test_hosts_that_roam_lose_their_stations_and_miss_nothing(tmp_path):
    """V-B: a station stores for a host out of reach until it comes back."""
    parameters = {"stations": 3, "joins_s": 0.5, "speed_m_per_s": 40.0}
    base = Scenario(protocol="mobile", nodes=12, rate=20.0, duration_s=30.0, parameters=parameters)
    path = tmp_path / "roam.parquet"
    results = {
        mobility: simulate(
            base.replace(parameters={**parameters, "mobility": mobility}), trace=path
        )
        for mobility in ("waypoint", "roam")
    }
    out = {name: result.extra["out_of_reach"] for name, result in results.items()}
    assert out["roam"] > 20
    assert out["waypoint"] < out["roam"] / 10, "ways lie within the cells"
    assert results["roam"].violations.deliveries == results["roam"].duplicates == 0
    assert audit(read_trace(path)[0]).violations == 0
    stored = {name: result.extra["stored_mean"] for name, result in results.items()}
    assert stored["roam"] > 3 * stored["waypoint"]


@pytest.mark.parametrize(("pending", "expected_ms"), [(1, 1000), (3, 600), (50, 200)])
def test_repetitions_by_what_is_pending(pending, expected_ms):
    """Shorter by a step for each message that is unacknowledged, whatever copies there were."""
    parameters = {"jitter": 0.0, "repeat_by": "pending"}
    settings = load_protocol("mobile").make_parameters(parameters).settings()
    environment = Environment(random=lambda: 0.5)
    assert settings.repeat_ns(environment, copies=9, pending=pending) == expected_ms * 1_000_000
    by_copies = load_protocol("mobile").make_parameters({"jitter": 0.0}).settings()
    assert by_copies.repeat_ns(environment, copies=3, pending=pending) == 600_000_000


def test_a_full_buffer_is_repeated_sooner_by_what_is_pending():
    """A host is down for 3 s: its station repeats what it keeps more often."""
    base = Scenario(
        protocol="mobile", nodes=6, rate=20.0, duration_s=6.0,
        faults=(Fault("pause", node=2, at_s=2.0, for_s=3.0),),
        parameters={"stations": 1, "joins_s": 0.5},
    )  # fmt: skip
    sent = {}
    for repeat_by in ("copies", "pending"):
        result = simulate(base.replace(parameters={**base.parameters, "repeat_by": repeat_by}))
        assert result.complete
        assert result.lost == 0
        sent[repeat_by] = result.extra["sent_FromStation"]
    assert sent["pending"] > 1.2 * sent["copies"]


def test_a_host_that_stays_away_is_expelled_and_the_others_go_on():
    """Permanent failure: without a lease the station stores forever."""
    base = Scenario(
        protocol="mobile",
        nodes=12,
        rate=20.0,
        duration_s=20.0,
        faults=(Fault("crash", node=3, at_s=5.0),),
        parameters={"stations": 1, "joins_s": 0.5, "drain_s": 10.0},
    )
    kept = simulate(base)
    assert not kept.complete
    assert kept.extra["stored_max"] > 200
    freed = simulate(base.replace(parameters={**base.parameters, "lease_s": 4.0}))
    assert freed.complete
    assert freed.lost == freed.violations.deliveries == 0
    assert freed.extra["stored_max"] < kept.extra["stored_max"] / 2


def test_a_horizon_ends_a_run():
    scenario = Scenario(protocol="mobile", nodes=10, rate=20.0, duration_s=10.0, horizon_s=4.0)
    result = simulate(scenario)
    assert 3.9 < result.simulated_s <= 4.0
    assert 40 < result.broadcasts < 120


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"delay": "constant:5"}, "delay means nothing"),
        ({"workload": "replay:x"}, "a replay needs"),
        ({"faults": (Fault("cut", nodes=(0,), others=(1,), for_s=1.0),)}, "a fault is a crash"),
        ({"parameters": {"mac": "token"}}, "mac is one of"),
        ({"parameters": {"mobility": "teleport"}}, "mobility is one of"),
        ({"parameters": {"stations": 0}}, "stations must be at least 1"),
        ({"parameters": {"range_m": -1.0}}, "range_m must be between"),
        ({"parameters": {"fault_station": 9}}, "fault_station 9 is not one of 0..6"),
        ({"parameters": {"window": 0}}, "window must be at least 1"),
        ({"parameters": {"repeat_by": "mood"}}, "repeat_by is one of copies, pending"),
        ({"parameters": {"leave_every_s": -1.0}}, "leave_every_s must be between"),
    ],
)
def test_what_means_nothing_is_refused(change, wrong):
    scenario = Scenario(protocol="mobile", nodes=3, messages=1)
    with pytest.raises(UserError, match=wrong):
        simulate(scenario.replace(**change))


def test_series_add_up_to_what_is_counted():
    scenario = Scenario(protocol="mobile", nodes=12, rate=20.0, duration_s=6.0, seed=4)
    result = simulate(scenario)
    series = result.series
    seconds = len(series["stored"])
    assert {len(row) for row in series.values()} == {seconds}
    assert seconds == int(result.simulated_s)
    # What comes after the last whole second is not in a series.
    assert 0 <= result.packets - sum(series["sent"]) < 60
    assert 0 <= result.bytes_sent - sum(series["bytes"]) < 60 * 148
    assert 0 <= result.deliveries - sum(series["deliveries"]) < 12 * 20
    weighted = sum(map(float.__mul__, series["deliveries"], series["delay_ms"]))
    assert weighted / sum(series["deliveries"]) == pytest.approx(
        result.latency.delivery_mean, rel=0.1
    )


def test_the_time_to_become_a_member_is_counted(tmp_path):
    """Host 1 is out of reach for 3 s, host 2 forever; both wish to join at once."""
    path = tmp_path / "walk.csv"
    path.write_text("0,0,0,0\n0,1,9000,0\n2.9,1,9000,0\n3,1,10,0\n0,2,9000,0\n")
    parameters = {"stations": 1, "mobility": f"file:{path}", "joins_s": 0.0, "drain_s": 80.0}
    scenario = Scenario(protocol="mobile", nodes=3, rate=5.0, duration_s=5.0, parameters=parameters)
    extra = simulate(scenario.replace(horizon_s=10.0)).extra
    assert extra["unconnected"] == 1
    assert extra["connects_late"] == 0
    assert extra["connect_ms_max"] == pytest.approx(10_000, rel=0.02)
    assert 3000 <= 3 * extra["connect_ms_mean"] - extra["connect_ms_max"] < 4100
    late = simulate(scenario.replace(workload="window:76000", duration_s=None)).extra
    assert late["connects_late"] == 1


def test_handoffs_and_their_lists_are_counted():
    scenario = Scenario(
        protocol="mobile", nodes=20, rate=40.0, duration_s=10.0, seed=2,
        parameters={"mobility": "waypoint", "speed_m_per_s": 40.0},
    )  # fmt: skip
    extra = simulate(scenario).extra
    assert 20 < extra["handoffs"] <= extra["moves"]
    assert 0 < extra["discarded_max"] <= min(extra["discarded"], extra["undelivered_max"])
    assert extra["copies"] == extra["sent_FromStation"]
    assert 0 < extra["copies_skipped_by_one"] < extra["copies"]
    still = simulate(scenario.replace(parameters={})).extra
    names = ("handoffs", "discarded", "copies_skipped_by_one", "copies_skipped_by_more")
    assert [still[name] for name in names] == [0, 0, 0, 0]


@pytest.mark.parametrize("mac_retries", [0, 7])
def test_acknowledgements_of_hosts_are_counted_and_retries_change_no_promise(mac_retries):
    """Hosts acknowledge 0.5 s after what they deliver: less than twice a second, but not rarely."""
    parameters = {"mac": "csma", "bandwidth_bps": 1e6, "mac_retries": mac_retries}
    base = Scenario(protocol="mobile", nodes=20, rate=20.0, duration_s=15.0, parameters=parameters)
    result = simulate(base)
    assert 1.2 < result.extra["acks_per_host_per_s"] <= 2.1
    assert result.complete
    assert result.lost == result.duplicates == result.violations.deliveries == 0
    assert (result.extra["antenna_repeats"] > 0) == (mac_retries > 0)
