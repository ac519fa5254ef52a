"""Bytes in any order, against a set of them."""

from hypothesis import given
from hypothesis import strategies as st

from precedes.protocols.flooding.reassembly import Reassembly


@given(
    each=st.integers(1, 7),
    window=st.integers(1, 30),
    pieces=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=40),
)
def test_it_knows_what_a_set_of_bytes_knows(each, window, pieces):
    received = Reassembly(each, window)
    there, found = set(), []
    for first, size in pieces:
        end = first + size
        ended = tuple(range(first // each, end // each))
        expected = next(place for place in range(10**3) if place not in there)
        if end <= expected + window:
            there |= set(range(first, end))
        found += received.insert(first, end, ended)
        expected = next(place for place in range(10**3) if place not in there)
        assert received.expected == expected
        assert found == list(range(expected // each))
        beyond = [place for place in there if place > expected]
        assert sum(to - since for since, to in received.pieces) == len(beyond)
        assert len(received.pieces) == sum(place - 1 not in there for place in beyond)
        assert len(received.held) <= window // each + 1


def test_what_is_beyond_the_window_is_dropped():
    received = Reassembly(10, 30)
    assert received.insert(20, 31, (2,)) == []
    assert not received.pieces
    assert not received.held
    assert received.insert(0, 30, (0, 1, 2)) == [0, 1, 2]
