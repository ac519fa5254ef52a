"""`vcube`: its paper's worked examples, its invariants, its own slow original."""

import numpy as np
import pytest

from precedes import contract, registry
from precedes.contract import Capacity, Group
from precedes.errors import UserError
from precedes.model import EventKind
from precedes.protocols import vcube
from precedes.protocols.vcube.recovery import WINDOW
from precedes.sim import Fault, Scenario, simulate
from precedes.sim.engine.rows import NODE, PACKET, SEQUENCE, SOURCE
from precedes.testing import check_same, observe
from tests.support import trees, vcube_checks


class Node:
    """One process of a group of 8, handed packets by hand."""

    def __init__(self, number, **parameters):
        parameters = vcube.Parameters(**{"tolerant": False, **parameters})
        group = Group(nodes=8, hosted=np.array([number], np.int32), seed=1)
        capacity = Capacity(slots=16, reserve_bytes=1 << 16)
        self.state = vcube.allocate(parameters, group, capacity)
        self.host = contract.allocate_host(capacity, seed=1)
        self.slots = {}

    def message(self, source, sequence, **needs):
        """Name a message and its stamp: ``m2=1`` needs one message of node 2."""
        slot = self.slots[source, sequence] = len(self.slots)
        self.host.name[2 * slot : 2 * slot + 2] = source, sequence
        entries = [(int(name[1:]), count) for name, count in needs.items()]
        self.state.stamp[slot, 0] = len(entries)
        self.state.stamp[slot, 2 : 2 + 2 * len(entries)] = np.array(entries).reshape(-1)

    def receive(self, sender, *messages):
        """Hand over a packet; what is sent (target, messages) and delivered then."""
        inbox = np.zeros(32, np.int64)
        inbox[1 : 2 * len(messages) : 2] = [self.slots[name] for name in messages]
        self.host.registers[contract.LENGTH] = 0
        contract.receive(self.state, 0, sender, inbox, len(messages), self.host)
        words = self.host.effects[: self.host.registers[contract.LENGTH]].tolist()
        by_slot = {slot: name for name, slot in self.slots.items()}
        sent, delivered = [], []
        while words:
            if words[0] == contract.SEND:
                end = 3 + 2 * words[2]
                sent.append((words[1], [by_slot[slot] for slot in words[4:end:2]]))
                del words[:end]
            else:
                assert words[0] == contract.DELIVER
                delivered.append(by_slot[words[1]])
                del words[:2]
        return sent, delivered


def test_node_4_holds_for_5_and_not_for_6():
    """Section 4.3: m2 -> m1 -> m0, and node 4 receives m0 first."""
    four = Node(4)
    four.message(2, 1)
    four.message(1, 1, m2=1)
    four.message(0, 1, m2=1, m1=1)
    assert four.receive(0, (0, 1)) == ([(6, [(0, 1)])], [])
    # Not waiting for m1, which node 5 sends to node 4 and not the other way round.
    assert four.receive(6, (2, 1)) == ([(5, [(0, 1), (2, 1)])], [(2, 1)])
    assert four.receive(5, (1, 1)) == ([], [(1, 1), (0, 1)])


def test_without_the_wait_the_messages_travel_alone():
    """The same when node 4 receives m2 before m0, and without aggregation."""
    four = Node(4)
    four.message(2, 1)
    four.message(0, 1, m2=1)
    assert four.receive(6, (2, 1)) == ([(5, [(2, 1)])], [(2, 1)])
    assert four.receive(0, (0, 1)) == ([(5, [(0, 1)]), (6, [(0, 1)])], [(0, 1)])
    alone = Node(4, aggregation=False)
    alone.message(2, 1)
    alone.message(0, 1, m2=1)
    assert alone.receive(0, (0, 1)) == ([(5, [(0, 1)]), (6, [(0, 1)])], [])
    assert alone.receive(6, (2, 1)) == ([(5, [(2, 1)])], [(2, 1), (0, 1)])


