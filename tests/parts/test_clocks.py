"""Clocks: what is compiled does what is interpreted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.parts import clocks


@pytest.mark.parametrize("nodes", [2, 5, 8, 11])
@pytest.mark.parametrize("per_process", [1, 2, 3])
def test_a_clock_larger_than_the_group_tells_its_processes_apart(nodes, per_process):
    """The equations that f makes have one solution; no entry is twice in a row."""
    for entries in (nodes + per_process - 1, nodes * per_process, 50):
        own = clocks.entries_apart(entries=entries, per_process=per_process, nodes=nodes, seed=7)
        assert clocks.are_apart(own, entries=entries)
        hits = np.zeros((nodes, entries))
        for i, row in enumerate(own):
            hits[i, row] += 1
            assert not set(own[:i].ravel()) & {row[0]}, "its first entry is that of an earlier one"
        assert (hits.sum(axis=1) == per_process).all()
        assert np.linalg.matrix_rank(hits) == nodes
        if entries >= nodes * per_process:
            assert hits.sum(axis=0).max() == 1, "entries are shared without need"


def test_a_group_as_large_as_its_clock_has_random_entries():
    """The twin, and what the papers' groups have."""
    shape = {"entries": 8, "per_process": 2, "nodes": 8, "seed": 7}
    own = clocks.entries_apart(**shape)
    assert np.array_equal(own, clocks.entries_of_all(**shape))
    assert not clocks.are_apart(own, entries=8)


counts = st.lists(st.integers(0, 3), min_size=4, max_size=4)


@given(counts, counts, st.integers(0, 4))
def test_the_loop_that_is_compiled_is_what_is_interpreted(clock, need, size):
    clock, need = np.array(clock, np.int32), np.array(need, np.int32)[:size]
    expected = all(clock[x] >= need[x] for x in range(size))
    assert clocks.covers(clock, need) is expected
    assert clocks.covers_in_loop(clock, need) is expected
