"""The wire format: golden bytes, limits, and a decoder that nothing can lead astray."""

import random
import resource
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.errors import PeerError
from precedes.live.member import arrays
from precedes.live.member.node import Node, Settings
from precedes.live.net import wire
from precedes.parts import pool, tester
from tests.support.network import Network
from tests.support.places import ROOT

GOLDEN = ROOT / "tests" / "live" / "golden"


def samples():
    """Bytes of every kind, made the same way each time."""
    hello = wire.Hello(
        member=3, target=1, group=b"g" * 16, life=b"l" * 16, known=bytes(16), received=77
    )
    yield "hello", hello.encode()
    yield "refusal", wire.refusal("you are out of the view")
    yield "ack", wire.frame(wire.ACK, 0, 12)
    for protocol in ("vector", "vcube", "bundled", "probabilistic", "hashed"):
        network = Network(protocol, 4, 1)
        network.random_run(40)
        network.broadcast(0)
        network.broadcast(0)
        for _ in range(8):  # bundles wait for a while
            network.step(0)
        body = b"".join(network.links[0, 1])
        yield f"frame-{protocol}", wire.frame(wire.DATA, 5, 4, body)
    network = Network("vector", 4, 1)
    network.broadcast(3)
    network.step(3)
    network.links[3, 0] = []
    network.kill(3)
    network.links[3, 1] = []
    network.step(2)
    network.nodes[2].evict(3)
    network.step(2)
    yield "body-frozen", b"".join(network.links[2, 1])
    network.step(1)
    network.step(2)
    yield "body-relay", b"".join(network.links[2, 1])


@pytest.mark.parametrize(("name", "data"), list(samples()), ids=lambda value: str(value)[:20])
def test_golden_bytes(name, data):
    """What version 2 looks like, for ever: after a change of the format, raise the version."""
    path = GOLDEN / f"{name}.hex"
    assert data.hex(" ", 16) + "\n" == path.read_text(), f"{name} has changed"


def test_a_greeting_comes_back():
    data = (GOLDEN / "hello.hex").read_text()
    hello = wire.decode_hello(bytes.fromhex(data))
    assert (hello.member, hello.target, hello.received) == (3, 1, 77)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "bytes"),
        (b"x" * wire.HELLO_BYTES, "does not speak"),
        (wire.MAGIC + b"\x03\x00" + bytes(wire.HELLO_BYTES - 6), "version 3"),
    ],
)
def test_no_greeting(data, reason):
    with pytest.raises(PeerError, match=reason):
        wire.decode_hello(data)


def test_frames_come_out_however_the_stream_is_cut():
    rng = random.Random(1)
    bodies = [rng.randbytes(rng.randrange(200)) for _ in range(50)]
    stream = b"".join(wire.frame(wire.DATA, i, 0, body) for i, body in enumerate(bodies))
    for _ in range(20):
        frames, found, at = wire.Frames(frame_max_bytes=1000), [], 0
        while at < len(stream):
            size = rng.randrange(1, 300)
            found += [body for *_, body in frames.put(stream[at : at + size])]
            at += size
        assert found == bodies


def test_frames_come_out_of_a_buffer_that_grows_and_shrinks():
    """As from the operating system, which fills some of the room; frames of all sizes."""
    rng = random.Random(2)
    sizes = [rng.choice([5, 1000, 60_000, 300_000]) for _ in range(60)]
    bodies = [rng.randbytes(rng.randrange(size)) for size in sizes]
    stream = b"".join(wire.frame(wire.DATA, i, 0, body) for i, body in enumerate(bodies))
    frames, found, at, rooms = wire.Frames(frame_max_bytes=400_000), [], 0, set()
    while at < len(stream):
        room = frames.room()
        rooms.add(len(room))
        size = min(rng.randrange(1, len(room) + 1), len(stream) - at)
        room[:size] = stream[at : at + size]
        found += [bytes(body) for *_, body in frames.advance(size)]
        at += size
    assert found == bodies
    # No more than four times the largest frame, and no more than at first when it is through.
    assert wire.BUFFER_BYTES < max(rooms) <= 4 * 300_000
    assert len(frames.room()) == wire.BUFFER_BYTES


def test_a_length_that_is_claimed_takes_no_memory():
    frames = wire.Frames(frame_max_bytes=1 << 24)
    claimed = (1 << 24) - wire.OVERHEAD_BYTES
    assert not frames.put(wire.frame_header(wire.DATA, 1, 0, claimed, 0) + bytes(60_000))
    assert len(frames.room()) <= 2 * wire.BUFFER_BYTES


