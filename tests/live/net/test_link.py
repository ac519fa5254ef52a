"""Frames that links keep, acknowledge and refuse; test_frames.py breaks whole connections."""

import pytest

from precedes.errors import PeerError
from precedes.live.net import wire
from precedes.live.net.link import ACK_AFTER, Link
from tests.support.groups import frames_in


def test_a_side_that_forgets_loses_frames():
    """The twin: without what the other side said to have, frames are lost."""
    link, other = Link(1), Link(0)
    for body in (b"a", b"b", b"c"):
        link.put(body, epoch=1)
    link.on_acknowledged(2)
    frames = wire.Frames(frame_max_bytes=1 << 20)
    ((kind, number, received, *_),) = frames_in(frames, b"".join(link.resume(2)))
    with pytest.raises(PeerError, match="out of sequence"):
        other.on_frame(kind, number, received)


def test_kept_frames_go_when_they_have_arrived():
    link = Link(1)
    for _ in range(10):
        link.put(bytes(100), epoch=1)
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
    link.put(b"one", epoch=1)
    assert link.on_frame(wire.DATA, 1, 0)
    assert not link.owes_acknowledgement(), "something was sent since the last look"
    assert link.owes_acknowledgement(), "and nothing since then"
    link.put(b"two", epoch=1)
    assert not link.owes_acknowledgement(), "the second frame has carried it"


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