def test_three_messages_of_node_2_and_one_of_node_0():
    """Section 4.4: all but the second message of node 2 have arrived; then it does."""
    four = Node(4)
    four.message(2, 1)
    four.message(2, 2)
    four.message(2, 3)
    four.message(0, 1, m2=3)
    assert four.receive(6, (2, 1)) == ([(5, [(2, 1)])], [(2, 1)])
    assert four.receive(6, (2, 3)) == ([], [])
    assert four.receive(0, (0, 1)) == ([(6, [(0, 1)])], [])
    sent, delivered = four.receive(6, (2, 2))
    assert sent == [(5, [(2, 3), (0, 1), (2, 2)])], "one packet, what triggered it last"
    assert delivered == [(2, 2), (2, 3), (0, 1)]


def test_nothing_is_sent_to_node_6_again():
    """Section 4.4, second example: the messages of node 0 wait for node 5 alone."""
    four = Node(4)
    four.message(2, 1)
    four.message(0, 1, m2=1)
    four.message(0, 2)
    assert four.receive(0, (0, 1)) == ([(6, [(0, 1)])], [])
    assert four.receive(0, (0, 2)) == ([(6, [(0, 2)])], [])
    sent, delivered = four.receive(6, (2, 1))
    assert sent == [(5, [(0, 1), (0, 2), (2, 1)])]
    assert delivered == [(2, 1), (0, 1), (0, 2)]


def test_a_packet_is_taken_in_whole_before_anything_is_sent():
    """Two messages of one source in the wrong order leave together."""
    four = Node(4)
    four.message(2, 1)
    four.message(2, 2)
    assert four.receive(6, (2, 2), (2, 1)) == ([(5, [(2, 2), (2, 1)])], [(2, 1), (2, 2)])


@pytest.mark.parametrize("seed", range(24))
def test_behaves_as_its_specification(seed):
    """Event for event, packet for packet, on groups of any size with several messages a source."""
    scenario = vcube_checks.scenario(seed, largest=17)
    if simulate(scenario, tier="interpreted").broadcasts > 100:
        scenario = scenario.replace(messages=100)
    aggregation = {"aggregation": scenario.parameters["aggregation"]}
    spec = scenario.replace(protocol="vcube.spec", parameters=aggregation)
    scenario = scenario.replace(parameters={**aggregation, "tolerant": False})
    seen = check_same(scenario, spec, compiled=False)
    assert seen.result.bytes_sent == simulate(spec, tier="interpreted").bytes_sent


