"""The node without sockets: order, no loss, crashes, credit, and the simulator's very trace."""

import heapq
import struct

import numpy as np
import pytest

from precedes.errors import InternalError
from precedes.live.member import records
from precedes.live.member.node import Node, Settings
from precedes.parts import tester
from precedes.sim import Scenario
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE, TIME_NS
from precedes.testing import observe
from tests.support.byzantine import body_for
from tests.support.network import Network, out_of_order

CAUSAL = ("vector", "vcube")
PROTOCOLS = (*CAUSAL, "bundled", "probabilistic")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", [1, 2])
def test_everything_arrives_once_and_in_order(protocol, seed):
    network = Network(protocol, 5, seed)
    network.random_run(300)
    assert network.refused == []
    assert network.lacking() == []
    for delivered in network.delivered:
        names = [(message.sender, message.sequence) for message in delivered]
        assert len(names) == len(set(names)) > 100
    if protocol in CAUSAL:
        assert out_of_order(network.order) == []


def test_the_oracle_sees_what_unordered_gets_wrong():
    """The twin: without order the same schedules do break it."""
    wrong = 0
    for seed in range(1, 4):
        network = Network("unordered", 5, seed)
        network.random_run(300)
        wrong += len(out_of_order(network.order))
    assert wrong > 0


@pytest.mark.parametrize(
    "seed", [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.swarm) for seed in range(4, 34))]
)
def test_a_lost_member_takes_nothing_with_it(seed):
    """For a protocol that goes on in the same epoch; for others tests/live/test_views.py."""
    network = Network("bundled", 8, seed)
    victims = network.rng.sample(range(8), 1 + seed % 3)
    network.random_run(500, victims=victims)
    print(f"seed {seed}, lost {victims}")
    for _ in range(10):  # bundles wait for a while
        network.settle()
    assert network.refused == []
    assert network.lacking() == []


def test_credit_is_the_window_less_what_somebody_has_not_taken():
    network = Network("vector", 3, 1, window=4)
    node = network.nodes[0]
    for _ in range(4):
        network.broadcast(0)
    assert node.credit == 0
    with pytest.raises(InternalError, match="without credit"):
        node.broadcast(b"")
    network.step(0)
    network.step(1)
    network.step(1)
    network.step(0)
    assert node.credit == 0, "member 2 has taken nothing"
    network.step(2)
    network.step(2)
    network.step(0)
    assert node.credit == 4


@pytest.mark.parametrize("many", [False, True])
def test_windows_are_bounded_in_bytes_too(many):
    """There is room for 512 messages of any size, and for one beyond the bytes."""
    network = Network("vector", 3, 1, window_bytes=1000)
    node = network.nodes[0]
    if many:
        node.broadcast_many([bytes(400)] * 3)
    else:
        for left in (512, 511, 510):
            assert node.credit == left
            node.broadcast(bytes(400))
    assert node.credit == 0, "1200 bytes are in flight"
    for i in (0, 1, 1, 0):
        network.step(i)
    assert node.credit == 0, "member 2 has consumed nothing"
    for i in (2, 2, 0):
        network.step(i)
    assert node.credit == 512
    node.broadcast(bytes(999))
    assert node.credit == 511, "one byte is left"


def test_credit_survives_a_crash():
    network = Network("bundled", 4, 1, window=4)
    for _ in range(4):
        network.broadcast(0)
    network.step(0)
    network.kill(3)
    for _ in range(10):  # bundles wait for a while
        network.settle()
    assert network.nodes[0].credit == 0
    for i in (0, 1, 2):
        network.crash(i, 3)
    for _ in range(10):
        network.settle()
    assert network.nodes[0].credit == 4


