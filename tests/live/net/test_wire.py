"""The wire format: golden bytes, limits, and a decoder that nothing can lead astray."""

import functools
import random
import resource
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes import contract
from precedes.errors import PeerError
from precedes.live.member.node import FAREWELL, Node, Settings
from precedes.live.net import wire
from precedes.live.net.link import Link
from precedes.parts import pool
from precedes.registry import linked, load
from tests.support import bodies, warm
from tests.support.groups import frames_in as cut
from tests.support.hostile import check_arrays
from tests.support.network import Network
from tests.support.places import ROOT

GOLDEN = ROOT / "tests" / "live" / "golden"
OF = {"frozen": "vector", "relay": "vector", "reference": "bundled"}  # of a body -> its protocol


HELLO = wire.Hello(
    member=3, target=1, group=b"g" * 16, life=b"l" * 16, known=bytes(16), received=77
)
# As version 2 sent it: no range, the fields without tags.
HELLO_2 = struct.pack("<4sHHH", b"prcd", 2, 3, 1) + b"".join(HELLO[2:5]) + struct.pack("<Q", 77)
HELLO_2 += struct.pack("<I", zlib.crc32(HELLO_2))


def samples(compiled=()):
    """Bytes of every kind, made the same way each time; by compiled steps where there are some."""

    def group(protocol, members=4, **settings):
        return Network(protocol, members, 1, compiled=protocol in compiled, **settings)

    yield "hello", HELLO.encode()
    yield "refusal", wire.refusal("you are out of the view")
    yield "ack", wire.frame(wire.ACK, 0, 12)
    yield "link", b"".join(link_frames())
    for protocol in linked():
        network = group(protocol)
        network.random_run(40)
        network.broadcast(0)
        network.broadcast(0)
        for _ in range(8):  # bundles wait for a while
            network.step(0)
        body = b"".join(network.links[0, 1])
        yield f"frame-{protocol}", wire.frame(wire.DATA, 5, 4, body)
    network = group("vector")
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
    yield "body-leave", FAREWELL
    network = group("vcube", 8, tests_at_ns=0)
    for _ in range(65):  # who is silent that long acknowledges, and 7 is no neighbour of 0
        network.broadcast(7)
    for _ in range(3):
        network.settle()
    for kind, name in ((bodies.ROUTED, "routed"), (bodies.UP, "up"), (bodies.DOWN, "down")):
        yield f"body-{name}", shortest(network, "vcube", functools.partial(is_of, kind))
    network = group("bundled")
    network.broadcast(0)
    for _ in range(20):
        network.settle()
    yield "body-reference", shortest(network, "bundled", names_a_message)


def shortest(network, protocol, has):
    """The shortest body of all that were sent, with such a record."""
    layout = bodies.Layout(load(protocol))
    found = [body for *_, body in network.frames if any(map(has, layout.parse(body)))]
    return min(found, key=len)


def is_of(kind, record):
    return record.kind == kind


def names_a_message(record):
    return any(item.tag == 1 for item in record.items or [])


def link_frames():
    """A link numbers, acknowledges, and after a broken connection sends again what is missing."""
    link = Link(1)
    yield link.put(b"first")
    yield link.put(b"second", messages_bytes=6)
    link.take([(wire.DATA, 1, 1, memoryview(b"theirs"))])
    yield link.acknowledgement()
    yield link.acknowledgement(wire.PING)
    yield from link.resume(1)
    yield link.put(b"third", zlib.crc32(b"third"))


@pytest.mark.parametrize(("name", "data"), list(samples()), ids=lambda value: str(value)[:20])
def test_golden_bytes(name, data):
    """What version 2 looks like, for ever: after a change of the format, raise the version."""
    path = GOLDEN / f"{name}.hex"
    assert data.hex(" ", 16) + "\n" == path.read_text(), f"{name} has changed"


@pytest.mark.usefixtures("live")
def test_compiled_steps_give_the_golden_bytes():
    for name, data in samples(warm.LIVE):
        assert data.hex(" ", 16) + "\n" == (GOLDEN / f"{name}.hex").read_text(), name


def golden(name):
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def frames_in(data):
    """Kind, number, received and body of frames, by the layout that is documented."""
    found, at = [], 0
    while at < len(data):
        length, kind, number, received, checksum, check = struct.unpack_from("<IBQQII", data, at)
        body = data[at + 29 : at + 4 + length]
        assert len(body) == length - 25
        assert check == zlib.crc32(data[at : at + 25])
        assert checksum == zlib.crc32(body)
        found.append((kind, number, received, body))
        at += 4 + length
    return found


def test_the_golden_files_have_every_kind_of_frame_record_and_item():
    """So no kind can change without a file that does; each is laid out as the pages say."""
    names = [path.stem for path in GOLDEN.glob("*.hex")]
    assert sorted(names) == sorted(name for name, _ in samples())
    data, check = golden("hello")[:-4], golden("hello")[-4:]
    assert struct.unpack("<I", check) == (zlib.crc32(data),)
    kinds, records, classes = set(), set(), set()
    for name in set(names) - {"hello"}:
        part, _, protocol = name.partition("-")
        if part == "body":
            found = [(wire.DATA, 0, 0, golden(name))]
            protocol = OF.get(protocol, "vcube")
        else:
            found = frames_in(golden(name))
            kinds |= {kind for kind, *_ in found}
        for kind, *_, body in found:
            if kind == wire.DATA and part != "link":
                layout = bodies.Layout(load(protocol))
                parsed = layout.parse(body)
                assert layout.build(parsed) == body
                records |= {record.kind for record in parsed}
                items = [item for record in parsed for item in record.items or []]
                classes |= {layout.classes[item.tag] for item in items}
    assert kinds == {wire.DATA, wire.ACK, wire.PING, wire.REFUSED}
    assert records == bodies.KINDS
    assert classes == {contract.MESSAGE, contract.REFERENCE, contract.NUMBER}


