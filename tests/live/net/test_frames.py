"""Frames over a stream that breaks: whatever happens to bytes, bodies arrive once and in order.

The model of each direction is the list of bodies that were sent; what has arrived is always the
beginning of it, and all of it once the connection holds.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from precedes.live.net import wire
from precedes.live.net.link import Link
from tests.support.groups import HELLO_BYTES

FRAME_MAX_BYTES = 1 << 20
SIDES = st.integers(0, 1)


class Frames(RuleBasedStateMachine):
    """Two links, each with its connection's decoder, and the bytes in flight between them."""

    def __init__(self):
        super().__init__()
        self.links = [Link(1), Link(0)]
        self.sent = [[], []]  # by each side
        self.got = [[], []]  # at each side
        self.connect([0, 0])

    def connect(self, received):
        """A new connection, after handshakes that may be older than the last frames."""
        self.decoders = [wire.Frames(frame_max_bytes=FRAME_MAX_BYTES) for _ in self.links]
        self.is_changed = [False, False]  # what is in flight to a side
        self.streams = [bytearray(), bytearray()]  # in flight to each side
        for side, link in enumerate(self.links):
            self.streams[1 - side] += b"".join(link.resume(received[1 - side]))

    def arrive(self, side, count):
        """The next bytes come at a side in one piece; False if that ends the connection."""
        stream, decoder = self.streams[side], self.decoders[side]
        while count and stream:
            room = decoder.room()
            piece = stream[: min(len(room), count)]
            del stream[: len(piece)]
            count -= len(piece)
            room[: len(piece)] = piece
            try:
                frames = decoder.advance(len(piece))
            except wire.Damaged:
                assert self.is_changed[side], "what nobody has changed is refused"
                return False
            self.got[side] += [(e, bytes(body)) for e, body in self.links[side].take(frames)]
        return True

    @rule(
        side=SIDES, body=st.binary(max_size=40), times=st.sampled_from([1, 1, 1, 500, 5000]),
        epoch=st.integers(0, 2),
    )  # fmt: skip
    def send(self, side, body, times, epoch):
        self.sent[side].append((epoch, times * body))
        self.streams[1 - side] += self.links[side].put(times * body, epoch=epoch)

    @rule(side=SIDES, kind=st.sampled_from([wire.ACK, wire.PING]))
    def acknowledge(self, side, kind):
        self.streams[1 - side] += self.links[side].acknowledgement(kind)

    @precondition(lambda self: any(self.streams))
    @rule(side=SIDES, pieces=st.lists(st.integers(1, 300), min_size=1, max_size=8))
    def receive(self, side, pieces):
        if not all(self.arrive(side, count) for count in pieces):
            self.cut([])

    @rule(side=SIDES)
    def receive_all(self, side):
        if not self.arrive(side, len(self.streams[side])):
            self.cut([])

    @precondition(lambda self: any(self.streams))
    @rule(side=SIDES, place=st.integers(0, 1 << 18), bit=st.integers(0, 7))
    def change_a_bit(self, side, place, bit):
        if stream := self.streams[side]:
            stream[place % len(stream)] ^= 1 << bit
            self.is_changed[side] = True

    @rule(late=st.lists(st.tuples(SIDES, st.integers(1, 1 << 12)), max_size=4))
    def cut(self, late):
        """The connection ends; bytes still come, and are acknowledged, after the handshakes."""
        hellos = [self.handshake(side) for side in (0, 1)]
        for side, count in late:
            if not self.arrive(side, count):
                break
            self.acknowledge(side, wire.ACK)
        self.connect([hello.received for hello in hellos])

    def handshake(self, side):
        """The first bytes of a side, as the other one reads them."""
        return wire.decode_hello(self.hello(side))

    def hello(self, side):
        said = wire.Hello(
            member=str(side), target=str(1 - side), group=bytes(16), life=bytes([side]) * 16,
            known=bytes(16), received=self.links[side].received, address="127.0.0.1:34567",
        )  # fmt: skip
        return said.encode()

    @rule(side=SIDES, place=st.integers(4, HELLO_BYTES - 1), bit=st.integers(0, 7))
    def change_a_handshake(self, side, place, bit):
        data = bytearray(self.hello(side))
        data[place] ^= 1 << bit
        try:
            wire.decode_hello(bytes(data))
        except (wire.Damaged, wire.PeerError):
            return
        raise AssertionError("a handshake that has changed is taken")

    @invariant()
    def what_has_come_is_the_beginning_of_what_was_sent(self):
        for side, got in enumerate(self.got):
            assert got == self.sent[1 - side][: len(got)]

    @invariant()
    def what_may_be_missing_is_kept(self):
        for side, link in enumerate(self.links):
            assert link.acknowledged <= len(self.got[1 - side])
            kept = self.sent[side][link.acknowledged :]
            assert link.unacknowledged_bytes == sum(len(body) for _, body in kept)

    def teardown(self):
        self.cut([])
        for side in (0, 1):
            assert self.arrive(side, len(self.streams[side]))
        assert self.got == self.sent[::-1]


TestFrames = Frames.TestCase
TestFrames.settings = settings(max_examples=40, stateful_step_count=40)
