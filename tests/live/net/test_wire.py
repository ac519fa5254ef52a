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
from precedes.live.member.node import Node, Settings
from precedes.live.membership.learning import Label
from precedes.live.membership.records import Change, encode, encode_label
from precedes.live.net import wire
from precedes.live.net.link import Link
from precedes.parts import pool
from precedes.registry import linked, load
from tests.support import bodies
from tests.support.groups import frames_in as cut
from tests.support.hostile import check_arrays
from tests.support.network import Network
from tests.support.places import ROOT

GOLDEN = ROOT / "tests" / "live" / "golden"
OF = {"reference": "bundled", "number": "bundled"}  # of a body -> its protocol


HELLO = wire.Hello(
    member="orders-3",
    target="orders-1",
    group=b"g" * 16,
    life=b"l" * 16,
    known=bytes(16),
    received=77,
    address="orders-3.orders:7000",
)
# What a member sends that looks for others, and an answer.
ASKING = HELLO._replace(target="", received=0)
ANSWER = HELLO._replace(members=[("orders-0", "10.0.0.7:7000"), ("b", "[::1]:7001")])
# As version 2 sent it: no range, the fields without tags.
HELLO_2 = struct.pack("<4sHHH", b"prcd", 2, 3, 1) + b"".join(HELLO[2:5]) + struct.pack("<Q", 77)
HELLO_2 += struct.pack("<I", zlib.crc32(HELLO_2))


def samples(compiled=()):
    """Bytes of every kind, made the same way each time; by compiled steps where there are some."""

    def group(protocol, members=4, **settings):
        return Network(protocol, members, 1, compiled=protocol in compiled, **settings)

    yield "hello", HELLO.encode()
    yield "hello-asking", ASKING.encode()
    yield "hello-answer", ANSWER.encode()
    yield "hello-state", ASKING._replace(state=7).encode()
    yield (
        "state",
        b"".join(wire.frame(wire.STATE, i, 0, b) for i, b in enumerate((LABEL, b"s", b""))),
    )
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
        yield f"frame-{protocol}", wire.frame(wire.DATA, 5, 4, body, epoch=1)
    yield "control", wire.frame(wire.CONTROL, 5, 4, encode(Change(7)))
    network = group("vcube", 8, tests_at_ns=0)
    for _ in range(65):
        network.broadcast(7)
    for _ in range(3):
        network.settle()
    for kind, name in ((bodies.UP, "up"), (bodies.DOWN, "down")):
        yield f"body-{name}", shortest(network, "vcube", functools.partial(is_of, kind))
    network = group("bundled", tests_at_ns=0)
    network.step(0)
    yield "body-number", network.links[0, 1][0]
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


LABEL = encode_label(Label(7, {1: 3, 2: 0}))


def link_frames():
    """A link numbers, acknowledges, and after a broken connection sends again what is missing."""
    link = Link(1)
    yield link.put(b"first", epoch=1)
    yield link.put(b"second", epoch=2, messages_bytes=6)
    link.take([(wire.DATA, 1, 1, 1, memoryview(b"theirs"))])
    yield link.acknowledgement()
    yield link.acknowledgement(wire.PING)
    yield from link.resume(1)
    yield link.put(b"third", zlib.crc32(b"third"), epoch=0)


@pytest.mark.parametrize(("name", "data"), list(samples()), ids=lambda value: str(value)[:20])
def test_golden_bytes(name, data):
    """The bytes of version 2, fixed: after a change of the format, raise the version."""
    path = GOLDEN / f"{name}.hex"
    assert data.hex(" ", 16) + "\n" == path.read_text(), f"{name} has changed"


