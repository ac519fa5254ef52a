"""Every network model does what its name says, measured in traces of fixed seeds.

And packets: queues of their senders, packets that are long, and room for those in flight.
"""

import gzip
import math

import numpy as np
import pytest

from precedes.errors import UserError
from precedes.model import EventKind
from precedes.sim import Scenario, simulate
from precedes.sim.engine.rows import KIND, NODE, PACKET, SEQUENCE, SOURCE, TIME_NS
from precedes.sim.run import Run
from precedes.testing import Collector
from tests.support import edited, traces
from tests.support.places import BATCHES

pytestmark = pytest.mark.usefixtures("engine")

# Packets from a send queue arrive at odd nanoseconds, after timers of the same time.
ODD_MS = 1.5e-6

LONG = {"nodes": 3, "messages": 10_000, "rate": 1000.0, "seed": 5}
SHORT = {"nodes": 4, "messages": 200, "rate": 100.0, "seed": 5}

# Law -> mean, standard deviation and bounds of the delay in ms.
LAWS = {
    "constant:30": (30, 0, 30, 30),
    "constant:0": (0.001, 0, 0.001, 0.001),  # the shortest delay there is
    "uniform:10:50": (30, 40 / math.sqrt(12), 10, 50),
    "normal:100:20": (100, 20, 0.001, 220),
    "exponential:40": (40, 40, 0.001, 1000),
    "loguniform:1:100": (
        99 / math.log(100),
        math.sqrt(9999 / (2 * math.log(100)) - (99 / math.log(100)) ** 2),
        1,
        100,
    ),
    "spiky:20:400": (0.95 * 20 + 0.05 * 400, 380 * math.sqrt(0.05 * 0.95), 20, 400),
    "lognormal:40:0.5": (
        40 * math.exp(0.125),
        40 * math.sqrt((math.exp(0.25) - 1) * math.exp(0.25)),
        1,
        1000,
    ),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws(law):
    """20,000 delays: a mean within 4 and a deviation within 8 standard errors."""
    mean, deviation, low, high = LAWS[law]
    delays = traces.delays_ms(traces.run(delay=law, **LONG))
    assert len(delays) == 20_000
    error = deviation / math.sqrt(len(delays))
    assert delays.mean() == pytest.approx(mean, abs=4 * error + 1e-6)
    assert delays.std() == pytest.approx(deviation, abs=8 * error + 1e-6)
    assert low - 1e-6 <= delays.min()
    assert delays.max() <= high + 1e-6


def test_a_normal_law_is_cut_off_at_the_shortest_delay():
    delays = traces.delays_ms(traces.run(delay="normal:5:20", **LONG))
    at_the_end = np.mean(delays == 0.001)
    below_zero = 0.5 * math.erfc(5 / 20 / math.sqrt(2))
    assert at_the_end == pytest.approx(below_zero, abs=0.02)
    assert delays.min() == 0.001


# What a delay is drawn for -> the same of a (source, target, number of the message), and how many.
DRAWN_FOR = {
    "use": (lambda source, target, number: (source, target, number), 600),
    "link": (lambda source, target, number: (source, target), 12),
    "message": (lambda source, target, number: (source, number), 200),
    "node": (lambda source, target, number: source, 4),
}


@pytest.mark.parametrize("per", DRAWN_FOR)
def test_what_a_delay_is_drawn_for(per):
    key, count = DRAWN_FOR[per]
    seen = traces.run(delay="uniform:10:50", per=per, **SHORT)
    drawn = {}
    for source, target, number, _, ns in traces.travels(seen):
        drawn.setdefault(key(source, target, number), set()).add(ns)
    assert len(drawn) == count
    assert all(len(delays) == 1 for delays in drawn.values())
    assert len(set.union(*drawn.values())) == count, "any two differ"
    if per in ("link", "node"):
        summary = seen.result.scenario["drawn"]["link_ms"]
        assert summary["min"] == pytest.approx(min(min(d) for d in drawn.values()) / 1e6)
        assert summary["max"] == pytest.approx(max(max(d) for d in drawn.values()) / 1e6)


def test_a_message_takes_as_long_on_every_hop():
    """Over trees: what a node receives has taken its own delay once for each hop of at most 3."""
    seen = traces.run(
        protocol="vcube", nodes=8, messages=20, rate=0.05, per="message", delay="uniform:10:50"
    )
    hops = {}
    for source, _, number, _, ns in traces.travels(seen):
        hops.setdefault((source, number), set()).add(ns)
    for taken in hops.values():
        assert [ns / min(taken) for ns in sorted(taken)] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("per", ["message", "node"])
def test_a_matrix_has_delays_of_links_alone(per, tmp_path):
    path = tmp_path / "matrix"
    path.write_text("0 1\n1 0\n")
    with pytest.raises(UserError, match=f"leave out per = '{per}'"):
        simulate(Scenario("unordered", nodes=2, messages=1, delay=f"matrix:{path}", per=per))


@pytest.mark.parametrize("loss", [0.01, 0.3])
def test_loss(loss):
    result = traces.run(loss=loss, **LONG).result
    expected = 20_000 * loss
    assert result.packets == 20_000, "lost packets were sent all the same"
    assert result.extra["packets_lost"] == pytest.approx(expected, abs=4 * math.sqrt(expected))
    assert result.deliveries == 20_000 - result.extra["packets_lost"]
    assert result.lost == result.extra["packets_lost"]


@pytest.mark.parametrize("duplication", [0.01, 0.3])
def test_duplication(duplication):
    result = traces.run(duplication=duplication, **LONG).result
    expected = 20_000 * duplication
    assert result.packets == 20_000, "the network repeats, not the sender"
    assert result.duplicates == pytest.approx(expected, abs=4 * math.sqrt(expected))
    assert result.deliveries == 20_000 + result.duplicates
    assert result.lost == 0


def test_copies_are_lost_one_by_one():
    result = traces.run(duplication=0.5, loss=0.2, **LONG).result
    copies = result.deliveries + result.extra["packets_lost"]
    assert copies == pytest.approx(30_000, abs=4 * math.sqrt(20_000 * 0.25))
    assert result.extra["packets_lost"] == pytest.approx(0.2 * copies, rel=0.05)
    assert result.lost == pytest.approx(20_000 * (0.5 * 0.2 + 0.5 * 0.04), rel=0.1)


def test_without_oracle_losses_among_duplicates_are_unknown():
    """A repeated delivery looks like the missing one: no number is better than a wrong one."""
    given = {"loss": 0.1, "oracle": False, **LONG}
    assert traces.run(duplication=0.3, **given).result.lost is None
    result = traces.run(**given).result
    assert result.lost == result.extra["packets_lost"] > 0


def overtaken(seen):
    """Deliveries of a source's message after a later one of it, by link."""
    latest = {}
    count = 0
    for source, target, sequence, _, _ in traces.travels(seen):
        count += sequence < latest.get((source, target), 0)
        latest[source, target] = max(sequence, latest.get((source, target), 0))
    return count


def test_links_that_keep_the_order():
    """No packet overtakes another of its link, at the price of its delay; else many do."""
    wild = traces.run(delay="uniform:10:500", **SHORT)
    fifo = traces.run(delay="uniform:10:500", fifo=True, **SHORT)
    assert overtaken(wild) > 50
    assert overtaken(fifo) == 0
    assert traces.delays_ms(fifo).mean() > traces.delays_ms(wild).mean()
    arrivals = fifo.of(EventKind.DELIVER)
    by_link = [tuple(row[[SOURCE, NODE, TIME_NS]]) for row in arrivals]
    assert len(set(by_link)) == len(by_link), "two packets of a link at the same time"


def test_links_that_keep_the_order_repeat_and_lose_too():
    seen = traces.run(delay="exponential:50", fifo=True, duplication=0.3, loss=0.1, **SHORT)
    assert overtaken(seen) == 0
    assert seen.result.duplicates > 0
    assert seen.result.lost > 0


def test_receivers_take_their_time():
    quick = traces.run(delay="constant:30", **SHORT)
    slow = traces.run(delay="constant:30", processing_ms=12.5, **SHORT)
    assert set(traces.delays_ms(quick)) == {30.0}
    assert set(traces.delays_ms(slow)) == {42.5}


def test_a_send_queue_spaces_packets():
    """One broadcast: its packets leave one after the other, each after its transmission."""
    one = {"nodes": 5, "messages": 1, "delay": "constant:30"}
    seen = traces.run(transmission_ms=2.0, **one)
    delays_ms = sorted(traces.delays_ms(seen).tolist())
    assert delays_ms == pytest.approx([32.0, 34.0, 36.0, 38.0], abs=ODD_MS)


def test_a_send_queue_of_limited_bandwidth():
    """20 bytes of header, 50 of payload and 8 of the protocol: 78 bytes at 1 byte a us."""
    one = {"nodes": 5, "messages": 1, "delay": "constant:30"}
    seen = traces.run(bandwidth_bytes_per_s=1e6, **one)
    delays_us = np.sort(traces.delays_ms(seen)) * 1000
    assert delays_us.tolist() == pytest.approx([30_000 + 78 * i for i in (1, 2, 3, 4)])
    both = traces.run(bandwidth_bytes_per_s=1e6, transmission_ms=1.0, **one)
    delays_us = np.sort(traces.delays_ms(both)) * 1000
    assert delays_us.tolist() == pytest.approx([30_000 + 1078 * i for i in (1, 2, 3, 4)])


def test_a_send_queue_never_sends_two_at_once():
    """Under load packets wait for those of earlier broadcasts of the same node."""
    seen = traces.run(delay="constant:1", transmission_ms=1.0, nodes=4, messages=100, rate=500.0)
    assert traces.delays_ms(seen).max() > 5
    left = {}
    for source, _, _, born, ns in traces.travels(seen):
        left.setdefault(source, []).append(born + ns)
    for times in left.values():
        assert np.diff(np.sort(times)).min() >= 1_000_000


def test_an_idle_send_queue_does_not_save_up():
    seen = traces.run(delay="constant:1", transmission_ms=1.0, nodes=2, messages=100, rate=1.0)
    assert np.median(traces.delays_ms(seen)) == pytest.approx(2.0, abs=ODD_MS)


def test_sizes():
    result = simulate(Scenario(protocol="unordered", packet_bytes=7, payload_bytes=100, **SHORT))
    assert result.packets == result.messages_sent == 600
    assert result.bytes_sent == 600 * (7 + 100 + 8)


TOGETHER = {"nodes": 3, "messages": 40, "rate": 2000.0, "delay": "uniform:1:9", "seed": 3}


def batches(**fields):
    parameters = {"collect_us": 10_000}
    return traces.run(
        BATCHES, tier="interpreted", packets=True, parameters=parameters, **TOGETHER, **fields
    )


def test_packets_of_many_messages():
    whole = batches()
    extra = whole.result.extra
    assert extra["started"] == 3
    assert extra["sent"] == whole.result.broadcasts == 40
    assert extra["received"] == extra["announced"] == whole.result.deliveries == 80
    assert extra["acknowledged"] == 80, "each message came back by its name"
    assert extra["items_max"] > 5
    assert whole.result.messages_sent == 80
    sent = whole.of(EventKind.SEND)
    assert len(sent) == 80
    received = whole.of(EventKind.RECEIVE)
    assert len(received) == 80
    for row in received[:20]:
        same = sent[sent[:, PACKET] == row[PACKET]]
        assert any((other[[SOURCE, SEQUENCE]] == row[[SOURCE, SEQUENCE]]).all() for other in same)
        assert (same[:, TIME_NS] < row[TIME_NS]).all()


@pytest.mark.parametrize("mtu", [70, 150, 250, 400, 100_000])
def test_packets_are_cut_at_the_mtu(mtu):
    """Items are of 8 or 58 bytes after a header of 20; what does not fit begins another packet."""
    whole, cut = batches(), batches(mtu_bytes=mtu)
    extra = cut.result.extra
    assert extra["received"] == extra["announced"] == extra["acknowledged"] == 80
    assert cut.result.messages_sent == 80
    sent = cut.of(EventKind.SEND)
    _, messages = np.unique(sent[:, PACKET], return_counts=True)
    assert messages.max() * 58 + 20 <= max(mtu, 78)
    if mtu == 70:
        assert extra["items_max"] == 1, "an item larger than the MTU travels alone"
    if mtu == 100_000:
        assert (cut.rows == whole.rows).all()
    else:
        headers = cut.result.packets - whole.result.packets
        assert headers > 0
        assert cut.result.bytes_sent == whole.result.bytes_sent + 20 * headers


# Round trips in ms; the zero is a measurement that is missing.
TABLE = "0 100 40\n80 0 0\n40 20 0\n"


def matrix(tmp_path, text, *, law="matrix", nodes=3, compressed=False, **fields):
    path = tmp_path / "round-trips"
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    seen = traces.run(delay=f"{law}:{path}", nodes=nodes, messages=60, **fields)
    links = {(source, target): ns / 1e6 for source, target, _, _, ns in traces.travels(seen)}
    return links, seen.result.scenario["drawn"]["latency"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("text", [TABLE, TABLE.replace(" ", ","), TABLE.replace(" ", "\t")])
def test_a_table_of_round_trips(tmp_path, text, compressed):
    links, drawn = matrix(tmp_path, text, compressed=compressed)
    assert links == {(0, 1): 50, (1, 0): 40, (0, 2): 20, (2, 0): 20, (1, 2): 10, (2, 1): 10}
    assert drawn == {"hosts": [0, 1, 2], "missing_links": 1, "unit_ms": 1.0}


@pytest.mark.parametrize(("law", "unit_ms"), [("matrix", 1.0), ("matrix_s", 1000.0)])
def test_the_unit_of_a_table_is_said(tmp_path, law, unit_ms):
    """Also of one with times as between machines of one room: nothing is guessed."""
    links, drawn = matrix(tmp_path, "0 0.1 0.04\n0.08 0 0.02\n0.04 0.02 0\n", law=law)
    assert links[0, 1] == pytest.approx(0.05 * unit_ms)
    assert drawn["unit_ms"] == unit_ms


def test_a_link_missing_both_ways_is_as_the_median(tmp_path):
    links, drawn = matrix(tmp_path, "0 0 40\n0 0 60\n40 60 0\n")
    assert links[0, 1] == links[1, 0] == 25
    assert drawn["missing_links"] == 2


def test_hosts_are_drawn_from_a_larger_table(tmp_path):
    text = "\n".join(" ".join(str(10 * abs(i - j)) for j in range(30)) for i in range(30))
    links, drawn = matrix(tmp_path, text, nodes=4, seed=2)
    hosts = drawn["hosts"]
    assert len(set(hosts)) == 4
    assert links[0, 3] == 5 * (hosts[3] - hosts[0])
    others = matrix(tmp_path, text, nodes=4, seed=3)[1]["hosts"]
    assert others != hosts


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("0 1\n1 0\n", "has 2 hosts, fewer than the 3 nodes"),
        ("0 1 2\n1 0 2\n", "not a square table"),
        ("0 1\n1 0 2\n2 2 0\n", "not a table of numbers|not a square table"),
        ("0 1 x\n1 0 2\n2 2 0\n", "not a table of numbers"),
        ("0 1 -2\n1 0 2\n2 2 0\n", "negative or infinite"),
        ("0 1 inf\n1 0 2\n2 2 0\n", "negative or infinite"),
        ("0 1 nan\n1 0 2\n2 2 0\n", "negative or infinite"),
        ("0 0 0\n0 0 0\n0 0 0\n", "none at all"),
        ("0 1 2e9\n1 0 2\n2 2 0\n", "round trips of more than"),
        ("", "not a square table"),
        ("\x1f\x8b broken", "not a table of numbers"),
    ],
)
def test_tables_that_are_none(tmp_path, text, match):
    path = tmp_path / "round-trips"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=match) as raised:
        traces.run(delay=f"matrix:{path}", nodes=3, messages=10)
    assert str(path) in str(raised.value)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"cannot read the latencies in .*absent: No such file"):
        traces.run(delay=f"matrix:{tmp_path / 'absent'}", nodes=3, messages=10)