@pytest.mark.usefixtures("engine")
class TestCompiled:
    """Invariants, on compiled runs."""

    @pytest.mark.parametrize("nodes", [2, 3, 16, 37, 64, 100, 128])
    def test_delivery_is_not_later_with_aggregation(self, nodes):
        """Fixed latencies, no queue, no MTU: the same mean to the last digit."""
        for seed in range(3):
            base = Scenario(
                protocol="vcube",
                nodes=nodes,
                workload="window:400:2",
                delay="lognormal:80:1",
                per="link",
                seed=seed,
            )
            on, off = (
                simulate(base.replace(parameters={"aggregation": aggregation}))
                for aggregation in (True, False)
            )
            assert on.latency.delivery_mean == off.latency.delivery_mean
            assert on.latency.p99 == off.latency.p99
            assert on.packets <= off.packets == off.messages_sent == on.messages_sent
            if nodes >= 16:
                assert on.packets < off.packets
                assert on.latency.reception_mean > off.latency.reception_mean

    def test_a_queue_makes_the_difference(self):
        """The twin: with a send queue the two means are not the same."""
        base = Scenario(
            protocol="vcube",
            nodes=64,
            workload="window:400",
            delay="lognormal:80:1",
            per="link",
            transmission_ms=1.0,
        )
        on, off = (
            simulate(base.replace(parameters={"aggregation": aggregation})).latency
            for aggregation in (True, False)
        )
        assert on.delivery_mean != off.delivery_mean

    def test_a_shared_tree(self):
        """Everything passes node 0, the root; messages of others go up to it first."""
        scenario = Scenario(
            protocol="vcube",
            nodes=13,
            workload="window:300:3",
            delay="spiky:10:300",
            parameters={"trees": "shared", "tolerant": False},
        )
        seen = observe(scenario, packets=True)
        vcube_checks.check_order(seen)
        n, result = scenario.nodes, seen.result
        assert result.messages_sent == 3 * n * (n - 1) + 3 * (n - 1)
        sent = seen.of(EventKind.SEND)
        received = seen.of(EventKind.RECEIVE)
        target = {(row[PACKET], row[SOURCE], row[SEQUENCE]): row[NODE] for row in received.tolist()}
        for row in sent.tolist():
            to = target[row[PACKET], row[SOURCE], row[SEQUENCE]]
            up = row[NODE] == row[SOURCE] and to == 0
            assert up or trees.parent(to, 0, n) == row[NODE]

    def test_kept_messages_are_let_go(self):
        """In a long run nobody keeps much more than what is in flight."""
        scenario = Scenario(protocol="vcube", nodes=8, messages=8000, rate=200.0)
        result = simulate(scenario)
        assert result.extra["kept_at_end"] < 8 * 8 * WINDOW
        assert result.pending_at_end == result.lost == 0

    def test_silent_nodes_acknowledge(self):
        """One node alone broadcasts: the others tell it what they have, now and then."""
        scenario = Scenario(protocol="vcube", nodes=8, messages=8000, rate=200.0, skew=10.0)
        result = simulate(scenario)
        window = WINDOW
        assert result.extra["kept_at_end"] < 8 * (2 * window + 100)
        assert 0 < result.packets_by_messages[0] < 2 * 8 * 8000 / window

    def test_a_crash_without_tolerance_loses_messages(self):
        """The twin of the tests with crashes: without the method, survivors differ."""
        lost = 0
        for seed in range(20):
            tolerant = vcube_checks.with_crashes(seed)
            scenario = tolerant.replace(parameters={"tolerant": False})
            seen = observe(scenario)
            assert seen.report.violations == seen.report.duplicates == 0
            lost += seen.result.lost > 0
        assert lost > 5

    def test_what_died_with_its_source_is_discarded(self):
        """Node 1 alone gets the message of node 0, answers it, and both are gone."""
        faults = (
            Fault("crash", node=0, after_sends=1, detection_ms=(300.0, 300.0)),
            Fault("crash", node=1, after_sends=2, detection_ms=(300.0, 300.0)),
        )
        base = Scenario(protocol="vcube", nodes=4, workload="window:100:4", delay="constant:10")
        found = 0
        for seed in range(40):
            scenario = base.replace(seed=seed, faults=faults)
            seen = observe(scenario)
            vcube_checks.check_survivors(scenario, seen)
            noted = len(seen.of(EventKind.DISCARD))
            assert seen.result.extra["discarded"] == noted
            found += noted > 0
        assert found > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trees": "oak"}, "trees must be one of source, shared, not 'oak'"),
        ({"trees": "shared"}, "set tolerant=false with trees=shared"),
        ({"aggregation": "perhaps"}, "aggregation takes true or false"),
        ({"tree": "shared"}, "vcube has no parameter 'tree'"),
    ],
)
def test_bad_parameters(given, message):
    with pytest.raises(UserError, match=message):
        registry.load("vcube").make_parameters(given)


def test_nodes_are_counted_by_what_waited_at_them():
    group = Group(nodes=8, hosted=np.arange(8, dtype=np.int32), seed=1)
    parameters = vcube.Parameters(tolerant=False)
    state = vcube.allocate(parameters, group, Capacity(slots=16, reserve_bytes=1))
    state.process.waiting_max[:] = [0, 50, 51, 100, 101, 200, 250, 251]
    names = ("up_to_50", "51_to_100", "101_to_150", "151_to_200", "201_to_250", "over_250")
    counts = vcube.extra(state)
    assert [counts[f"nodes_waiting_{name}"] for name in names] == [2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("tolerant", [False, True])
def test_one_hosted_process_is_counted_once(tolerant):
    """Its tables have a second row, which is nobody's."""
    counts = vcube.extra(Node(4, tolerant=tolerant).state)
    assert sum(count for name, count in counts.items() if name.startswith("nodes_waiting")) == 1
    assert counts["waiting_at_end"] == counts["kept_at_end"] == 0


def test_a_group_too_large_for_the_memory_is_refused_at_once():
    with pytest.raises(UserError, match=r"needs .* GiB, more than memory_max_bytes"):
        simulate(
            Scenario(
                protocol="vcube",
                nodes=65_536,
                workload="window:1",
                oracle=False,
                memory_max_bytes=8 << 30,
            )
        )
