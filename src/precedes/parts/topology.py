"""The virtual hypercube VCube in bit arithmetic: clusters, spanning trees, fault-free members.

Every node groups the others into clusters. With d bits to a number, node i has clusters 1..d;
cluster s of i, written c(i, s), holds the 2^(s-1) nodes whose highest bit of difference to i is
bit s-1 (counted from 0), in the order i ^ 2^(s-1), i ^ (2^(s-1) + 1), ... The names are those of
de Araujo et al. 2018 and Rodrigues et al. 2018.

    >>> [[member(0, s, place) for place in range(1 << (s - 1))] for s in (1, 2, 3)]
    [[1], [2, 3], [4, 5, 6, 7]]

The papers have N = 2^d nodes. Here a group may have any number of nodes from 2 on: the numbers
from N to 2^d - 1 are absent members, skipped as crashed ones are.

A spanning tree of source r: r sends to the first member of each of its clusters; a node that
receives from j as the first member of c(j, s) does the same for its clusters 1..s-1, because c(j,
s) is that node and these clusters of it. The number of clusters a node serves is its *height* in
the tree.

All functions marked ``compiled.function`` may be called from handlers. ``crashed`` is a node's
own view: an array with a value other than 0 for each node that it knows to have crashed.
"""

from __future__ import annotations

from typing import Any, Final

from numpy.typing import NDArray

from precedes import compiled

NONE: Final = -1

Flags = NDArray[Any]


@compiled.function()
def dimension(nodes: int) -> int:
    """The number of clusters of a node: the bits of the largest number in the group.

    >>> [dimension(n) for n in (2, 3, 4, 5, 8, 9, 1024)]
    [1, 2, 2, 3, 3, 4, 10]
    """
    return bit_length(nodes - 1)


@compiled.function()
def bit_length(value: int) -> int:
    """The bits that a number of at least 0 needs.

    >>> [bit_length(value) for value in (0, 1, 2, 3, 4, 255, 256)]
    [0, 1, 2, 2, 3, 8, 9]
    """
    length = 0
    while value > 0:
        value >>= 1
        length += 1
    return length


@compiled.function()
def trailing_zeros(value: int) -> int:
    """The number of lowest bits that are 0; the value must not be 0.

    >>> [trailing_zeros(value) for value in (1, 2, 3, 4, 6, 96)]
    [0, 1, 0, 2, 1, 5]
    """
    zeros = 0
    while value & 1 == 0:
        value >>= 1
        zeros += 1
    return zeros


@compiled.function()
def cluster(i: int, j: int) -> int:
    """The cluster of i that holds j, and of j that holds i; 0 if they are the same node.

    The examples of de Araujo et al. (3 dimensions) and Rodrigues et al. (4 dimensions):

    >>> [cluster(0, j) for j in (1, 2, 3, 4, 5, 6, 7)]
    [1, 2, 2, 3, 3, 3, 3]
    >>> cluster(0, 8), cluster(5, 9)
    (4, 4)
    """
    return bit_length(i ^ j)


@compiled.function()
def member(i: int, s: int, place: int) -> int:
    """The member of c(i, s) at a place 0..2^(s-1) - 1; it may be absent from the group.

    >>> [member(1, 3, place) for place in range(4)]
    [5, 4, 7, 6]
    """
    return i ^ ((1 << (s - 1)) + place)


@compiled.function()
def first_present(i: int, s: int, nodes: int) -> int:
    """The first member of c(i, s) that the group has, or NONE if it has none of them.

    >>> first_present(0, 3, 8), first_present(1, 3, 8), first_present(1, 3, 5)
    (4, 5, 4)
    >>> first_present(4, 1, 5), first_present(4, 3, 5)
    (-1, 0)
    """
    node = i ^ (1 << (s - 1))
    if node < nodes:
        return node
    bits = s - 1
    if (node >> bits) << bits >= nodes:
        return NONE
    # The cluster is cut by the end of the group: flip each bit, from the highest, that alone
    # leads beyond it. What is left unflipped is the earliest place.
    for bit in range(bits - 1, -1, -1):
        if (node >> bit) << bit >= nodes:
            node ^= 1 << bit
    return node


@compiled.function()
def next_correct(i: int, s: int, place: int, crashed: Flags, nodes: int) -> int:
    """The first place of c(i, s), from ``place`` on, of a present node not known as crashed.

    NONE if there is none. ``member(i, s, place)`` is the node itself.

    >>> next_correct(0, 3, 1, [0, 0, 0, 0, 0, 1, 0, 0], 8)
    2
    """
    for at in range(place, 1 << (s - 1)):
        candidate = i ^ ((1 << (s - 1)) + at)
        if candidate < nodes and crashed[candidate] == 0:
            return at
    return NONE


@compiled.function()
def first_correct(i: int, s: int, crashed: Flags, nodes: int) -> int:
    """The first fault-free member of c(i, s), or NONE: FF_neighbor of Rodrigues et al. 2018.

    >>> nobody, second = [0] * 16, [0, 0, 1] + [0] * 13
    >>> [first_correct(0, s, nobody, 16) for s in (1, 2, 3, 4)]
    [1, 2, 4, 8]
    >>> first_correct(0, 2, second, 16)
    3
    """
    place = next_correct(i, s, 0, crashed, nodes)
    return NONE if place == NONE else i ^ ((1 << (s - 1)) + place)


@compiled.function(inline=False)
def height(i: int, root: int, nodes: int) -> int:
    """The number of clusters that i serves in the tree of ``root``, when no node has crashed.

    All of them if it is the root itself. In a group of 2^d nodes this is the number of lowest
    bits in which the two agree. In the worked example of de Araujo et al. 2018, section 4.3, node
    4 serves node 5, its cluster 1, in the trees of 0 and 2 but not of 1; and node 6, its cluster 2,
    in the tree of 0 alone.

    >>> [height(4, root, 8) for root in (4, 0, 2, 1)]
    [3, 2, 1, 0]
    """
    if i == root:
        return bit_length(nodes - 1)
    if nodes & (nodes - 1) == 0:
        return trailing_zeros(i ^ root)
    while True:
        s = bit_length(i ^ root)
        root = first_present(root, s, nodes)
        if root == i:
            return s - 1
