"""Bytes of ``mobile``: nothing is missing in them, so that their length is an honest size."""

from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import given
from hypothesis import strategies as st

from precedes.contract import machines
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


def integer(source):
    value = shift = 0
    while (byte := next(source)) > 0x7F:
        value |= (byte & 0x7F) << shift
        shift += 7
    value |= byte << shift
    return ~(value >> 1) if value & 1 else value >> 1


def read(source, kind):
    """A value of this type: a reader of the format as codec.py describes it."""
    if kind is int:
        return integer(source)
    if kind in (Any, bytes):
        return bytes(next(source) for _ in range(integer(source)))
    if get_origin(kind) is not tuple:
        return kind(*(read(source, hint) for hint in get_type_hints(kind).values()))
    parts = get_args(kind)
    if parts[-1] is Ellipsis:
        parts = parts[:1] * integer(source)
    return tuple(read(source, part) for part in parts)


@given(ANY)
def test_every_message_comes_back(message):
    source = iter(codec.encode(message))
    assert read(source, codec.KINDS[next(source)]) == message
    assert list(source) == []


def test_small_numbers_are_short():
    """An acknowledgement of a host takes nine bytes besides headers."""
    assert len(codec.encode(messages.HostAck(3, 17, 2, 1, 0, 60, 0, 0))) == 9
