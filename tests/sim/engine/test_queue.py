"""The event queue is a heap ordered by (time, order of insertion), whatever the times are."""

import heapq
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from precedes.contract import grow
from precedes.sim.engine import queue

HOUR_NS = 3600 * 10**9
LIMITS_NS = [
    1 << bits for bits in (queue.BUCKET_BITS, queue.HALF_BITS, queue.HALF_BITS + 1, queue.FAR_BITS)
]


class Model:
    """The queue and a heap side by side; every pop compares them."""

    def __init__(self, capacity):
        self.queue = queue.allocate(capacity)
        self.capacity = capacity
        self.heap = []
        self.now_ns = 0
        self.serial = 0
        self.times_ns = [0]

    def push(self, delay_ns):
        if not queue.has_room(self.queue, 1):
            self.grow()
        assert queue.has_room(self.queue, 1)
        time_ns = self.now_ns + delay_ns
        # Every third is a message straight from its source, which needs no entry.
        kind = self.serial % 3 << queue.WHERE_BITS
        node = (self.serial * 21_001) % 65_536
        what = self.serial if kind else ~self.serial
        if self.serial % 6 == 0:
            queue.push(self.queue, time_ns, node, self.serial)
        else:
            queue.push_one(self.queue, time_ns, kind | node, what)
        heapq.heappush(self.heap, (time_ns, self.serial, kind, node, what))
        self.serial += 1
        self.times_ns.append(time_ns)

    def grow(self):
        self.capacity *= 2
        self.queue = grow(self.queue, queue.allocate(self.capacity))

    def push_at_a_time_used_before(self, choice):
        time_ns = self.times_ns[choice % len(self.times_ns)]
        self.push(max(time_ns - self.now_ns, 0))

    def pop(self):
        event = queue.pop(self.queue)
        if not self.heap:
            assert event == queue.NONE
            return
        time_ns, _, kind, node, what = heapq.heappop(self.heap)
        assert queue.time_ns_of(self.queue, event) == time_ns
        assert queue.argument_of(self.queue, event) == what, f"a tie at {time_ns} came out of order"
        assert queue.kind_of(self.queue, event) == kind
        assert queue.node_of(event) == node
        queue.release(self.queue, event)
        self.now_ns = time_ns

    def unpop(self):
        if self.heap:
            event = queue.pop(self.queue)
            queue.unpop(self.queue)
            assert event != queue.NONE
            # Time has come to the event that is put back: nothing may be pushed before it.
            self.now_ns = self.heap[0][0]

    def drain(self):
        while self.heap:
            self.pop()
        self.pop()
        assert self.queue.mark[queue.SIZE] == 0
        assert self.queue.mark[queue.LATE] == 0
        assert (self.queue.ring == 0).all()
        assert (self.queue.coarse == queue.NONE).all()


DELAYS = st.one_of(
    st.integers(0, 3),
    st.integers(0, 43).flatmap(lambda bits: st.integers(1 << bits, 2 << bits)),
    st.sampled_from(LIMITS_NS).flatmap(lambda limit: st.integers(limit - 2, limit + 2)),
)
STEPS = st.one_of(
    st.tuples(st.just("push"), DELAYS),
    st.tuples(st.just("push_at_a_time_used_before"), st.integers(0, 100)),
    st.tuples(st.just("pop")),
    st.tuples(st.just("pop")),
    st.tuples(st.just("unpop")),
    st.tuples(st.just("grow")),
)


@given(st.lists(STEPS, max_size=60), st.sampled_from([1, 3, 64]))
@settings(max_examples=150)
@example([("push", HOUR_NS), ("pop",), ("push", 0), ("push", 1)], 1)
def test_is_a_heap(steps, capacity):
    model = Model(capacity)
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
    model.drain()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("spread", ["short", "decades", "ties"])
def test_long_runs(seed, spread):
    """Thousands of events: buckets of many events, refills, entries used again and again."""
    rng = random.Random(seed)
    draw = {
        "short": lambda: rng.randrange(200_000),
        "decades": lambda: int(10 ** rng.uniform(0, 13)),
        "ties": lambda: rng.choice([0, 1, 262_143, 262_144, 100_000_000, 10**9, HOUR_NS]),
    }[spread]
    model = Model(16)
    for _ in range(1500):
        target = rng.choice([0, 5, 40, 300])
        if len(model.heap) < target or not model.heap:
            model.push(draw())
        else:
            model.pop()
    model.drain()


def test_an_open_bucket_that_refills_itself():
    """Nothing grows although far more events pass through the bucket than fit into it."""
    model = Model(4)
    for _ in range(3):
        model.push(0)
    for _ in range(200):
        model.pop()
        model.push(1)
    assert model.capacity == 4
    model.drain()


def test_room_is_counted():
    pending = queue.allocate(3)
    assert queue.has_room(pending, 3)
    assert not queue.has_room(pending, 4)
    queue.push(pending, 5, 0, 0)
    assert queue.has_room(pending, 2)
    assert not queue.has_room(pending, 3)
    queue.release(pending, queue.pop(pending))
    assert queue.has_room(pending, 3)


def test_an_event_a_year_ahead_is_reached_at_once(monkeypatch):
    """Empty time is skipped, not walked through: 58,000 halves of the coarse ring lie between."""
    model = Model(8)
    model.push(365 * 24 * HOUR_NS)
    model.push(365 * 24 * HOUR_NS + 1)
    model.push(5)
    skips = []
    skip = queue._skip_to_late
    monkeypatch.setattr(queue, "_skip_to_late", lambda *where: skips.append(1) or skip(*where))
    model.drain()
    assert 0 < len(skips) < 10
