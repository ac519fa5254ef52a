"""The event queue against a heap ordered by (time, order of insertion)."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from precedes.sim import queue as events
from precedes.sim.run import grow

# Exponents of two: from ties within a bucket to far beyond the coarse ring (2^39 ns, 9 minutes).
DELAYS = st.integers(0, 44).flatmap(lambda bits: st.integers(0, 1 << bits))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), DELAYS),
        st.tuples(st.just("burst"), st.tuples(DELAYS, st.integers(1, 60))),
        st.tuples(st.just("pop"), st.integers(1, 8)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("grow"), st.just(0)),
    ),
    max_size=60,
)


class Pair:
    """The queue and its model, fed alike."""

    def __init__(self):
        self.queue = events.allocate(4)
        self.heap = []
        self.serial = 0
        self.now_ns = 0

    def push(self, delay_ns):
        if not events.has_room(self.queue, 1):
            self.grow()
        time_ns = self.now_ns + delay_ns
        events.push(self.queue, time_ns, self.serial & 0xFF, self.serial)
        heapq.heappush(self.heap, (time_ns, self.serial))
        self.serial += 1

    def grow(self):
        size = self.queue.entry.size // events.WORDS
        self.queue = grow(self.queue, events.allocate(2 * size))

    def pop(self):
        entry = events.pop(self.queue)
        if not self.heap:
            assert entry == events.NONE
            return
        time_ns, serial = heapq.heappop(self.heap)
        words = self.queue.entry[entry : entry + events.LINK].tolist()
        assert words == [time_ns, serial & 0xFF, serial]
        events.release(self.queue, entry)
        self.now_ns = time_ns

    def pop_twice(self):
        """What the engine does when something must grow first."""
        if self.heap:
            first = events.pop(self.queue)
            events.unpop(self.queue)
            assert events.pop(self.queue) == first
            events.unpop(self.queue)
            self.pop()


@given(STEPS)
def test_order_is_that_of_a_heap(steps):
    pair = Pair()
    for step, value in steps:
        if step == "push":
            pair.push(value)
        elif step == "burst":
            for i in range(value[1]):
                pair.push(value[0] + 7919 * i % 5000)
        elif step == "pop":
            for _ in range(value):
                pair.pop()
        elif step == "again":
            pair.pop_twice()
        else:
            pair.grow()
    while pair.heap:
        pair.pop()
    assert events.pop(pair.queue) == events.NONE
    assert pair.queue.mark[events.SIZE] == 0


def test_a_bucket_that_refills_itself_without_end():
    """Delays far shorter than a bucket: the open bucket is compacted, not outgrown."""
    pair = Pair()
    for delay_ns in (5, 3, 3):
        pair.push(delay_ns)
    for _ in range(1000):
        pair.pop()
        pair.push(2)
    assert pair.queue.entry.size == 4 * events.WORDS


def test_large_buckets_are_sorted_and_stable():
    pair = Pair()
    for i in range(3000):
        pair.push((7919 * i) % 97)
    while pair.heap:
        pair.pop()
