"""Items that wait to be sent together: one bundle for every target, with a timer.

Source: Rodrigues et al. 2018, Algorithm 2, CHECK_BUNDLE (lines 36-50) and the timer (70-72). A
bundle leaves when it is full or when its first item has waited ``delay_ns``. Every item in a bundle
is one reference to its message, taken when it enters and ended when it leaves.

A timer cannot be cancelled, so each one carries the generation of its bundle: a generation is
odd while a timer runs, and starting or stopping one begins the next.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from precedes import compiled
from precedes.compiled import ZERO
from precedes.contract import Capacity, Host, Int32s, Int64s
from precedes.parts import pool
from precedes.parts.pool import NONE

# Counters are plain arrays, not columns: each column is one more array in the tuples that Numba
# hands over by value at every call out of line.

# Places in ``sent``.
PACKETS: Final = 0
BYTES: Final = 1

# Columns of ``profile``, and their names in a result.
PROFILE_PACKETS: Final = 0
PROFILE_ITEMS: Final = 1
PROFILE_BYTES: Final = 2
PROFILE: Final = ("packets", "items", "bytes")

TARGET_BITS: Final = 16
TARGET_MASK: Final = (1 << TARGET_BITS) - 1
GENERATION_MASK: Final = (1 << 30) - 1


class Rows(NamedTuple):
    """Items in bundles."""

    tag: Int32s
    slot: Int32s
    link: Int32s
    mark: Int64s


class Bundle(NamedTuple):
    """The items that wait for a target, and their timer."""

    first: Int32s
    last: Int32s
    size_bytes: Int32s
    generation: Int32s


@compiled.methods(apart=("_check_bundle", "flush", "discard"))
class Bundles(NamedTuple):
    """Bundles of all hosted processes, and rows for their items."""

    bundle: Bundle  # here, target
    rows: Rows
    item_bytes: Int64s  # tag -> size of an item
    payload_max_bytes: int
    delay_ns: int
    items: Int64s  # tag -> items sent or bundled
    sent: Int64s  # packets and their bytes
    profile: Int64s  # slice of time -> packets, items, bytes of one process; the last is open
    profile_here: int
    profile_ns: int

    def check_bundle(self, here: int, target: int, tag: int, slot: int, host: Host) -> None:
        """Send an item to the target now or in a bundle."""
        # One type of numbers for all callers, also for constants: what follows is compiled once.
        self._check_bundle(here + ZERO, target + ZERO, tag + ZERO, slot + ZERO, host)

    def _check_bundle(self, here: int, target: int, tag: int, slot: int, host: Host) -> None:
        item_bytes = self.item_bytes[tag]
        max_bytes = self.payload_max_bytes
        self.items[tag] += 1
        if item_bytes >= max_bytes:
            host.send(target, tag, slot)
            self._count_sent(here, 1, item_bytes, host)
            return
        total_bytes = self.bundle.size_bytes[here, target] + item_bytes
        if total_bytes == max_bytes:
            self._add_item(here, target, tag, slot, host)
            self.flush(here, target, host)
            return
        if total_bytes > max_bytes:
            self.flush(here, target, host)
        self._add_item(here, target, tag, slot, host)
        generation = self.bundle.generation[here]
        if generation[target] & 1 == 0:
            generation[target] = (generation[target] + 1) & GENERATION_MASK
            key = int(generation[target]) << TARGET_BITS | target
            host.set_timer(key, self.delay_ns)

    def _add_item(self, here: int, target: int, tag: int, slot: int, host: Host) -> None:
        host.keep(slot)
        bundle, rows = self.bundle, self.rows
        row = pool.take(rows)
        rows.link[row] = NONE
        rows.tag[row] = tag
        rows.slot[row] = slot
        if bundle.first[here, target] == NONE:
            bundle.first[here, target] = row
        else:
            rows.link[bundle.last[here, target]] = row
        bundle.last[here, target] = row
        bundle.size_bytes[here, target] += self.item_bytes[tag]

    def flush(self, here: int, target: int, host: Host) -> None:
        """Send a bundle that is not empty, and stop its timer."""
        rows = self.rows
        row = int(self.bundle.first[here, target])
        host.open_packet(target)
        count = 0
        while row != NONE:
            host.put(int(rows.tag[row]), int(rows.slot[row]))
            count += 1
            row = rows.link[row]
        self._count_sent(here, count, int(self.bundle.size_bytes[here, target]), host)
        self.discard(here, target, host)

    def discard(self, here: int, target: int, host: Host) -> None:
        """Empty a bundle without sending it, and stop its timer."""
        bundle, rows = self.bundle, self.rows
        row = int(bundle.first[here, target])
        while row != NONE:
            following = int(rows.link[row])
            host.drop(int(rows.slot[row]))
            pool.give_back(rows, row)
            row = following
        bundle.first[here, target] = bundle.last[here, target] = NONE
        bundle.size_bytes[here, target] = 0
        generation = bundle.generation[here]
        if generation[target] & 1 == 1:
            generation[target] = (generation[target] + 1) & GENERATION_MASK

    def expire(self, here: int, key: int, host: Host) -> None:
        """A timer has run out: send the bundle, unless the timer had been stopped."""
        target = key & TARGET_MASK
        if self.bundle.generation[here, target] == key >> TARGET_BITS:
            self.flush(here, target, host)

    def _count_sent(self, here: int, items: int, size_bytes: int, host: Host) -> None:
        self.sent[PACKETS] += 1
        self.sent[BYTES] += size_bytes
        if here == self.profile_here:
            place = min(host.now_ns() // self.profile_ns, len(self.profile) - 1)
            self.profile[place, PROFILE_PACKETS] += 1
            self.profile[place, PROFILE_ITEMS] += items
            self.profile[place, PROFILE_BYTES] += size_bytes


def allocate(
    *,
    hosted: Int32s,
    nodes: int,
    capacity: Capacity,
    item_bytes: tuple[int, ...],
    payload_max_bytes: int,
    delay_ns: int,
    profile_node: int,
    profile_ns: int,
    profile_slices: int,
) -> Bundles:
    """Empty bundles from every hosted process to every process.

    To every process, not only to neighbours as line 7 has it: after crashes a process may have
    to acknowledge to any other.
    """
    bundle = pool.columns(Bundle, len(hosted), nodes)
    bundle.first[:] = bundle.last[:] = NONE
    watched = np.flatnonzero(np.asarray(hosted) == profile_node)
    here = int(watched[0]) if len(watched) else NONE
    return Bundles(
        bundle=bundle,
        rows=pool.reserve(Rows, capacity.reserve_bytes),
        item_bytes=np.array(item_bytes, np.int64),
        payload_max_bytes=payload_max_bytes,
        delay_ns=delay_ns,
        items=np.zeros(len(item_bytes), np.int64),
        sent=np.zeros(2, np.int64),
        profile=np.zeros((profile_slices if here != NONE else 0, 3), np.int64),
        profile_here=here,
        profile_ns=profile_ns,
    )
