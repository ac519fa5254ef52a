"""Bytes of ``mobile``: every message comes back, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.contract import machines
from precedes.errors import PeerError
from precedes.protocols.mobile import codec, messages

NUMBERS = st.integers(-1, 1 << 40)
NAMES = st.tuples(NUMBERS, NUMBERS)
MESSAGES = st.builds(machines.Message, NAMES, st.binary(max_size=20))
BITMAPS = st.integers(0, 1 << 300)
LISTS = {
    ("hosts",): st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=4).map(tuple),
    ("undelivered", "wanted", "since"): st.lists(NAMES, max_size=4).map(tuple),
    ("messages",): st.lists(MESSAGES, max_size=4).map(tuple),
    ("message",): MESSAGES,
    ("data",): st.binary(max_size=20),
    ("skip", "beyond"): BITMAPS,
}


def field(name):
    return next((law for names, law in LISTS.items() if name in names), NUMBERS)


ANY = st.sampled_from(codec.KINDS).flatmap(
    lambda kind: st.builds(kind, **{name: field(name) for name in kind._fields})
)


@given(ANY)
def test_every_message_comes_back(message):
    assert codec.decode(codec.encode(message)) == message


@given(ANY, st.data())
def test_a_part_of_a_message_is_refused(message, data):
    text = codec.encode(message)
    length = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(PeerError):
        codec.decode(text[:length])
    with pytest.raises(PeerError):
        codec.decode(text + b"\0")


@given(st.binary(max_size=60))
def test_noise_never_does_harm(text):
    """It is refused, or it is a message that would be written the same or shorter."""
    try:
        message = codec.decode(text)
    except PeerError:
        return
    assert len(codec.encode(message)) <= len(text)


def test_small_numbers_are_short():
    """An acknowledgement of a host takes nine bytes besides headers."""
    assert len(codec.encode(messages.HostAck(3, 17, 2, 1, 0, 60, 0, 0))) == 9
