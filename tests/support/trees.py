"""Clusters and trees of VCube as lists, with the tables and examples of the papers."""

from precedes.parts import topology


def parent(i, root, nodes):
    """From whom i gets the messages of ``root`` when nobody has crashed; NONE for the root.

    >>> [parent(5, root, 8) for root in (0, 2, 1, 5)]
    [4, 4, 1, -1]
    """
    if i == root:
        return topology.NONE
    while True:
        following = topology.first_present(root, topology.cluster(i, root), nodes)
        if following == i:
            return root
        root = following


def cluster_members(i, s, *, nodes, crashed=()):
    """The members of c(i, s) in order, without absent and crashed ones.

    The table of de Araujo et al. 2018, Figure 3 (3 dimensions), by cluster and node:

    >>> [cluster_members(i, 1, nodes=8) for i in range(8)]
    [[1], [0], [3], [2], [5], [4], [7], [6]]
    >>> [cluster_members(i, 2, nodes=8) for i in range(8)]
    [[2, 3], [3, 2], [0, 1], [1, 0], [6, 7], [7, 6], [4, 5], [5, 4]]
    >>> for i in (0, 1, 2, 3):
    ...     print(cluster_members(i, 3, nodes=8), cluster_members(i + 4, 3, nodes=8))
    [4, 5, 6, 7] [0, 1, 2, 3]
    [5, 4, 7, 6] [1, 0, 3, 2]
    [6, 7, 4, 5] [2, 3, 0, 1]
    [7, 6, 5, 4] [3, 2, 1, 0]

    Of Rodrigues et al. 2018, Figure 1 (4 dimensions):

    >>> cluster_members(0, 4, nodes=16)
    [8, 9, 10, 11, 12, 13, 14, 15]
    >>> cluster_members(6, 4, nodes=16)
    [14, 15, 12, 13, 10, 11, 8, 9]

    A group of 6 has no nodes 6 and 7:

    >>> cluster_members(2, 3, nodes=6)
    [4, 5]
    """
    found = [topology.member(i, s, place) for place in range(1 << (s - 1))]
    return [j for j in found if j < nodes and not (len(crashed) and crashed[j])]


def children(i, root, *, nodes):
    """The nodes to which i passes the messages of ``root``, in order of their clusters.

    The examples of de Araujo et al. 2018, section 4.2:

    >>> [children(i, 0, nodes=8) for i in range(8)]
    [[1, 2, 4], [], [3], [], [5, 6], [], [7], []]
    >>> children(4, 2, nodes=8)
    [5]
    """
    found = (
        topology.first_present(i, s, nodes) for s in range(1, topology.height(i, root, nodes) + 1)
    )
    return [child for child in found if child != topology.NONE]
