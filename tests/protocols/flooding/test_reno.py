"""TCP by itself: traces worked out by hand, and streams on bad lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.protocols import flooding
from precedes.protocols.flooding.reno import Reassembly
from tests.support.flooding.ends import End, Line
from tests.support.flooding.traces import JUDGES


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__)
def test_trace(judge):
    judge(flooding)


@given(
    seed=st.integers(0, 10**9),
    loss=st.sampled_from([0.0, 0.05, 0.3]),
    duplication=st.sampled_from([0.0, 0.3]),
    late_ms=st.sampled_from([0.0, 50.0, 3000.0]),
    times_ms=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8000)), min_size=1, max_size=60),
    payload_bytes=st.sampled_from([1, 99, 100, 536, 600, 1500]),
    window_segments=st.sampled_from([1, 2, 14]),
    nagle=st.booleans(),
    delayed_ack_ms=st.sampled_from([0.0, 200.0]),
    timeout_ms=st.sampled_from([200.0, 3000.0]),
)
def test_what_is_offered_arrives_once_and_in_order(
    seed, loss, duplication, late_ms, times_ms, timeout_ms, **changed
):
    """The line itself judges: order, windows, sizes, that all arrives and that it falls silent."""
    line = Line(
        seed, loss=loss, duplication=duplication, late_ms=late_ms,
        timeout_first_ms=timeout_ms, timeout_min_ms=min(timeout_ms, 1000.0), **changed,
    )  # fmt: skip
    for which, at_ms in times_ms:
        line.offer(which, at_ms=at_ms)
    line.run()


def test_losses_slow_it_down():
    """Time-outs double and the window shrinks: a third lost, many times the time."""
    durations = []
    for loss in (0.0, 0.3):
        line = Line(3, loss=loss)
        for _ in range(100):
            line.offer(0, at_ms=0.0)
        line.run()
        durations.append(line.now_ns)
    assert durations[1] > 5 * durations[0]


def test_the_printed_timeout():
    """Section V-A: the retransmission delay begins at 0.2 s and doubles at each attempt."""
    end = End(timeout_first_ms=200.0, timeout_min_ms=200.0)
    end.offer()
    end.wait(3100)
    assert end.times() == [0.0, 200.0, 600.0, 1400.0, 3000.0]


def test_what_acknowledges_nothing_that_was_sent_is_ignored():
    end = End()
    end.offer(3)
    end.acknowledge(10_000)
    assert (end.connection.acknowledged, len(end.connection.queue)) == (0, 3)


def test_it_is_full():
    end = End(queue_messages=3)
    end.offer(2)
    assert not end.connection.is_full()
    end.offer()
    assert end.connection.is_full()
    end.acknowledge(100)
    assert not end.connection.is_full()


@given(
    each=st.integers(1, 7),
    window=st.integers(1, 30),
    pieces=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=40),
)
def test_reassembly_knows_what_a_set_of_bytes_knows(each, window, pieces):
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
