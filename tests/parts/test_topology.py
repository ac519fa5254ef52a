"""VCube in bits against the papers' recursive definitions, on groups of any size."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes import compiled
from precedes.parts import topology
from tests.support import trees


def recursive_cluster(i, s):
    """c(i, s) as the papers define it, by recursion."""
    first = i ^ 2 ** (s - 1)
    return [first] + [j for k in range(1, s) for j in recursive_cluster(first, k)]


def recursive_tree(root, nodes):
    """Node -> (parent, height): who sends to whom, by following the messages."""
    dimension = max(1, (nodes - 1).bit_length())
    reached = {root: (topology.NONE, dimension)}
    unsent = [(root, dimension)]
    while unsent:
        sender, height = unsent.pop()
        for s in range(1, height + 1):
            present = [j for j in recursive_cluster(sender, s) if j < nodes]
            if present:
                assert present[0] not in reached, "a node is reached twice"
                reached[present[0]] = (sender, s - 1)
                unsent.append((present[0], s - 1))
    return reached


def test_examples_of_the_papers():
    for module in (topology, trees):
        found = doctest.testmod(module)
        assert found.attempted > 8
        assert found.failed == 0


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_members_are_those_of_the_recursion(d):
    for i in range(2**d):
        others = []
        for s in range(1, d + 1):
            members = trees.cluster_members(i, s, nodes=2**d)
            assert members == recursive_cluster(i, s)
            assert all(topology.cluster(i, j) == topology.cluster(j, i) == s for j in members)
            others += members
        assert sorted([i, *others]) == list(range(2**d))


def test_the_recursion_used_here_is_no_tautology():
    """The twin: an order of members that a mistake would give is not the recursion's."""
    ascending = [sorted(recursive_cluster(i, 3)) for i in range(8)]
    assert ascending != [recursive_cluster(i, 3) for i in range(8)]


@pytest.mark.parametrize("nodes", [*range(2, 34), 63, 64, 65, 100, 128])
def test_trees_reach_everybody_once(nodes):
    """Heights, parents and children, for every root."""
    for root in range(0, nodes, 1 + nodes // 20):
        reached = recursive_tree(root, nodes)
        assert len(reached) == nodes
        for i, (sender, height) in reached.items():
            assert topology.height(i, root, nodes) == height
            assert trees.parent(i, root, nodes) == sender
            mine = {j for j, (other, _) in reached.items() if other == i}
            children = trees.children(i, root, nodes=nodes)
            assert set(children) == mine
            assert len(children) == len(mine)


@given(st.data())
def test_fault_free_members_in_order(data):
    nodes = data.draw(st.integers(2, 70))
    crashed = np.array(data.draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)), np.int8)
    i = data.draw(st.integers(0, nodes - 1))
    for s in range(1, topology.dimension(nodes) + 1):
        present = [j for j in recursive_cluster(i, s) if j < nodes]
        correct = [j for j in present if not crashed[j]]
        assert trees.cluster_members(i, s, nodes=nodes, crashed=crashed) == correct
        assert topology.first_present(i, s, nodes) == (present or [topology.NONE])[0]
        assert topology.first_correct(i, s, crashed, nodes) == (correct or [topology.NONE])[0]
        for place in range(1 << (s - 1)):
            after = [k for k in recursive_cluster(i, s)[place:] if k in correct]
            found = topology.next_correct(i, s, place, crashed, nodes)
            assert (found == topology.NONE) == (not after)
            assert not after or topology.member(i, s, found) == after[0]


@given(st.data())
def test_a_cluster_is_its_member_and_that_members_smaller_clusters(data):
    """The invariant of Rodrigues et al. by which any member can replace a crashed one."""
    d = data.draw(st.integers(1, 7))
    i = data.draw(st.integers(0, 2**d - 1))
    s = data.draw(st.integers(1, d))
    whole = set(recursive_cluster(i, s))
    for k in whole:
        parts = [{k}, *(set(trees.cluster_members(k, t, nodes=2**d)) for t in range(1, s))]
        assert set().union(*parts) == whole
        assert sum(map(len, parts)) == len(whole)


def _sum_of_all(nodes, crashed):
    total = 0
    for i in range(nodes):
        for root in range(nodes):
            total += 3 * topology.height(i, root, nodes)
            if i != root:
                s = topology.cluster(i, root)
                total += 7 * topology.next_correct(i, s, 1, crashed, nodes)
                total += topology.member(i, s, 0) + topology.first_present(i, s, nodes)
                total += 5 * topology.first_correct(i, s, crashed, nodes)
    return total


def test_compiled_and_interpreted_agree():
    """Every helper can be called from compiled code and gives the same there."""
    entry = compiled.Entry(_sum_of_all, label="the topology")
    crashed = np.zeros(23, np.int8)
    crashed[[2, 9, 16]] = 1
    for nodes in (16, 23):
        body = entry.prepare(None, (), nodes, crashed)
        assert body(nodes, crashed) == _sum_of_all(nodes, crashed)
