"""Every byte of every frame, delivery and row: compiled, interpreted, and as the layout says."""

import random

import numpy as np
import pytest

from precedes.live.member import records
from precedes.live.member.node import DEFAULT_ROOM, Room
from precedes.registry import linked, load
from tests.support import bodies, warm
from tests.support.byzantine import PARAMETERS
from tests.support.network import Network

STEPS = 220
MEMBERS = 6
# So little room at first that each array grows, most of them several times.
TIGHT = Room(slots=4, blocks=2, input_bytes=64, segments=1)


def eventful(protocol, seed, *, compiled=False, room=DEFAULT_ROOM):
    """A group that grows, tests for crashes, and loses two members."""
    network = Network(
        protocol, MEMBERS, seed, compiled=compiled, room=room, tests_at_ns=3_000_000,
        test_interval_ms=40.0, patience_ms=60.0, window=8,
        parameters=PARAMETERS.get(protocol, {}),
    )  # fmt: skip
    rng = network.rng
    first, second = rng.sample(range(STEPS // 3, STEPS // 2), 2)
    victims = rng.sample(range(MEMBERS), 2)
    for number in range(STEPS):
        if number in (first, second):
            network.kill(victims[number == second])
        i = rng.choice(network.alive)
        if number == first + 30:
            network.crash(i, victims[0])
        for _ in range(rng.choice((0, 1, 1, 3))):
            network.broadcast(i, bytes(rng.choice((0, 0, 1, 127, 128, 1000))))
        network.step(i, share=True)
    network.settle()
    return network


def choices():
    """Steps that are compiled for other tests; the rest take CPU that only a swarm has."""
    for protocol in linked():
        marks = [] if protocol in warm.LIVE else [pytest.mark.swarm]
        for seed in range(1, 8):
            more = [] if seed == 1 else [pytest.mark.swarm]
            yield pytest.param(protocol, seed, marks=marks + more)


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize(("protocol", "seed"), list(choices()))
def test_the_compiled_step_gives_the_same_bytes(protocol, seed):
    one, other = (eventful(protocol, seed, compiled=way, room=TIGHT) for way in (False, True))
    print(f"{protocol}, seed {seed}: {len(one.outputs)} runs, {len(one.frames)} bodies")
    assert one.outputs == other.outputs
    assert one.frames == other.frames
    assert one.nodes[one.alive[0]].capacity.slots > TIGHT.slots, "nothing has grown"


@pytest.fixture(scope="module")
def seen():
    """The runs of one schedule of each protocol, interpreted."""
    return {protocol: eventful(protocol, 1, room=TIGHT) for protocol in linked()}


@pytest.mark.parametrize("protocol", linked())
def test_every_body_is_laid_out_as_promised(protocol, seen):
    """Taken apart by the layout alone and put together again, it is the same bytes."""
    layout, kinds = bodies.Layout(load(protocol)), set()
    for _, _, body in seen[protocol].frames:
        records = layout.parse(body)
        kinds |= {record.kind for record in records}
        assert layout.build(records) == body
    assert kinds >= {bodies.PACKET, bodies.UP, bodies.DOWN}


def test_all_kinds_of_records_travel(seen):
    kinds = set()
    for protocol, network in seen.items():
        layout = bodies.Layout(load(protocol))
        kinds |= {record.kind for *_, body in network.frames for record in layout.parse(body)}
    assert kinds == bodies.KINDS


def test_short_cuts_of_interpreted_members_are_the_loops():
    """Numbers and fields, at every size and at both ends of their ranges."""
    rng = random.Random(1)
    for count in (1, 2, 4, 8):
        ends = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))
        for value in (*ends, *(rng.getrandbits(63) for _ in range(20))):
            one, other = np.zeros(20, np.uint8), np.zeros(20, np.uint8)
            assert records.write(one, 3, value, count) == 3 + count
            assert records._write(other, 3, np.int64(value), count) == 3 + count
            assert np.array_equal(one, other)
            assert records.read(one, 3, count) == records._read(one, 3, count)
    for _ in range(50):
        row = np.array([rng.choice((0, 0, 0, 5, -5)) for _ in range(12)], np.int32)
        assert records.used_words(row) == records._used_words(row)
        one, other, first = row.copy(), row.copy(), rng.randrange(13)
        records.clear(one, first)
        records._clear(other, first)
        assert np.array_equal(one, other)
        assert not one[first:].any()
        assert np.array_equal(one[:first], row[:first])
