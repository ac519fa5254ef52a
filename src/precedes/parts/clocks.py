"""Pure functions over clocks: arrays of counters, compared entry by entry."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.errors import UserError
from precedes.model import NODES_MAX

Counts = NDArray[np.int32]

# A clock's row is padded with zeros to a multiple of this many entries, which the compiler
# compares without a scalar remainder: a clock of 50 entries in 5.5 ns instead of 8.6.
PADDING: Final = 32
CACHE_LINE_ENTRIES: Final = 16


def padded(entries: int) -> int:
    """The length of a row that holds this number of entries."""
    return -(-entries // PADDING) * PADDING


def allocate(rows: int, *, width: int) -> Counts:
    """Clocks of zeros, each of which begins where a cache line does if the width is padded."""
    size = rows * width
    words = np.zeros(size + CACHE_LINE_ENTRIES, np.int32)
    first = -(words.ctypes.data // words.itemsize) % CACHE_LINE_ENTRIES
    return words[first : first + size].reshape(rows, width)


def covers_in_loop(clock: Counts, need: Counts) -> bool:
    """``covers`` in the form that is compiled."""
    # One branch-free pass in 32-bit lanes; an early exit would be slower for hundreds of entries.
    shortfall = np.int32(0)
    for x in range(need.size):
        shortfall = min(shortfall, np.int32(clock[x] - need[x]))
    return bool(shortfall >= 0)


@compiled.function(loop=covers_in_loop)
def covers(clock: Counts, need: Counts) -> bool:
    """Return whether every entry of the clock has reached what is needed.

    >>> covers(np.array([2, 1], np.int32), np.array([2, 0], np.int32))
    True
    >>> covers(np.array([2, 1], np.int32), np.array([2, 2], np.int32))
    False
    """
    return bool((clock[: need.size] >= need).all())


@compiled.function()
def first_missing(clock: Counts, need: Counts) -> int:
    """The first entry that has not reached what is needed, or -1."""
    for x in range(need.size):
        if clock[x] < need[x]:
            return x
    return -1


@compiled.function()
def copy(source: Counts, target: Counts) -> None:
    """Copy a clock; assignment of slices would allocate views in compiled code."""
    for x in range(source.size):
        target[x] = source[x]


@compiled.function(inline=False)
def are_counts(row: Counts, clock: Counts, entries: int, ahead: int) -> bool:
    """For ``admits``: whether a row of ``entries`` has none that is more than ``ahead``.

    All words after the last entry must be 0.
    """
    least, most, beyond = np.int32(0), np.int32(0), np.int32(0)
    for x in range(row.size):
        least = min(least, row[x])
        most = max(most, np.int32(max(row[x], np.int32(0)) - clock[x]))
        if x >= entries:
            beyond |= row[x]
    return bool(least >= 0 and most <= ahead and beyond == 0)


@compiled.function(inline=False)
def are_sums(row: Counts, clock: Counts, owners: NDArray[np.int64], ahead: int) -> bool:
    """For ``admits``: whether all owners of an entry, each ``ahead``, can have counted it so far.

    An entry without other owners, or after the last, is not higher than it is here.
    """
    sound = True
    for x in range(row.size):
        most = clock[x] + ahead * owners[x]
        sound &= 0 <= row[x] <= most
    return bool(sound)


def check_size(*, entries: int, per_process: int) -> None:
    """Raise UserError if no clock has this size."""
    if entries < 1:
        raise UserError(f"entries must be at least 1, not {entries}")
    if entries > NODES_MAX:
        raise UserError(f"entries must be at most {NODES_MAX}, not {entries}")
    if not 1 <= per_process <= entries:
        raise UserError(f"per_process must be between 1 and entries ({entries}), not {per_process}")


def own_entries(*, entries: int, per_process: int, process: int, seed: int) -> Counts:
    """f(process): the same on every node that knows the group's seed."""
    generator = np.random.Generator(np.random.PCG64([seed, process]))
    return np.sort(generator.choice(entries, per_process, replace=False)).astype(np.int32)


def entries_of_all(*, entries: int, per_process: int, nodes: int, seed: int) -> Counts:
    """f: a row of entries for each process of the group."""
    return _entries_of_all(entries, per_process, nodes, seed).copy()


def entries_to_tell_apart(nodes: int, per_process: int) -> int:
    """The minimum of entries with which ``entries_apart`` tells processes apart."""
    return nodes + per_process - 1


def are_apart(own: Counts, *, entries: int) -> bool:
    """Return whether f is one of ``entries_apart`` that tells processes apart."""
    return entries >= entries_to_tell_apart(*own.shape)


def entries_apart(*, entries: int, per_process: int, nodes: int, seed: int) -> Counts:
    """f with which the counts of a clock determine those of each process in a small group.

    The first entry of a process belongs to none with a smaller number, so the messages of each
    process follow from the counts, from the last process to the first. The other entries belong to
    no other process while there are such. A group that is too large for that has
    ``entries_of_all``.
    """
    if entries < entries_to_tell_apart(nodes, per_process):
        return entries_of_all(entries=entries, per_process=per_process, nodes=nodes, seed=seed)
    generator = np.random.Generator(np.random.PCG64([seed, nodes]))
    shuffled = generator.permutation(entries)
    unused = list(shuffled[nodes:])
    rows = np.zeros((nodes, per_process), np.int32)
    for i in range(nodes):
        others = [unused.pop() for _ in range(min(per_process - 1, len(unused)))]
        allowed = np.setdiff1d(np.append(shuffled[:i], shuffled[nodes:]), others)
        more = generator.choice(allowed, per_process - 1 - len(others), replace=False)
        rows[i] = [shuffled[i], *others, *more]
    return rows


# A state is allocated again whenever it grows, and drawing for a large group takes a second.
@functools.lru_cache(maxsize=4)
def _entries_of_all(entries: int, per_process: int, nodes: int, seed: int) -> Counts:
    rows = [
        own_entries(entries=entries, per_process=per_process, process=i, seed=seed)
        for i in range(nodes)
    ]
    return np.array(rows, np.int32)


def owners_of(own: Counts, *, hosted: Counts, width: int) -> list[int]:
    """The number of processes that own each entry, without one that is hosted alone: it has its
    own count."""
    others = np.delete(own, hosted, axis=0) if len(hosted) == 1 else own
    return np.bincount(others.ravel(), minlength=width).tolist()