def test_a_link_goes_on_with_its_numbers():
    """DATA 1 and 2, what came acknowledged twice, DATA 2 again, DATA 3."""
    assert frames_in(golden("link")) == [
        (wire.DATA, 1, 0, b"first"),
        (wire.DATA, 2, 0, b"second"),
        (wire.ACK, 0, 1, b""),
        (wire.PING, 0, 1, b""),
        (wire.DATA, 2, 1, b"second"),
        (wire.DATA, 3, 1, b"third"),
    ]


def test_a_greeting_comes_back():
    data = (GOLDEN / "hello.hex").read_text()
    hello = wire.decode_hello(bytes.fromhex(data))
    assert (hello.member, hello.target, hello.received) == (3, 1, 77)


def with_sum(data):
    """The same with a checksum that is right."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def cut_short(count):
    """A greeting that lacks the last bytes of its fields."""
    data = HELLO.encode()
    fields = data[10 : len(data) - 4 - count]
    return with_sum(data[:8] + struct.pack("<H", len(fields)) + fields + bytes(4))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not speak"),
        (b"x" * 98, "does not speak"),
        (HELLO_2, "version 2, this member 3"),
        (HELLO.encode(lowest=4, highest=6), "versions 4 to 6, this member 3"),
        (HELLO.encode() + b"x", "another length"),
        (wire.MAGIC + struct.pack("<HHH", 3, 3, 4097) + bytes(4101), "too long"),
        (cut_short(1), "a field is cut short"),
        (cut_short(11), "field 5 has 0 bytes"),
        (with_sum(HELLO.encode().replace(b"\x02\x10\x00", b"\x07\x10\x00", 1)), "field 2 has 0"),
    ],
)
def test_a_greeting_that_cannot_be_is_refused(data, reason):
    with pytest.raises(PeerError, match=reason):
        wire.decode_hello(data)


@pytest.mark.parametrize("highest", [3, 4, 65535])
@pytest.mark.parametrize("more", [b"", b"\x09\x03\x00new", b"\xff\x00\x00" * 100])
def test_a_greeting_of_a_later_version_is_understood(highest, more):
    """Its range has a version of ours, and tags that are unknown here are passed over."""
    data = HELLO.encode(highest=highest, more=more)
    assert wire.decode_hello(data) == HELLO
    sizes = [wire.hello_bytes(data[:count]) for count in range(len(data) + 1)]
    assert sizes == [None] * 10 + [len(data)] * (len(data) - 9)


def test_frames_come_out_however_the_stream_is_cut():
    rng = random.Random(1)
    bodies = [rng.randbytes(rng.randrange(200)) for _ in range(50)]
    stream = b"".join(wire.frame(wire.DATA, i, 0, body) for i, body in enumerate(bodies))
    for _ in range(20):
        frames, found, at = wire.Frames(frame_max_bytes=1000), [], 0
        while at < len(stream):
            size = rng.randrange(1, 300)
            found += [body for *_, body in cut(frames, stream[at : at + size])]
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


def header(body_bytes):
    """The header of a frame that claims a body of this size."""
    data = struct.pack("<IBQQI", wire.OVERHEAD_BYTES + body_bytes, wire.DATA, 1, 0, 0)
    return data + struct.pack("<I", zlib.crc32(data))


def test_a_length_that_is_claimed_takes_no_memory():
    frames = wire.Frames(frame_max_bytes=1 << 24)
    claimed = (1 << 24) - wire.OVERHEAD_BYTES
    assert not cut(frames, header(claimed) + bytes(60_000))
    assert len(frames.room()) <= 2 * wire.BUFFER_BYTES


@pytest.mark.parametrize("length", [0, wire.OVERHEAD_BYTES - 1, 1001, 2**32 - 1])
def test_a_length_that_is_not_allowed(length):
    frames = wire.Frames(frame_max_bytes=1000)
    with pytest.raises(PeerError, match="longer than allowed"):
        cut(frames, header(length - wire.OVERHEAD_BYTES))


def test_a_changed_byte_is_found_wherever_it_is():
    data = wire.frame(wire.DATA, 1, 7, b"payload")
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(wire.Damaged):
                cut(wire.Frames(frame_max_bytes=1000), bytes(changed) + data)


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
                node.consume_batch(delivered)
            done += batch
            check(node)
            if done == frames:
                break
    return refused


def check(node):
    """Whatever came, the arrays agree with each other, and are no larger than windows allow."""
    check_arrays(node, "nonsense")
    assert node.member.slots.mark[pool.COUNT] <= 4 * 3 * node.settings.window
    assert node.member.detector.process.number[0] == 3


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
