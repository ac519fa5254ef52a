"""Every byte of every frame, delivery and row: compiled, interpreted, and as the layout says."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precedes.live.member import records
from precedes.live.member.node import DEFAULT_ROOM, Room
from precedes.registry import linked, load
from tests.support import bodies, warm
from tests.support.liars import PARAMETERS
from tests.support.network import Network
from tests.support.outputs import difference

STEPS = 220
MEMBERS = 6
# So little room at first that each array grows, most of them several times.
TIGHT = Room(slots=4, blocks=2, input_bytes=64, segments=1)


def eventful(protocol, seed, *, compiled=False, room=DEFAULT_ROOM):
    """A group that grows, tests for crashes, loses one member to a crash and one to a farewell."""
    network = Network(
        protocol, MEMBERS, seed, compiled=compiled, room=room, tests_at_ns=3_000_000,
        test_interval_ms=40.0, patience_ms=60.0, window=8,
        parameters=PARAMETERS.get(protocol, {}),
    )  # fmt: skip
    rng = network.rng
    crash, leave = rng.sample(range(STEPS // 3, STEPS // 2), 2)
    victims = rng.sample(range(MEMBERS), 2)
    for number in range(STEPS):
        if number == crash:
            network.kill(victims[0])
        elif number == leave:
            network.leave(victims[1])
        i = rng.choice(network.alive)
        if number == crash + 30:  # one knows before its tests tell
            network.nodes[i].evict(victims[0])
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
    assert difference(one.outputs, other.outputs) is None
    assert difference(one.frames, other.frames) is None
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
    assert kinds >= {bodies.PACKET, bodies.UP, bodies.DOWN, bodies.FROZEN}


def test_all_kinds_of_records_travel(seen):
    kinds = {bodies.LEAVE}  # which goes out beside frames
    for protocol, network in seen.items():
        layout = bodies.Layout(load(protocol))
        kinds |= {record.kind for *_, body in network.frames for record in layout.parse(body)}
    assert kinds == bodies.KINDS


def leaves(value, path=()):
    """All bytes that a run gave, with the way to each."""
    if isinstance(value, tuple | list):
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    elif isinstance(value, bytes) and value:
        yield path, value


def put(value, path, new):
    """The same with one part replaced; a part replaced by None is missing."""
    if not path:
        return new
    place, rest = path[0], path[1:]
    part = put(value[place], rest, new)
    made = [*value[:place], *([] if part is None else [part]), *value[place + 1 :]]
    return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)


@pytest.fixture(scope="module")
def runs(seen):
    """Some runs that sent, delivered and logged, and all bytes in them."""
    found = [shown for shown in seen["vcube"].outputs if shown.frames][20:50]
    assert any(shown.deliveries for shown in found)
    return found, list(leaves(found))


@settings(max_examples=200)
@given(st.data())
def test_one_byte_that_differs_is_seen(runs, data):
    """The twin, for frames, deliveries and rows of the log alike."""
    outputs, places = runs
    path, old = data.draw(st.sampled_from(places))
    at, bit = data.draw(st.integers(0, len(old) - 1)), data.draw(st.integers(0, 7))
    new = bytearray(old)
    new[at] ^= 1 << bit
    found = difference(outputs, put(outputs, path, bytes(new)))
    assert found is not None
    assert f"byte {at} of {len(old)}" in found


@given(st.data())
def test_a_frame_that_is_missing_or_goes_to_another_is_seen(runs, data):
    outputs, _ = runs
    run = data.draw(st.sampled_from([i for i, shown in enumerate(outputs) if shown.frames]))
    frames = outputs[run].frames
    missing = outputs[run]._replace(frames=frames[:-1])
    assert difference(outputs, [*outputs[:run], missing, *outputs[run + 1 :]]) is not None
    common, own, messages_bytes = frames[-1]
    if len(own) > 1 and own[0][1] != own[1][1]:
        (one, its), (other, others), *rest = own
        for changed in (
            ((one, others), (other, its), *rest),  # swapped
            ((other, others), (one, its), *rest),  # in another order
            ((other, others), *rest),  # left out
        ):
            frame = (common, changed, messages_bytes)
            shown = outputs[run]._replace(frames=(*frames[:-1], frame))
            assert difference(outputs, [*outputs[:run], shown, *outputs[run + 1 :]]) is not None


def test_a_run_less_is_seen(runs):
    outputs, _ = runs
    assert difference(outputs, outputs[:-1]) is not None
    assert difference(outputs, outputs) is None


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