def golden(name):
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def frames_in(data):
    """Kind, number, received, epoch and body of frames, by the layout that is documented."""
    found, at = [], 0
    while at < len(data):
        length, kind, number, received, checksum = struct.unpack_from("<IBQQI", data, at)
        size, epoch = 25, None
        if kind in (wire.DATA, wire.CONTROL):
            (epoch,) = struct.unpack_from("<I", data, at + size)
            size += 4
        assert struct.unpack_from("<I", data, at + size) == (zlib.crc32(data[at : at + size]),)
        body = data[at + size + 4 : at + 4 + length]
        assert len(body) == length - size
        assert checksum == zlib.crc32(body)
        found.append((kind, number, received, epoch, body))
        at += 4 + length
    return found


def test_the_golden_files_have_every_kind_of_frame_record_and_item():
    """So no kind can change without a file that does; each is laid out as the pages say."""
    names = [path.stem for path in GOLDEN.glob("*.hex")]
    assert sorted(names) == sorted(name for name, _ in samples())
    for name in ("hello", "hello-asking", "hello-answer", "hello-state"):
        data, check = golden(name)[:-4], golden(name)[-4:]
        assert struct.unpack("<I", check) == (zlib.crc32(data),)
        tags = len(wire.Hello._fields) - (name != "hello-state")
        assert [tag for tag, _ in fields_in(data)] == list(range(tags))
    assert fields_in(golden("hello-answer")[:-4])[-1][1] == (
        b"\x08orders-0\x0d10.0.0.7:7000\x01b\x0a[::1]:7001"
    )
    kinds, records, classes = set(), set(), set()
    for name in names:
        if name.startswith("hello"):
            continue
        part, _, protocol = name.partition("-")
        if part == "body":
            found = [(wire.DATA, 0, 0, 1, golden(name))]
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
    assert kinds == {wire.DATA, wire.ACK, wire.PING, wire.REFUSED, wire.CONTROL, wire.STATE}
    assert records == bodies.KINDS
    assert classes == {contract.MESSAGE, contract.REFERENCE, contract.NUMBER}


def test_a_link_goes_on_with_its_numbers():
    """DATA 1 and 2, what came acknowledged twice, DATA 2 again, CONTROL 3."""
    assert frames_in(golden("link")) == [
        (wire.DATA, 1, 0, 1, b"first"),
        (wire.DATA, 2, 0, 2, b"second"),
        (wire.ACK, 0, 1, None, b""),
        (wire.PING, 0, 1, None, b""),
        (wire.DATA, 2, 1, 2, b"second"),
        (wire.CONTROL, 3, 1, 0, b"third"),
    ]


def fields_in(data):
    """Tags and values of a handshake without its checksum, by the layout that is documented."""
    found, at = [], 10
    assert struct.unpack_from("<4sHHH", data) == (b"prcd", 3, 3, len(data) - at)
    while at < len(data):
        tag, size = struct.unpack_from("<BH", data, at)
        found.append((tag, data[at + 3 : at + 3 + size]))
        at += 3 + size
    return found


def with_members(field):
    """An answer with this field."""
    data = HELLO.encode()[:-7]  # without an empty one, and the checksum
    fields = data[10:] + struct.pack("<BH", 7, len(field)) + field
    return with_sum(data[:8] + struct.pack("<H", len(fields)) + fields + bytes(4))


def with_sum(data):
    """The same with a checksum that is right."""
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def cut_short(count):
    """A handshake that lacks the last bytes of its fields."""
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
        (wire.MAGIC + struct.pack("<HHH", 3, 3, 60_001) + bytes(60_005), "too long"),
        (cut_short(1), "a field is cut short"),
        (cut_short(26), "field 6 has 0 bytes"),
        (HELLO._replace(member="").encode(), "field 0 has 0 bytes"),
        (HELLO._replace(member=65 * "a").encode(), "field 0 has 65 bytes"),
        (HELLO._replace(target=65 * "a").encode(), "field 1 has 65 bytes"),
        (HELLO._replace(address=256 * "a").encode(), "field 6 has 256 bytes"),
        (HELLO._replace(member="a\x1b[2J").encode(), r"b'a\\x1b\[2J' is not a text"),
        (with_sum(HELLO.encode().replace(b"orders-3.", b"orders-\xff.")), "is not a text"),
        (with_members(b"\x01a"), "a member is cut short"),
        (with_members(b"\x01a\x03b:"), "a member is cut short"),
        (with_members(b"\x01a\x01\n"), "is not a text"),
        (with_members(bytes(32_770)), "field 7 has 32770 bytes"),
        (with_sum(HELLO.encode().replace(b"\x02\x10\x00", b"\x07\x10\x00", 1)), "field 2 has 0"),
    ],
)
def test_a_handshake_that_cannot_be_is_refused(data, reason):
    with pytest.raises(PeerError, match=reason):
        wire.decode_hello(data)