@pytest.mark.parametrize(
    ("name", "hosts", "law"),
    [("PlanetLabData_1.gz", 490, "matrix"), ("SeattleData_1.gz", 99, "matrix_s")],
)
def test_measured_networks(name, hosts, law):
    """PlanetLab in milliseconds and Seattle in seconds: wide-area delays either way."""
    path = traces.data("netlatency", name)
    result = traces.run("vector", delay=f"{law}:{path}", nodes=60, messages=300).result
    drawn = result.scenario["drawn"]["latency"]
    assert max(drawn["hosts"]) < hosts
    assert 10 < result.latency.p50 < 400
    assert result.violations.deliveries == 0
    with pytest.raises(UserError, match=f"has {hosts} hosts, fewer than the {hosts + 1} nodes"):
        simulate(Scenario(protocol="vector", nodes=hosts + 1, delay=f"{law}:{path}", messages=1))


def test_packets_are_counted_by_their_size():
    """58 bytes a message and 20 a packet, in steps of 100; and the largest of each node."""
    result = traces.run(**LONG).result
    assert result.packets_by_bytes == [result.packets]
    assert result.nodes_by_largest_packet == [0, 3]
    seen = batches()
    sent = seen.of(EventKind.SEND)
    numbers, messages = np.unique(sent[:, PACKET], return_counts=True)
    largest = {
        node: messages[np.isin(numbers, sent[sent[:, NODE] == node, PACKET])].max()
        for node in np.unique(sent[:, NODE]).tolist()
    }
    counted = seen.result.nodes_by_largest_packet
    assert sum(counted) == seen.result.nodes
    assert [int(n) for n in np.bincount([*largest.values()])][1:] == counted[1:]
    assert sum(seen.result.packets_by_bytes) == seen.result.packets
    assert len(seen.result.packets_by_bytes) > 1