def test_what_waits_says_what_it_lacks():
    network = Network("vector", 3, 1)
    network.broadcast(0)
    network.step(0)
    network.step(1)
    network.broadcast(1)
    network.step(1)
    held, network.links[0, 2] = network.links[0, 2], []
    network.step(2)
    ((source, sequence, _, needs),) = network.nodes[2].waiting()
    assert (source, sequence, needs) == (1, 1, [(0, 1)])
    network.links[0, 2] = held
    network.step(2)
    assert network.nodes[2].waiting() == []


def test_pending_is_bounded_by_the_windows():
    network = Network("vector", 5, 3, window=8)
    network.random_run(400)
    assert max(node.counts()["pending_max"] for node in network.nodes) <= 4 * 8


def replay(scenario, schedule, delays_ns):
    """The broadcasts of a simulation through live nodes, over links with the same delays."""
    n = scenario.nodes
    nodes = [
        Node(Settings(member=i, members=n, protocol=scenario.protocol), recording=True)
        for i in range(n)
    ]
    queue, serial = [], 0
    for time_ns, i in schedule:
        serial += 1
        heapq.heappush(queue, (time_ns, serial, i, None, b""))
    rows = []
    while queue:
        now_ns, _, i, sender, body = heapq.heappop(queue)
        node = nodes[i]
        if sender is None:
            node.broadcast(b"payload")
        else:
            node.receive(sender, body)
        output = node.run(now_ns)
        words = np.frombuffer(b"".join(output.trace), np.int64).reshape(-1, 2)
        rows += [
            (int(t), i, int(w >> 56), int(w >> 32 & 0xFFFFFF), int(w & 0xFFFFFFFF))
            for t, w in words
        ]
        for batch in output.deliveries:
            node.consume_batch(batch)
        for common, own, _ in output.frames:
            for step in range(1, n):
                j = (i + step) % n
                body = common + own.get(j, b"")
                if body:
                    serial += 1
                    heapq.heappush(queue, (now_ns + delays_ns[i, j], serial, j, i, body))
    return rows


@pytest.mark.parametrize("protocol", ["vector", "vcube", "probabilistic"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_schedule_gives_the_simulators_trace(protocol, seed, tmp_path):
    """Event for event: time, node, kind and message."""
    n = 6
    rng = np.random.default_rng(seed)
    delays_ms = rng.uniform(1, 60, (n, n)).round(3)
    path = tmp_path / "delays.txt"
    np.savetxt(path, delays_ms, delimiter="\t")
    scenario = Scenario(
        protocol=protocol,
        nodes=n,
        messages=60,
        rate=200.0,
        delay=f"matrix:{path}",
        seed=seed,
    )
    simulated = observe(scenario, tier="interpreted").rows
    broadcasts = simulated[simulated[:, KIND] == 0]
    schedule = [(int(row[TIME_NS]), int(row[NODE])) for row in broadcasts]
    delays_ns = {
        # A table of delays holds round trips.
        (i, j): round(float(delays_ms[i, j]) / 2 * 1e6)
        for i in range(n)
        for j in range(n)
    }
    columns = [TIME_NS, NODE, KIND, SOURCE, SEQUENCE]
    expected = [tuple(map(int, row[columns])) for row in simulated]
    assert any(row[2] == 2 for row in expected), "nothing ever waited: the schedule is too easy"
    found = replay(scenario, schedule, delays_ns)
    assert found == expected


def test_a_test_for_crashes_is_answered_once_a_round():
    node = Node(Settings(member=0, members=3))
    first_tag = int(node.member.detector.first_tag)

    def answers_to(*rounds):
        for number in rounds:
            test = struct.pack("<BHBQ", records.PACKET, 1, first_tag + tester.TEST, number)
            node.receive(2, test)
        sent = body_for(node.run(0), 2)
        return [number for number in rounds if struct.pack("<Q", number) in sent], len(sent)

    one, size_bytes = answers_to(1)
    assert one == [1]
    assert answers_to(*[1] * 1000) == ([], 0)
    assert answers_to(2, 2, 2, 1, 2) == ([2] * 4, size_bytes)
