"""Guarantees between members, without sockets: credit, stability, patience.

`tests/mutants/test_live_mutants.py` breaks each of these promises and has it found here.
"""

import struct

import pytest

from precedes.live.member import arrays, records
from precedes.live.member.node import Node, Settings
from precedes.model import NANOSECONDS_PER_MS
from tests.support.byzantine import body_for
from tests.support.network import Lazy

WINDOW = 3
PATIENCE_MS = 100.0


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_has_more_credit_than_the_window(protocol, seed):
    """Credit and messages that some member has not consumed are a window together, at most."""

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


def suspected(node, now_ns):
    """Suspects of a turn, and of the timers that are due then."""
    return [who for _ in range(2) for who in node.run(now_ns).suspected]


def test_who_does_not_reply_in_time_is_suspected():
    node, due_ns = patient()
    assert suspected(node, due_ns - 1) == []
    assert suspected(node, due_ns) == [1]


def test_after_an_own_pause_replies_are_awaited_again():
    """Whoever was stopped for a while has heard nobody meanwhile."""
    node, due_ns = patient()
    pause_ns = 10 * due_ns
    node.forgive(pause_ns)
    assert suspected(node, pause_ns) == [], "an own pause was held against another"
    assert suspected(node, pause_ns + due_ns) == [1]


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
    """And not before: until then an application may ask for their order."""
    network = Lazy("vector", 3, 1, window=WINDOW)
    network.broadcast(0)
    for i in (0, 1, 1, 0):
        network.step(i)
    kept = int(network.nodes[1].member.known[0, arrays.FORGOTTEN])
    assert kept == 0, "forgotten although member 2 has not consumed it"
    for i in (2, 2, 0, 1):
        network.step(i)
    assert int(network.nodes[1].member.known[0, arrays.FORGOTTEN]) == 1