def test_packets_are_counted_by_their_messages():
    result = traces.run(**LONG).result
    assert result.packets_by_messages == [0, result.packets]
    assert sum(n * count for n, count in enumerate(result.packets_by_messages)) == (
        result.messages_sent
    )


def test_timers_come_before_packets_that_were_queued(tmp_path):
    """A timer that ends when a packet sent before it was set arrives: with a queue it is first."""
    timed = edited.protocol(
        tmp_path,
        "unordered",
        (BROADCAST, "host.send_all(...)", "host.send_all(...); host.set_timer(slot, 12_000_000)"),
        ("", "", ON_TIMER),
    )
    both = {"nodes": 2, "workload": "window:0", "tier": "interpreted"}
    plain = traces.run(timed, delay="constant:12", **both)
    queued = traces.run(timed, delay="constant:10", transmission_ms=2.0, **both)
    for seen, first in ((plain, EventKind.DELIVER), (queued, EventKind.COMPLETE)):
        rows = seen.rows[(seen.rows[:, NODE] == 1) & (seen.rows[:, TIME_NS] > 0)]
        assert rows[0, KIND] == first
        assert (rows[:, TIME_NS] // 2 * 2 == 12_000_000).all()


BROADCAST = "broadcast(state, here, slot, host)"
ON_TIMER = """
@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    host.note(6, here)
"""


def test_the_second_channel_has_a_queue_of_its_own(tmp_path):
    """Three broadcasts at once, the second one aside: it waits for nobody, nobody waits for it."""
    aside = edited.protocol(
        tmp_path,
        "unordered",
        (BROADCAST, "host.send_all(...)", SEND_SECOND_ASIDE),
    )
    one = {"nodes": 2, "workload": "burst:1:3", "delay": "constant:30", "tier": "interpreted"}
    seen = traces.run(aside, transmission_ms=2.0, **one)
    assert traces.delays_ms(seen).tolist() == pytest.approx([32.0, 32.0, 34.0], abs=ODD_MS)
    assert traces.delays_ms(traces.run(aside, **one)).tolist() == [30.0, 30.0, 30.0]
    queued = {"transmission_ms": 2.0, **one}
    assert traces.delays_ms(traces.run(**queued)).tolist() == pytest.approx(
        [32.0, 34.0, 36.0], abs=ODD_MS
    )


SEND_SECOND_ASIDE = """
if host.sequence_of(slot) == 2:
    host.open_packet_aside(1 - here)
    host.put(DATA, slot)
else:
    host.send_all(...)
"""


BATCHED = Scenario(
    protocol=BATCHES,
    nodes=2,
    messages=400,
    rate=100_000.0,
    parameters={"collect_us": 3_000},
)


def rows_of(scenario):
    collector = Collector()
    run = Run(scenario, writer=collector, packets=True)
    run.go(tier="interpreted")
    return run, collector.rows()


def test_a_packet_longer_than_a_chunk_of_the_trace(monkeypatch):
    run, expected = rows_of(BATCHED)
    assert run.state.count[:, 6].max() > 64, "longer than what there was room for"
    monkeypatch.setattr("precedes.sim.run.CHUNK_ROWS", 200)
    _, rows = rows_of(BATCHED)
    assert (rows == expected).all()


def test_many_packets_in_flight_are_no_long_packet():
    """A large packet would otherwise outgrow the trace, which then fills forever."""
    run = Run(BATCHED, writer=Collector())
    before = run.world.inbox.size
    for _ in range(6):
        run._grow_packets()
    assert run.world.inbox.size == before
    assert len(run.world.packets.packet) > 10_000
