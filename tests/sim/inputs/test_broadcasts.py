"""Times and senders of broadcasts: every workload's counts, gaps and shares, from fixed seeds."""

import gzip
import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest

from precedes.errors import UserError
from precedes.model import EventKind
from precedes.registry import linked
from precedes.sim import Scenario, simulate
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE, TIME_NS
from tests.support import traces

pytestmark = pytest.mark.usefixtures("engine")


def broadcasts(**fields):
    """Times in seconds and nodes of the broadcasts of a run."""
    rows = traces.run(**fields).of(EventKind.BROADCAST)
    return rows[:, TIME_NS] / 1e9, rows[:, NODE]


def test_poisson():
    times, nodes = broadcasts(nodes=5, messages=20_000, rate=200.0)
    gaps = np.diff(times)
    assert len(times) == 20_000
    assert gaps.mean() == pytest.approx(1 / 200, rel=0.03)
    assert gaps.std() == pytest.approx(1 / 200, rel=0.03)
    # Memoryless: the share of gaps longer than x falls as exp(-x).
    for multiple in (0.5, 1, 2):
        assert np.mean(gaps > multiple / 200) == pytest.approx(math.exp(-multiple), abs=0.015)
    shares = np.bincount(nodes) / len(nodes)
    assert shares == pytest.approx(np.full(5, 0.2), abs=0.015)


def test_poisson_for_a_duration():
    times, _ = broadcasts(nodes=5, duration_s=50.0, rate=200.0)
    assert len(times) == pytest.approx(10_000, abs=4 * math.sqrt(10_000))
    assert times.max() <= 50
    halves = np.bincount((times > 25).astype(int))
    assert halves[0] == pytest.approx(halves[1], abs=4 * math.sqrt(10_000))


def test_whichever_ends_first():
    assert len(broadcasts(nodes=5, duration_s=50.0, messages=100, rate=200.0)[0]) == 100
    times, _ = broadcasts(nodes=5, duration_s=0.5, messages=10_000, rate=200.0)
    assert 50 < len(times) < 150
    assert times.max() <= 0.5


def test_periodic():
    """Gaps of a mean of P ms and a deviation of sqrt(P) ms at every node, phases spread out."""
    times, nodes = broadcasts(nodes=20, workload="periodic", duration_s=200.0, rate=50.0)
    period_ms = 20 / 50 * 1000
    gaps = np.concatenate([np.diff(times[nodes == node]) * 1000 for node in range(20)])
    assert gaps.mean() == pytest.approx(period_ms, rel=0.005)
    assert gaps.std() == pytest.approx(math.sqrt(period_ms), rel=0.05)
    assert len(times) == pytest.approx(50 * 200, rel=0.01)
    first = np.array([times[nodes == node][0] for node in range(20)]) * 1000
    assert first.max() <= period_ms + 5 * math.sqrt(period_ms)
    assert first.std() == pytest.approx(period_ms / math.sqrt(12), rel=0.4)


def test_window():
    times, nodes = broadcasts(nodes=300, workload="window:400")
    assert sorted(nodes.tolist()) == list(range(300)), "everybody once"
    assert times.max() <= 0.4
    assert times.mean() == pytest.approx(0.2, abs=4 * 0.4 / math.sqrt(12 * 300))


def test_exponential_starts():
    times, nodes = broadcasts(nodes=400, workload="exponential:250")
    assert sorted(nodes.tolist()) == list(range(400)), "everybody once"
    assert times.mean() == pytest.approx(0.25, abs=4 * 0.25 / math.sqrt(400))
    assert times.std() == pytest.approx(0.25, rel=0.25)


def test_triangular_starts():
    """Shares of a triangle over the window: 1/8 of it in each outer quarter, 3/8 in each inner."""
    times, nodes = broadcasts(nodes=800, workload="triangle:400")
    assert sorted(nodes.tolist()) == list(range(800)), "everybody once"
    shares = np.histogram(times, bins=4, range=(0, 0.4))[0] / 800
    assert shares == pytest.approx([1 / 8, 3 / 8, 3 / 8, 1 / 8], abs=4 * 0.5 / math.sqrt(800))
    assert shares.sum() == 1
    assert times.std() == pytest.approx(0.4 / math.sqrt(24), rel=0.06)


@pytest.mark.parametrize("law", ["window:100", "exponential:100", "triangle:100"])
def test_every_node_several_times(law):
    _, nodes = broadcasts(nodes=7, workload=f"{law}:3")
    assert sorted(nodes.tolist()) == sorted(3 * list(range(7)))


