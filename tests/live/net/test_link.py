"""Links outlive their connections: nothing lost, nothing twice, whatever breaks when."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.errors import PeerError
from precedes.live.net import wire
from precedes.live.net.link import ACK_AFTER, Link
from tests.support.groups import frames_in


class Pair:
    """Two sides of a link, and the connection between them."""

    def __init__(self, rng):
        self.rng = rng
        self.sides = [Link(1), Link(0)]
        self.wire = [[], []]  # frames on their way from each side
        self.got = [[], []]

    def send(self, side, body):
        self.wire[side].append(self.sides[side].put(body))

    def arrive(self, side, count):
        """Frames come at a side."""
        frames = wire.Frames(frame_max_bytes=1 << 20)
        queue = self.wire[1 - side]
        for data in queue[:count]:
            for kind, number, received, body in frames_in(frames, data):
                if self.sides[side].on_frame(kind, number, received):
                    self.got[side].append(body)
        del queue[:count]
        if self.sides[side].owes_acknowledgement() and self.rng.random() < 0.3:
            self.wire[side].append(self.sides[side].acknowledgement())

    def break_and_resume(self):
        """The connection ends; greetings may be older than what still arrived over it."""
        said = [side.received for side in self.sides]
        if self.rng.random() < 0.5:
            for side in (0, 1):
                self.arrive(side, self.rng.randrange(len(self.wire[1 - side]) + 1))
        self.wire = [self.sides[side].resume(said[1 - side]) for side in (0, 1)]


@given(st.integers(0, 2**32))
def test_nothing_is_lost_or_repeated(seed):
    rng = random.Random(seed)
    pair = Pair(rng)
    sent = [[], []]
    for number in range(60):
        side = rng.randrange(2)
        action = rng.random()
        if action < 0.5:
            sent[side].append(f"{side}:{number}".encode())
            pair.send(side, sent[side][-1])
        elif action < 0.9:
            pair.arrive(side, rng.randrange(len(pair.wire[1 - side]) + 1))
        else:
            pair.break_and_resume()
    pair.break_and_resume()
    for side in (0, 1):
        pair.arrive(side, len(pair.wire[1 - side]))
    assert pair.got == [sent[1], sent[0]]


def test_a_side_that_forgets_loses_frames():
    """The twin: without what the other side said to have, frames are lost."""
    link, other = Link(1), Link(0)
    for body in (b"a", b"b", b"c"):
        link.put(body)
    link.on_acknowledged(2)
    frames = wire.Frames(frame_max_bytes=1 << 20)
    ((kind, number, received, _),) = frames_in(frames, b"".join(link.resume(2)))
    with pytest.raises(PeerError, match="out of sequence"):
        other.on_frame(kind, number, received)


def test_kept_frames_go_when_they_have_arrived():
    link = Link(1)
    for _ in range(10):
        link.put(bytes(100))
    assert link.unacknowledged_bytes == 1000
    link.on_acknowledged(7)
    assert link.unacknowledged_bytes == 300
    assert len(link.resume(7)) == 3


def test_many_frames_are_acknowledged_at_once():
    link = Link(1)
    for number in range(1, ACK_AFTER):
        assert link.on_frame(wire.DATA, number, 0)
        assert not link.is_overdue
    assert link.on_frame(wire.DATA, ACK_AFTER, 0)
    assert link.is_overdue
    link.acknowledgement()
    assert not link.owes_acknowledgement()


def test_what_is_sent_anyway_acknowledges():
    """An acknowledgement goes out by itself only where nothing else goes out."""
    link = Link(1)
    link.put(b"one")
    assert link.on_frame(wire.DATA, 1, 0)
    assert not link.owes_acknowledgement(), "something was sent since the last look"
    assert link.owes_acknowledgement(), "and nothing since then"
    link.put(b"two")
    assert not link.owes_acknowledgement(), "the second frame has told it"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ((wire.DATA, 2, 0), "out of sequence"),
        ((wire.DATA, 1, 1), "never sent"),
        ((9, 0, 0), "kind"),
    ],
)
def test_what_cannot_be_is_refused(frame, reason):
    with pytest.raises(PeerError, match=reason):
        Link(1).on_frame(*frame)
