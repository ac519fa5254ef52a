"""The end of an epoch: what a member reports of it, and names that go on in the next one."""

import struct

import numpy as np
import pytest

from precedes.errors import InternalError
from precedes.live.epoch import Epoch
from precedes.live.member.node import Node, Settings
from precedes.live.member.output import Output
from precedes.model import EventKind
from tests.support.network import Lazy

WINDOW = 4


class Keeping(Lazy):
    """A network whose members keep what may end their epoch."""

    def __init__(self, *arguments, trim_bytes, can_end=True, **settings):
        super().__init__(*arguments, **settings)
        self.payloads = {}
        common = {"number": 1, "members": range(self.members), "bases": [0] * self.members}
        common |= {"trim_bytes": trim_bytes, "can_end": can_end}
        self.epochs = [Epoch(node, **common) for node in self.nodes]

    def broadcast(self, i, more=b""):
        payload = b"%d of %d" % (self.nodes[i].broadcasts, i)
        if self.nodes[i].credit > 0:
            name = i, self.nodes[i].broadcast(payload)
            self.order[i].append(name)
            self.payloads[name] = payload

    def take_output(self, i, output):
        self.epochs[i].keep(output)
        super().take_output(i, output)


@pytest.mark.parametrize("protocol", ["vector", "vcube", "hashed"])
@pytest.mark.parametrize(("seed", "trim_bytes"), [(1, 0), (2, 1 << 10), (3, 1 << 20)])
def test_a_report_has_what_some_member_may_not_have_consumed(protocol, seed, trim_bytes):
    """In the order of deliveries, with payloads; by the definition, from all that was done."""
    network = Keeping(protocol, 4, seed, window=WINDOW, trim_bytes=trim_bytes)
    network.random_run(150)
    for _ in range(3):
        for i in range(4):
            network.broadcast(i)
            network.step(i, share=True)
    for i, epoch in enumerate(network.epochs):
        report = epoch.report()
        order = logged_by(network, i)
        delivered = [max((n for who, n in order if who == j), default=0) for j in range(4)]
        assert report.delivered == tuple(delivered)
        assert report.stable == tuple(network.nodes[i].stable(j) for j in range(4))
        unstable = [name for name in order if name[1] > report.stable[name[0]]]
        assert report.unstable == tuple(unstable), "it lists other messages"
        assert report.bodies == {name: network.payloads[name] for name in unstable}
    assert any(epoch.report().unstable for epoch in network.epochs), "the run is too calm"


def logged_by(network, i):
    """Own broadcasts and deliveries of a member, in the order of its log."""
    data = b"".join(rows for who, rows in network.rows if who == i)
    words = [word for _, word in struct.iter_unpack("<qq", data)]
    return [(word >> 32 & 0xFFFFFF, word & 0xFFFFFFFF) for word in words if word >> 56 in (0, 3)]


def test_stable_messages_are_dropped():
    network = Keeping("vector", 3, 1, window=WINDOW, trim_bytes=0)
    network.random_run(400)
    for _ in range(5):
        network.settle()
    for i in range(3):
        network.broadcast(i)
        network.settle()
    assert all(len(epoch._turns) < 20 for epoch in network.epochs), "nothing is dropped"


@pytest.mark.parametrize("can_end", [False, True])
def test_an_epoch_that_goes_on_after_a_crash_keeps_nothing(can_end):
    """Messages of a crashed member never become stable: they would stay with all after them."""
    network = Keeping("bundled", 4, 1, window=WINDOW, trim_bytes=0, can_end=can_end)
    network.random_run(300, victims=[3])
    survivors = network.epochs[:3]
    assert all(network.delivered[:3])
    kept = [bool(epoch._turns) for epoch in survivors]
    assert any(kept) == can_end


def test_a_protocol_that_skips_a_message_cannot_end_an_epoch():
    node = Node(Settings(member=0, members=2), recording=True)
    epoch = Epoch(node, number=1, members=(0, 1), bases=(0, 0))
    output = Output()
    output.trace = [row(0, EventKind.DELIVER, 1, 2)]
    epoch.keep(output)
    with pytest.raises(InternalError, match="vector delivered messages of one sender out of"):
        epoch.report()


def row(time_ns, kind, source, sequence):
    return np.array([time_ns, int(kind) << 56 | source << 32 | sequence], np.int64).tobytes()


def test_names_go_on_in_the_next_epoch():
    """Members 4 and 2 have positions 0 and 1, and have broadcast 7 and 9 messages before."""
    node = Node(Settings(member=0, members=2), recording=True)
    epoch = Epoch(node, number=3, members=(4, 2), bases=(7, 9))
    assert epoch.name(1, 1) == (2, 10)
    assert epoch.place(2, 10) == (1, 1)
    assert epoch.place(2, 9) is None, "of an epoch before"
    assert epoch.place(3, 1) is None, "of a member that is gone"
    assert epoch.logged(row(5, EventKind.DELIVER, 1, 3)) == row(5, EventKind.DELIVER, 2, 12)
    flush = [((1, 1), b"one"), ((0, 2), b""), ((1, 2), b"three")]
    batch, rows = epoch.flushed(flush, 8)
    named = [tuple(message) for message in batch]
    assert named == [(2, 10, b"one"), (4, 9, b""), (2, 11, b"three")]
    assert (batch.senders, batch.sequences) == ([2, 4, 2], [10, 9, 11])
    assert rows == b"".join(row(8, EventKind.DELIVER, *name[:2]) for name in named)
    many, _ = epoch.flushed([((0, k), b"x") for k in range(1, 40)], 8)
    assert many.sequences == list(range(8, 47))
    assert [many.pop()[:2], many[0][:2]] == [(4, 8), (4, 9)]
