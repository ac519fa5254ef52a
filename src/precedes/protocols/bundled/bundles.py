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
from precedes.contract import (
    Host,
    Int32s,
    Int64s,
    drop,
    keep,
    now_ns,
    open_packet,
    put,
    send,
    set_timer,
)
from precedes.parts.pool import NONE, Pool, free_row, take_row

# Words of a bundle in ``bundle[here, target]``.
FIRST: Final = 0
LAST: Final = 1
BYTES: Final = 2
GENERATION: Final = 3

# Words of an item in the pool.
LINK: Final = 0
TAG: Final = 1
SLOT: Final = 2

# Places in ``setting``, behind the sizes of items by tag.
PAYLOAD_MAX_BYTES: Final = 2
DELAY_NS: Final = 3
PROFILE_HERE: Final = 4
PROFILE_NS: Final = 5

# Places in ``counter``: items by tag first.
TREES: Final = 0
ACKS: Final = 1
PACKETS: Final = 2
BYTES_SENT: Final = 3

# Columns of ``profile``, and their names in a result.
PROFILE_PACKETS: Final = 0
PROFILE_ITEMS: Final = 1
PROFILE_BYTES: Final = 2
PROFILE: Final = ("packets", "items", "bytes")

TARGET_BITS: Final = 16
TARGET_MASK: Final = (1 << TARGET_BITS) - 1
GENERATION_MASK: Final = (1 << 30) - 1

# Effects of one item at most: taken up, sent in a packet of its own, let go, and a timer.
WORDS_PER_ITEM: Final = 12


class Bundles(NamedTuple):
    """Bundles of all hosted processes; their items are rows of the protocol's pool."""

    bundle: Int32s
    waiting: Int64s  # here -> items in its bundles
    setting: Int64s
    counter: Int64s
    profile: Int64s  # slice of time -> packets, items, bytes of one process; the last is open


def allocate(
    *,
    hosted: Int32s,
    nodes: int,
    tree_bytes: int,
    ack_bytes: int,
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
    bundle = np.full((len(hosted), nodes, 4), NONE, np.int32)
    bundle[:, :, BYTES] = bundle[:, :, GENERATION] = 0
    watched = np.flatnonzero(np.asarray(hosted) == profile_node)
    here = int(watched[0]) if len(watched) else NONE
    sizes = [tree_bytes, ack_bytes, payload_max_bytes, delay_ns, here, profile_ns]
    return Bundles(
        bundle=bundle,
        waiting=np.zeros(len(hosted), np.int64),
        setting=np.array(sizes, np.int64),
        counter=np.zeros(4, np.int64),
        profile=np.zeros((profile_slices if here != NONE else 0, 3), np.int64),
    )


@compiled.function()
def check_bundle(
    bundles: Bundles, pool: Pool, here: int, target: int, tag: int, slot: int, host: Host
) -> None:
    """Send an item to the target now or in a bundle; the caller has room for it in the pool."""
    # One type of numbers for all callers, also for constants: what follows is compiled once.
    _check_bundle(
        bundles,
        pool,
        here + ZERO,
        target + ZERO,
        tag + ZERO,
        slot + ZERO,
        host,
    )


@compiled.function(inline=False)
def _check_bundle(
    bundles: Bundles, pool: Pool, here: int, target: int, tag: int, slot: int, host: Host
) -> None:
    size_bytes = bundles.setting[tag]
    max_bytes = bundles.setting[PAYLOAD_MAX_BYTES]
    bundles.counter[tag] += 1
    if size_bytes >= max_bytes:
        send(host, target, tag, slot)
        _count(bundles, here, 1, size_bytes, host)
        return
    bundle = bundles.bundle[here, target]
    if bundle[BYTES] + size_bytes == max_bytes:
        _add(bundles, pool, here, target, tag, slot, host)
        flush(bundles, pool, here, target, host)
        return
    if bundle[BYTES] + size_bytes > max_bytes:
        flush(bundles, pool, here, target, host)
    _add(bundles, pool, here, target, tag, slot, host)
    if bundle[GENERATION] & 1 == 0:
        bundle[GENERATION] = (bundle[GENERATION] + 1) & GENERATION_MASK
        key = int(bundle[GENERATION]) << TARGET_BITS | target
        set_timer(host, key, bundles.setting[DELAY_NS])


@compiled.function()
def _add(
    bundles: Bundles, pool: Pool, here: int, target: int, tag: int, slot: int, host: Host
) -> None:
    keep(host, slot)
    bundle = bundles.bundle[here, target]
    item = take_row(pool)
    pool.row[item + LINK] = NONE
    pool.row[item + TAG] = tag
    pool.row[item + SLOT] = slot
    if bundle[FIRST] == NONE:
        bundle[FIRST] = item
    else:
        pool.row[bundle[LAST] + LINK] = item
    bundle[LAST] = item
    bundle[BYTES] += bundles.setting[tag]
    bundles.waiting[here] += 1


@compiled.function(inline=False)
def flush(bundles: Bundles, pool: Pool, here: int, target: int, host: Host) -> None:
    """Send a bundle that is not empty, and stop its timer."""
    bundle = bundles.bundle[here, target]
    item = int(bundle[FIRST])
    open_packet(host, target)
    count = 0
    while item != NONE:
        put(host, int(pool.row[item + TAG]), int(pool.row[item + SLOT]))
        count += 1
        item = pool.row[item + LINK]
    _count(bundles, here, count, int(bundle[BYTES]), host)
    discard(bundles, pool, here, target, host)


@compiled.function(inline=False)
def discard(bundles: Bundles, pool: Pool, here: int, target: int, host: Host) -> None:
    """Empty a bundle without sending it, and stop its timer."""
    bundle = bundles.bundle[here, target]
    item = int(bundle[FIRST])
    while item != NONE:
        following = int(pool.row[item + LINK])
        drop(host, int(pool.row[item + SLOT]))
        free_row(pool, item)
        bundles.waiting[here] -= 1
        item = following
    bundle[FIRST] = bundle[LAST] = NONE
    bundle[BYTES] = 0
    if bundle[GENERATION] & 1 == 1:
        bundle[GENERATION] = (bundle[GENERATION] + 1) & GENERATION_MASK


@compiled.function()
def expire(bundles: Bundles, pool: Pool, here: int, key: int, host: Host) -> None:
    """A timer has run out: send the bundle, unless the timer had been stopped."""
    target = key & TARGET_MASK
    if bundles.bundle[here, target, GENERATION] == key >> TARGET_BITS:
        flush(bundles, pool, here, target, host)


@compiled.function()
def _count(bundles: Bundles, here: int, items: int, size_bytes: int, host: Host) -> None:
    bundles.counter[PACKETS] += 1
    bundles.counter[BYTES_SENT] += size_bytes
    if here == bundles.setting[PROFILE_HERE]:
        place = min(now_ns(host) // bundles.setting[PROFILE_NS], len(bundles.profile) - 1)
        bundles.profile[place, PROFILE_PACKETS] += 1
        bundles.profile[place, PROFILE_ITEMS] += items
        bundles.profile[place, PROFILE_BYTES] += size_bytes
