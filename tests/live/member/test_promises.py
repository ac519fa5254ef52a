"""What members promise each other, without sockets: credit, stability, relays, farewells, patience.

`tests/mutants/test_live_mutants.py` breaks each of these promises and has it found here.
"""

import struct

import pytest

from precedes.live.member import arrays, records
from precedes.live.member.node import FAREWELL, Node, Settings
from precedes.model import NANOSECONDS_PER_MS
from tests.support.liars import body_for
from tests.support.network import Lazy, Network

WINDOW = 3
PATIENCE_MS = 100.0


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_has_more_credit_than_the_window(protocol, seed):
    """What may be sent and what somebody has not consumed are a window together, at most."""

    def check(network, _):
        for i in network.alive:
            node = network.nodes[i]
            unconsumed = node.broadcasts - network.consumed_by_all(i)
            assert node.credit + unconsumed <= WINDOW, "credit for what was not consumed"
            stable = node.stable(i)
            assert stable <= network.consumed_by_all(i), "stable before all have consumed it"

    network = Lazy(protocol, 4, seed, window=WINDOW, on_turn=check)
    network.random_run(150)
    assert network.refused == []
    assert sum(map(len, network.delivered)) > 50


def test_what_is_delivered_and_not_consumed_gives_no_credit():
    network = Lazy("vector", 2, 1, window=WINDOW)
    for _ in range(WINDOW):
        network.broadcast(0)
    network.step(0)
    network.now_ns += 1
    node = network.nodes[1]
    for body in network.links.pop((0, 1)):
        node.receive(0, body)
    network.take_output(1, node.run(network.now_ns, force=True))
    network.step(0)
    assert len(network.delivered[1]) == WINDOW
    assert network.nodes[0].credit == 0, "delivered is not consumed"
    network.step(1)
    network.step(0)
    assert network.nodes[0].credit == WINDOW


def test_a_message_beyond_the_window_is_refused():
    """Memory is bounded whatever a peer does: this one thinks that its window is larger."""
    peer = Node(Settings(member=0, members=2, window=WINDOW + 1))
    node = Node(Settings(member=1, members=2, window=WINDOW))
    for _ in range(WINDOW + 1):
        peer.broadcast(b"")
    node.receive(0, body_for(peer.run(0), 1))
    output = node.run(0)
    assert [records.REASONS[reason] for _, reason in output.malformed] == [
        records.REASONS[-records.MISROUTED]
    ]
    assert sum(map(len, output.deliveries)) == WINDOW, "beyond the window"


def test_what_was_relayed_once_is_not_relayed_again():
    network = Network("vector", 3, 1)
    for _ in range(4):
        network.broadcast(2)
    network.step(2)
    network.step(0)
    network.kill(2)
    node = network.nodes[0]
    for number in range(3):
        node.receive(1, struct.pack("<BHI", records.FROZEN, 2, 0))
        output = node.run(network.now_ns + number)
        relayed = body_for(output, 1).count(b"2:0") + body_for(output, 1).count(b"2:3")
        assert relayed == (2 if number == 0 else 0), "relayed again"
    assert node.counts()["relayed"] == 4


def test_a_relay_that_had_come_before_is_not_delivered_again():
    """Two survivors relay the same."""
    network = Network("vector", 4, 1)
    network.broadcast(3)
    network.step(3)
    held = network.links.pop((3, 2))
    network.step(0)
    network.step(1)
    network.kill(3)
    for i in (0, 1, 2):
        network.nodes[i].evict(3)
    network.settle()
    assert held
    assert [message.sender for message in network.delivered[2]] == [3], "once, from two relays"
    assert network.nodes[2].counts()["duplicates"] == 1


def test_a_farewell_is_heard_at_once_and_is_no_crash():
    network = Network("vector", 3, 1)
    network.broadcast(2)
    network.step(2)
    for i in (0, 1):
        network.nodes[i].receive(2, network.links.pop((2, i))[0])
        network.nodes[i].receive(2, FAREWELL)
        output = network.nodes[i].run(network.now_ns)
        assert output.evicted == [2], "a farewell was not heard"
        assert output.left == [2], "a farewell was taken for a crash"
        assert network.nodes[i].view == [0, 1]
        assert sum(map(len, output.deliveries)) == 1, "what was said before it counts"


def patient():
    """A member that has tested another and awaits the reply."""
    node = Node(
        Settings(member=0, members=2, test_interval_ms=10.0, patience_ms=PATIENCE_MS),
        recording=True,
    )
    node.start(tests_at_ns=0)
    assert body_for(node.run(0), 1), "it tests"
    assert node.next_timer_ns == PATIENCE_MS * NANOSECONDS_PER_MS
    return node, node.next_timer_ns


def test_who_does_not_reply_in_time_is_evicted():
    node, due_ns = patient()
    node.run(due_ns - 1)
    assert node.view == [0, 1]
    node.run(due_ns)
    assert node.view == [0]


def test_after_an_own_pause_replies_are_awaited_anew():
    """Whoever was stopped for a while has heard nobody meanwhile."""
    node, due_ns = patient()
    pause_ns = 10 * due_ns
    node.forgive(pause_ns)
    node.run(pause_ns)
    assert node.view == [0, 1], "an own pause was held against another"
    node.run(pause_ns + due_ns)
    assert node.view == [0]


def test_a_pause_does_not_delay_what_the_protocol_waits_for():
    node, due_ns = patient()
    node._set_timer(due_ns, owner=0, key=1)
    node.forgive(due_ns)
    assert sorted(timer[0] for timer in node._timers) == [due_ns, 2 * due_ns]


def test_what_is_stable_is_at_most_what_was_consumed_here():
    """A peer that says more is refused: this member is one of all."""
    node = Node(Settings(member=1, members=2, window=WINDOW))
    node.receive(0, struct.pack("<BHIB", records.DOWN, 0, 1, 0))
    assert [reason for _, reason in node.run(0).malformed] == [-records.IMPOSSIBLE]
    assert node.stable(0) == 0


def test_kept_messages_go_when_all_have_consumed_them():
    """And not before: a survivor may need them."""
    network = Lazy("vector", 3, 1, window=WINDOW)
    network.broadcast(0)
    for i in (0, 1, 1, 0):
        network.step(i)
    kept = int(network.nodes[1].member.known[0, arrays.FORGOTTEN])
    assert kept == 0, "forgotten although member 2 has not consumed it"
    for i in (2, 2, 0, 1):
        network.step(i)
    assert int(network.nodes[1].member.known[0, arrays.FORGOTTEN]) == 1
