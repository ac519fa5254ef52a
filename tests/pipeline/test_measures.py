"""The kernels of latency and occupancy, against counting by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.pipeline import measures
from precedes.pipeline.measures import Held

TIMES = st.lists(st.integers(0, 10**12) | st.integers(0, 40), max_size=50)


def test_bins_follow_each_other():
    low = measures.bin_low_us(np.arange(300))
    assert low[:18].tolist() == [*range(17), 18]
    width = np.diff(low)
    assert (width > 0).all()
    assert (width[16:] / low[16:-1] <= 1 / 8).all()


@given(TIMES)
def test_histogram(times):
    rows = measures.histogram(np.array(times, np.int64))
    assert sum(count for _, _, count in rows) == len(times)
    assert rows == sorted(rows)
    for low, high, count in rows:
        assert sum(low <= time < high for time in times) == count > 0


@given(TIMES)
def test_percentiles(times):
    found = measures.percentiles_us(np.array(times, np.int64))
    if not times:
        assert set(found.values()) == {None}
        return
    ordered = sorted(times)
    for name, share in measures.SHARES.items():
        value = found[name]
        assert sum(time <= value for time in times) >= share * len(times)
        assert sum(time < value for time in times) < share * len(times) or value == ordered[0]
    assert (found["max"], found["mean"]) == (ordered[-1], sum(times) / len(times))


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), max_size=20),
    st.integers(0, 700),
)
def test_occupancy(stays, idle):
    """Microsecond by microsecond."""
    start = np.array([start for start, _ in stays], np.int64)
    held = Held(start, start + np.array([length for _, length in stays], np.int64))
    end_us = int(held.end_us.max(initial=0)) + idle
    level = [int(((held.start_us <= t) & (t < held.end_us)).sum()) for t in range(end_us)]
    whole = measures.occupancy(held, end_us=end_us)
    assert whole["max"] == max(level, default=0)
    assert whole["mean"] == pytest.approx(sum(level) / max(end_us, 1))
    rows = measures.occupancy_bins(held, end_us=end_us)
    assert len(rows) <= measures.OCCUPANCY_BINS
    assert [row[0] for row in rows[1:]] == [row[1] for row in rows[:-1]]
    assert not rows or (rows[0][0], rows[-1][1]) == (0, end_us)
    for first, last, mean, most in rows:
        inside = level[first:last]
        assert (most, mean) == (max(inside), pytest.approx(sum(inside) / len(inside)))


def test_pairing_takes_the_first_of_each():
    """Rows of one node: what is delivered at once, twice, never, or before it arrives again."""
    events = [
        ("receive", 1, 10),  # held 10 to 40
        ("deliver", 2, 20),  # never held; arrives again at 50
        ("receive", 1, 30),
        ("deliver", 1, 40),
        ("receive", 2, 50),
        ("receive", 3, 60),  # held to the end
        ("receive", 4, 70),  # delivered at once
        ("deliver", 4, 70),
        ("receive", 5, 75),  # discarded at 90
        ("deliver", 1, 80),
        ("discard", 5, 90),
    ]
    number = {"receive": 0, "deliver": 1, "discard": 2}
    kind, key, time = zip(*events, strict=True)
    held = measures.pair(
        np.array(key, np.uint64),
        np.array(time, np.int64),
        np.array([number[name] for name in kind], np.int8),
        end_us=100,
    )
    stays = sorted(zip(held.start_us.tolist(), held.end_us.tolist(), strict=True))
    assert stays == [(10, 40), (60, 100), (75, 90)]