def test_burst():
    times, nodes = broadcasts(nodes=5, workload="burst:2:3")
    assert nodes.tolist() == [0, 1, 0, 1, 0, 1]
    assert not times.any()


@pytest.mark.parametrize("workload", ["burst:6:1", "burst:0:1", "burst:1.5:1", "burst:1:0"])
def test_a_burst_that_makes_no_sense_is_refused(workload):
    with pytest.raises(UserError, match="burst takes a number of nodes up to 5"):
        simulate(Scenario(protocol="unordered", nodes=5, workload=workload))


def test_bell():
    times, _ = broadcasts(nodes=5, workload="bell:10:200", duration_s=100.0)
    counts, _ = np.histogram(times, bins=10, range=(0, 100))
    middle = 10 + 190 * np.exp(-((np.arange(10) / 10 + 0.05 - 0.5) ** 2) / (2 * 0.16**2))
    assert counts == pytest.approx(10 * middle, rel=0.25)
    assert counts[4:6].min() > 5 * counts[[0, 9]].max()


def test_bells_follow_one_another():
    times, _ = broadcasts(nodes=5, workload="bell:10:200:3", duration_s=150.0)
    counts, _ = np.histogram(times, bins=15, range=(0, 150))
    share = (np.arange(500) + 0.5) / 500
    one = 10 + 190 * np.exp(-((share - 0.5) ** 2) / (2 * 0.16**2))
    expected = 10 * one.reshape(5, 100).mean(axis=1)
    assert counts == pytest.approx(np.tile(expected, 3), rel=0.25)
    once, _ = broadcasts(nodes=5, workload="bell:10:200", duration_s=20.0)
    same, _ = broadcasts(nodes=5, workload="bell:10:200:1", duration_s=20.0)
    assert np.array_equal(once, same)


def test_random_targets():
    seen = traces.run(nodes=5, workload="random:10:200", duration_s=200.0, seed=4)
    targets = seen.result.scenario["drawn"]["targets_per_s"]
    assert len(targets) == 11, "one every 20 s, from the beginning to the end"
    assert all(10 <= target <= 200 for target in targets)
    times = seen.of(EventKind.BROADCAST)[:, TIME_NS] / 1e9
    counts, _ = np.histogram(times, bins=10, range=(0, 200))
    between = [(a + b) / 2 * 20 for a, b in itertools.pairwise(targets)]
    assert counts == pytest.approx(between, rel=0.15)


@pytest.mark.parametrize("workload", ["bell:10:200", "random:10:200", "shift:60:0.75:4"])
def test_near_periodic_senders_follow_the_same_rates(workload):
    """Gaps between the broadcasts of a node vary little in time that runs with the rate."""
    fields = {"nodes": 40, "rate": 100.0, "duration_s": 120.0, "seed": 4}
    times, nodes = broadcasts(workload=f"periodic_{workload}", **fields)
    others, senders = broadcasts(workload=workload, **fields)

    def counts(times, nodes):
        """In periods of 20 s: of nodes whose number is a multiple of 4, and of the others."""
        edges = np.linspace(0, 120, 7)
        return np.array([np.histogram(times[nodes % 4 == 0], edges)[0],
                         np.histogram(times[nodes % 4 > 0], edges)[0]])  # fmt: skip

    assert counts(times, nodes) == pytest.approx(counts(others, senders), rel=0.25, abs=30)

    def variation(times, nodes):
        """Over nodes that send equally often, of the count: 1 for a Poisson process."""
        of_each = np.bincount(nodes[times < 60], minlength=40)
        return of_each.var() / of_each.mean()

    assert variation(times, nodes) < 0.05
    assert variation(others, senders) > 0.5, "the twin, a Poisson process, varies"


@pytest.mark.parametrize("workload", ["poisson", "periodic"])
def test_skewed_senders(workload):
    """Zipf by node number: with exponent 1, node 0 sends twice as often as node 1."""
    _, nodes = broadcasts(nodes=4, messages=8000, rate=100.0, skew=1.0, workload=workload)
    weights = 1 / np.arange(1, 5)
    shares = np.bincount(nodes) / len(nodes)
    assert shares == pytest.approx(weights / weights.sum(), abs=0.02)
    _, nodes = broadcasts(nodes=4, messages=8000, rate=100.0, workload=workload)
    assert np.bincount(nodes) / 8000 == pytest.approx(np.full(4, 0.25), abs=0.02)