@pytest.mark.parametrize("highest", [3, 4, 65535])
@pytest.mark.parametrize("more", [b"", b"\x09\x03\x00new", b"\xff\x00\x00" * 100])
def test_a_handshake_of_a_later_version_is_understood(highest, more):
    """Its range has a version of ours, and tags that are unknown here are passed over."""
    data = HELLO.encode(highest=highest, more=more)
    assert wire.decode_hello(data) == HELLO
    sizes = [wire.hello_bytes(data[:count]) for count in range(len(data) + 1)]
    assert sizes == [None] * 10 + [len(data)] * (len(data) - 9)


def test_an_answer_has_as_many_members_as_fit():
    where = "orders-{}.orders.default.svc.cluster.local:7000"
    many = tuple((f"orders-{i}", where.format(i)) for i in range(999))
    for some in (many[:400], many):
        data = HELLO._replace(members=some).encode()
        found = wire.decode_hello(data)
        assert found == HELLO._replace(members=some[: len(found.members)])
        assert (len(found.members) == len(some)) == (len(some) == 400)
    assert wire.MEMBERS_BYTES_MAX - 100 < len(data) < wire.FIELDS_BYTES_MAX


def test_handshakes_with_changed_bytes_are_refused_or_bounded():
    """With checksums that are right, as a hostile peer makes them."""
    rng, ends = random.Random(4), {True: 0, False: 0}
    for _ in range(20_000):
        data = mutated(rng, ANSWER.encode()[:-4]) + bytes(4)
        try:
            hello = wire.decode_hello(with_sum(data))
        except PeerError:
            ends[False] += 1
            continue
        ends[True] += 1
        texts = [hello.member, hello.target, hello.address, *sum(hello.members, ())]
        assert all(text.isprintable() and len(text) <= 255 for text in texts)
        assert wire.decode_hello(hello.encode()) == hello
    assert min(ends.values()) > 1_000, ends


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
    """The header of a DATA frame that claims a body of this size."""
    length = wire.DATA_OVERHEAD_BYTES + body_bytes
    data = struct.pack("<IBQQII", length, wire.DATA, 1, 0, 0, 1)
    return data + struct.pack("<I", zlib.crc32(data))


def test_a_length_that_is_claimed_takes_no_memory():
    frames = wire.Frames(frame_max_bytes=1 << 24)
    claimed = (1 << 24) - wire.DATA_OVERHEAD_BYTES
    assert not cut(frames, header(claimed) + bytes(60_000))
    assert len(frames.room()) <= 2 * wire.BUFFER_BYTES


@pytest.mark.parametrize("length", [0, wire.DATA_OVERHEAD_BYTES - 1, 1001, 2**32 - 1])
def test_a_length_that_is_not_allowed(length):
    frames = wire.Frames(frame_max_bytes=1000)
    with pytest.raises(PeerError, match="longer than allowed"):
        cut(frames, header(length - wire.DATA_OVERHEAD_BYTES))


def test_a_changed_byte_is_found_wherever_it_is():
    data = wire.frame(wire.DATA, 1, 7, b"payload")
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(wire.Damaged):
                cut(wire.Frames(frame_max_bytes=1000), bytes(changed) + data)


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
    """Whatever came, the arrays agree with each other, and windows bound their size."""
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