@pytest.mark.parametrize("length", [0, wire.OVERHEAD_BYTES - 1, 1001, 2**32 - 1])
def test_a_length_that_is_not_allowed(length):
    frames = wire.Frames(frame_max_bytes=1000)
    with pytest.raises(PeerError, match="longer than allowed"):
        frames.put(wire.frame_header(wire.DATA, 1, 0, length - wire.OVERHEAD_BYTES, 0))


def test_a_changed_byte_is_found_wherever_it_is():
    data = wire.frame(wire.DATA, 1, 7, b"payload")
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(wire.Damaged):
                wire.Frames(frame_max_bytes=1000).put(bytes(changed) + data)


def test_a_changed_greeting_is_not_believed():
    data = bytes.fromhex((GOLDEN / "hello.hex").read_text())
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x10
        with pytest.raises((wire.Damaged, PeerError)):
            wire.decode_hello(bytes(changed))


def mutated(rng, body):
    """A body with some bytes changed, cut, doubled or invented."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        action = rng.randrange(5)
        at = rng.randrange(len(data) + 1)
        if action == 0 and data:
            data[at % len(data)] = rng.randrange(256)
        elif action == 1:
            del data[at:]
        elif action == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif action == 3 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        else:
            data += data[at : at + 40]
    return bytes(data)


def fuzz(protocol, frames, seed, *, compiled):
    """Feed mutated and random bodies to a member; how many were refused, and its arrays' size."""
    rng = random.Random(seed)
    network = Network(protocol, 4, seed)
    bodies = []
    network.random_run(80)
    for number in range(60):
        network.broadcast(number % 4)
        network.step(number % 4, share=True)
        bodies += [body for queue in network.links.values() for body in queue[-2:]]
    refused, done = 0, 0
    while done < frames:
        # A member that has refused something goes on with others; a fresh one from time to time
        # meets every state from the first message on.
        node = Node(Settings(member=3, members=4, protocol=protocol, payload_max_bytes=4096))
        if compiled:
            node.prepare()
        node.start()
        for turn in range(40):
            batch = min(500, frames - done)
            for _ in range(batch):
                source = rng.choice(bodies)
                body = rng.randbytes(rng.randrange(60)) if rng.random() < 0.1 else source
                node.receive(rng.randrange(3), mutated(rng, body))
            output = node.run(turn * 1_000_000)
            refused += len(output.malformed)
            for delivered in output.deliveries:
                node.take_batch(delivered)
            done += batch
            check(node)
            if done == frames:
                break
    return refused


def check(node):
    """Whatever came, the arrays agree with each other, and are no larger than windows allow."""
    registers, member = node.registers, node.member
    words = member.message
    used = words[words[:, arrays.REFERENCES] > 0]
    assert len(used) == member.slots.mark[pool.COUNT] == (member.name[:, 0] != 0).sum()
    assert (words[:, arrays.REFERENCES] >= 0).all()
    assert (used[:, arrays.WAITING] >= 0).all()
    assert used[:, arrays.WAITING].sum() == registers[arrays.PENDING]
    blocks = -(-used[:, arrays.PAYLOAD_BYTES] // arrays.BLOCK_BYTES)
    assert blocks.sum() == member.blocks.mark[pool.COUNT]
    assert len(used) <= 4 * 3 * node.settings.window
    assert member.detector.process[0, tester.PROCESS] == 3


@pytest.mark.parametrize("protocol", ["vector", "vcube", "hashed", "bundled"])
def test_the_decoder_survives_nonsense(protocol):
    assert fuzz(protocol, 3_000, 1, compiled=False) > 300


@pytest.mark.usefixtures("live")
def test_the_compiled_decoder_survives_nonsense():
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert fuzz("vector", 60_000, 2, compiled=True) > 2_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 200 * 1024


@pytest.mark.swarm
@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("protocol", ["vector", "vcube"])
def test_half_a_million_frames(protocol):
    assert fuzz(protocol, 500_000, 3, compiled=True) > 20_000


@given(st.binary(max_size=5000), st.integers(0, 2**32 - 1))
def test_checksums_do_not_depend_on_who_makes_them(data, before):
    assert wire.crc32(memoryview(data), before) == zlib.crc32(data, before)
