"""Clocks: what is compiled does what is interpreted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from precedes.parts import clocks

counts = st.lists(st.integers(0, 3), min_size=4, max_size=4)


@given(counts, counts, st.integers(0, 4))
def test_the_loop_that_is_compiled_is_what_is_interpreted(clock, need, size):
    clock, need = np.array(clock, np.int32), np.array(need, np.int32)[:size]
    expected = all(clock[x] >= need[x] for x in range(size))
    assert clocks.covers(clock, need) is expected
    assert clocks.covers_in_loop(clock, need) is expected