LOADS = [
    {"workload": "poisson", "messages": 300},
    {"workload": "periodic", "messages": 300},
    {"workload": "window:500"},
    {"workload": "bell:10:200", "duration_s": 3.0},
    {"workload": "random:10:200", "duration_s": 3.0},
]


@pytest.mark.parametrize("load", LOADS, ids=lambda load: load["workload"])
def test_every_protocol_meets_the_same_broadcasts(load):
    """Also on another network: protocols are compared on one and the same load."""
    scenario = {"nodes": 6, "seed": 11, "rate": 100.0, **load}
    networks = [{}, {"delay": "constant:5"}, {"loss": 0.1, "duplication": 0.1, "fifo": True}]
    first, *others = [
        traces.run(name, **scenario, **network).of(EventKind.BROADCAST)
        for name in linked()
        for network in networks
    ]
    assert len(first) > 5
    assert all(np.array_equal(first, rows) for rows in others)
    another = traces.run("vector", **{**scenario, "seed": 12}).of(EventKind.BROADCAST)
    assert not np.array_equal(first, another)


def test_no_messages_at_all():
    result = simulate(Scenario(protocol="vector", nodes=3, messages=0))
    assert result.broadcasts == result.deliveries == result.packets == 0
    assert result.latency.p50 is None
    assert result.complete


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({}, "no length: give `messages`"),
        ({"workload": "bell:1:2", "messages": 5}, "bell needs a duration"),
        ({"workload": "window:100", "duration_s": 1.0}, "ends by itself: leave out duration"),
        ({"workload": "poisson:3", "messages": 5}, "poisson takes no parameters"),
        ({"workload": "bell:5:2", "duration_s": 1.0}, "LOW:HIGH"),
        ({"workload": "random:0:0", "duration_s": 1.0}, "LOW:HIGH"),
        ({"workload": "bell:1:2:0", "duration_s": 1.0}, "TIMES is a whole number"),
        ({"workload": "bell:1:2:1.5", "duration_s": 1.0}, "TIMES is a whole number"),
        ({"workload": "bell:1:2:1001", "duration_s": 1.0}, "TIMES is a whole number"),
        ({"workload": "bell:5", "duration_s": 1.0}, "'bell:5' is not understood"),
        ({"workload": "window:x"}, "'window:x' is not understood"),
        ({"workload": "exponential:9:0"}, "a whole number of times, from 1 on"),
        ({"workload": "window:9:1.5"}, "a whole number of times, from 1 on"),
        ({"workload": "tides", "messages": 5}, "'tides' is not understood: use poisson"),
        ({"messages": 10**10}, "too many for one run"),
        ({"duration_s": 1e6, "rate": 1e6}, "too many for one run"),
    ],
)
def test_workloads_that_make_no_sense(fields, match):
    with pytest.raises(UserError, match=match):
        simulate(Scenario(protocol="unordered", nodes=3, **fields))


# A conversation: 0 speaks, 1 and 2 answer at once, 0 answers both, 2 goes on by itself.
GRAPH = [
    {"agent": 0, "parents": []},
    {"agent": 1, "parents": [0]},
    {"agent": 2, "parents": [0]},
    {"agent": 0, "parents": [1, 2]},
    {"agent": 2, "parents": [2]},
    {"agent": 1, "parents": [3, 4]},
]


def graph_file(tmp_path, events=GRAPH, *, compressed=True):
    text = json.dumps({"kind": "concurrent", "txns": events}).encode()
    path = tmp_path / "graph.json"
    path.write_bytes(gzip.compress(text) if compressed else text)
    return path


def replayed(seen, events):
    """Event -> time of its broadcast; asserts that each came after its parents at its node."""
    known = [set() for _ in range(seen.result.nodes)]
    counts = Counter()
    event_of = {}  # an agent's events are its broadcasts, in the order of the file
    for number, event in enumerate(events):
        counts[event["agent"]] += 1
        event_of[event["agent"], counts[event["agent"]]] = number
    times = {}
    chosen = np.isin(seen.rows[:, KIND], (EventKind.BROADCAST, EventKind.DELIVER))
    for row in seen.rows[chosen].tolist():
        event = event_of[row[SOURCE], row[SEQUENCE]]
        if row[KIND] == EventKind.BROADCAST:
            missing = set(events[event]["parents"]) - known[row[NODE]]
            assert not missing, f"event {event} was broadcast before its node knew {missing}"
            times[event] = row[TIME_NS]
        known[row[NODE]].add(event)
    return times


@pytest.mark.parametrize("protocol", linked())
@pytest.mark.parametrize("compressed", [True, False])
def test_replay(tmp_path, protocol, compressed):
    path = graph_file(tmp_path, compressed=compressed)
    seen = traces.run(protocol, nodes=4, workload=f"replay:{path}", gap_ms=3.0, delay="constant:10")
    times = replayed(seen, GRAPH)
    assert seen.result.broadcasts == 6
    assert seen.result.lost == 0
    assert seen.result.scenario["drawn"]["replay"] == {"events": 6, "agents": 3}
    # An answer is 10 ms on the way to it, after 2 ms in a bundle, and 3 ms in the making.
    way_ms = 12 if protocol == "bundled" else 10
    ways, makings = (0, 1, 1, 2, 1, 3), (0, 1, 1, 2, 2, 3)
    expected = [way_ms * way + 3 * making for way, making in zip(ways, makings, strict=True)]
    assert [round(times[event] / 1e6) for event in range(6)] == expected


def test_replay_in_part(tmp_path):
    path = graph_file(tmp_path)
    seen = traces.run("vector", nodes=3, workload=f"replay:{path}", messages=4)
    assert seen.result.broadcasts == 4
    replayed(seen, GRAPH)


def random_graph(seed, *, agents, events):
    rng = np.random.default_rng(seed)
    graph = []
    for number in range(events):
        parents = rng.choice(number, min(number, int(rng.integers(1, 4))), replace=False)
        graph.append({"agent": int(rng.integers(agents)), "parents": sorted(parents.tolist())})
    return graph


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "network",
    [{}, {"delay": "exponential:200"}, {"duplication": 0.4}],
    ids=["normal", "exponential", "repeated"],
)
def test_replay_of_random_graphs(tmp_path, seed, network):
    """Also when packets are repeated: an event that is delivered twice is known once."""
    graph = random_graph(seed, agents=5, events=120)
    path = graph_file(tmp_path, graph)
    for protocol, oracle in (("vector", True), ("unordered", True), ("unordered", False)):
        load = {"nodes": 6, "workload": f"replay:{path}", "seed": seed, "oracle": oracle}
        seen = traces.run(protocol, **load, **network)
        assert len(replayed(seen, graph)) == 120
        assert seen.report.lost == 0


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (b"{", "is not JSON"),
        (b"\x1f\x8b{", "is not JSON"),
        (b"[]", "has no list 'txns'"),
        (b'{"txns": 3}', "has no list 'txns'"),
        (b'{"txns": [{"agent": 0}]}', r"txns\[0\] needs an agent and parents"),
        (b'{"txns": [3]}', r"txns\[0\] needs an agent and parents"),
        (b'{"txns": [{"agent": 0, "parents": [0]}]}', r"txns\[0\] needs"),
        (b'{"txns": [{"agent": -1, "parents": []}]}', r"txns\[0\] needs"),
        (b'{"txns": [{"agent": "a", "parents": []}]}', r"txns\[0\] needs"),
        (b'{"txns": [{"agent": 9, "parents": []}]}', "has 10 agents: give at least as many nodes"),
    ],
)
def test_graphs_that_are_none(tmp_path, text, match):
    path = tmp_path / "graph.json"
    path.write_bytes(text)
    with pytest.raises(UserError, match=match):
        traces.run("vector", nodes=3, workload=f"replay:{path}")


def test_a_graph_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"cannot read the graph in .*absent: No such file"):
        traces.run("vector", nodes=3, workload=f"replay:{tmp_path / 'absent'}")


@pytest.mark.parametrize("name", ["clownschool", "friendsforever"])
def test_editing_traces_over_planetlab(name):
    """Real conversations of people, over measured delays: the audit holds, event by event."""
    path = traces.data("editing-traces", f"{name}.json.gz")
    latencies = traces.data("netlatency", "PlanetLabData_1.gz")
    events = json.loads(gzip.decompress(path.read_bytes()))["txns"]
    agents = 1 + max(event["agent"] for event in events)
    seen = traces.run(
        "vector", nodes=agents, workload=f"replay:{path}", delay=f"matrix:{latencies}"
    )
    assert seen.report.verdict == "held"
    assert seen.result.broadcasts == len(events)
    assert seen.report.deliveries == len(events) * (agents - 1)
    assert seen.result.violations.deliveries == 0
    assert len(replayed(seen, events)) == len(events)
