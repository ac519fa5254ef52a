"""Payloads: allowed types, their number and size, and their bytes on the wire."""

import array
import asyncio

import numpy as np
import pytest

from precedes.errors import InternalError, UserError
from precedes.live.member import arrays, effects, records
from precedes.live.member.node import Node, Settings
from precedes.parts import pool
from tests.support.groups import group_of, take
from tests.support.network import Network

WORDS = np.arange(6, dtype=np.int64)
BUFFERS = {
    "a bytearray": bytearray(b"abc"),
    "an array": array.array("q", [1, 2, 3]),
    "a cast memoryview": memoryview(bytes(24)).cast("q"),
    "a NumPy array": WORDS,
    "every other word": WORDS[::2],
    "a table": WORDS.reshape(2, 3),
}


@pytest.mark.parametrize("what", BUFFERS)
async def test_the_bytes_of_any_buffer_are_sent(what):
    buffer = BUFFERS[what]
    wanted = memoryview(buffer).tobytes()
    async with group_of(2, payload_max_bytes=len(wanted)) as (one, two):
        await one.broadcast(buffer)
        one.broadcast_nowait(buffer)
        await one.broadcast_many([buffer, b"x"])
        found = [message.payload for message in await take(two, 4)]
        assert found == [wanted, wanted, wanted, b"x"]


@pytest.mark.parametrize("what", ["an array", "a cast memoryview", "a NumPy array"])
async def test_the_bytes_of_a_buffer_are_counted_not_its_items(what):
    buffer = BUFFERS[what]
    async with group_of(2, payload_max_bytes=len(buffer)) as (one, two):
        with pytest.raises(UserError, match="at most"):
            await one.broadcast(buffer)
        with pytest.raises(UserError, match="at most"):
            one.broadcast_nowait(buffer)
        with pytest.raises(UserError, match="at most"):
            await one.broadcast_many([b"", buffer])
        await one.broadcast(b"ok")
        assert [message.payload for message in await take(two, 1)] == [b"ok"]


@pytest.mark.parametrize("payload", [[1, 2, 3], "text", 5, None], ids=repr)
async def test_what_is_no_buffer_is_refused(payload):
    async with group_of(2) as (one, _):
        with pytest.raises(TypeError, match="bytes or another buffer, not"):
            await one.broadcast(payload)
        with pytest.raises(TypeError, match="bytes or another buffer, not"):
            one.broadcast_nowait(payload)
        with pytest.raises(TypeError, match="bytes or another buffer, not"):
            await one.broadcast_many([b"", payload])
        assert one.credit == one.config.window


def test_a_step_that_cannot_go_on_says_so():
    node = Node(Settings(member=0, members=3, payload_max_bytes=10))
    node.start()
    node.broadcast(bytes(effects.FRAME_BYTES))
    with pytest.raises(InternalError, match="larger than its buffer"):
        node.run(0)


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
async def test_much_at_once_goes_in_frames_that_are_taken(protocol):
    """More bytes in one turn of the loop than a peer takes in one frame."""
    async with group_of(2, protocol=protocol, payload_max_bytes=60_000) as (one, two):
        count = one.config.link_settings().frame_max_bytes // 60_000 + 10
        for _ in range(count):
            one.broadcast_nowait(bytes(60_000))
        assert [m.sequence for m in await take(two, count)] == list(range(1, count + 1))
        assert one.view == two.view == [0, 1]


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
@pytest.mark.parametrize("size_bytes", [2000, effects.FRAME_BYTES + 1])
def test_frames_are_cut_between_records(protocol, size_bytes):
    """None is longer than the bound but for a single record, and few are shorter."""
    count = max(3 * effects.FRAME_BYTES // size_bytes, 3)
    network = Network(protocol, 2, 1, window=count, payload_max_bytes=size_bytes)
    node = network.nodes[0]
    for _ in range(count):
        node.broadcast(bytes(size_bytes))
    frames = node.run(0).frames
    bodies = [common + own.get(1, b"") for common, own, _ in frames]
    assert 3 <= len(bodies) <= 6  # also for stops to make room
    assert max(map(len, bodies)) <= max(effects.FRAME_BYTES, size_bytes + 100)
    receiver = network.nodes[1]
    delivered = []
    for body in bodies:
        receiver.receive(0, body)
        output = receiver.run(0)
        assert not output.malformed
        delivered += [message.sequence for batch in output.deliveries for message in batch]
        for batch in output.deliveries:
            receiver.consume_batch(batch)
    assert delivered == list(range(1, count + 1))


@pytest.mark.parametrize("many", [False, True])
async def test_a_loop_of_broadcasts_lets_others_run(many):
    async with group_of(2, window=4096) as (one, two):
        two.on_message(lambda message: None)
        turns = 0

        def count():
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        count()
        payloads = [bytes(effects.FRAME_BYTES // 4)] * 40
        if many:
            await one.broadcast_many(payloads)
        else:
            for payload in payloads:
                await one.broadcast(payload)
        assert turns >= 5, "there was credit for all of them"
        assert await one.broadcast(b"") == (0, 41)


@pytest.mark.parametrize("protocol", ["vector", "hashed"])
def test_payloads_are_freed_before_messages_are_stable(protocol):
    """An epoch keeps them until its end; the fields stay, and ``happened_before`` reads them."""
    network = Network(protocol, 3, seed=1)
    network.consume = lambda i, message: None  # nothing becomes stable
    for i in (0, 1):
        network.broadcast(i, bytes(300))
        network.settle()
    for node in network.nodes:
        assert node.counts()["messages_kept"] == 2, "its fields are gone"
        assert node.member.blocks.mark[pool.COUNT] == 0, "a payload is still there"
        if protocol == "vector":
            assert node.happened_before((0, 1), (1, 1))


async def test_the_last_number_of_a_message():
    """A sender says so itself; others would take it for a byzantine."""
    async with group_of(2, protocol="unordered") as (one, two):
        before = records.SEQUENCE_MAX - 2
        for group in (one, two):
            for column in (arrays.RECEIVED, arrays.CONSUMED, arrays.STABLE, arrays.FORGOTTEN):
                group._node.member.known[0, column] = before
        one._node.member.consumed_behind[:, 0] = one._node.member.behind[:, 0] = before
        for place in (arrays.OWN_SEQUENCE, arrays.OWN_STABLE):
            one._node.registers[place] = before
        one._node._numbered = before
        one._node._count_credit()
        assert one.credit == 2
        with pytest.raises(UserError, match="go on in a new one"):
            await one.broadcast_many([b"a", b"b", b"c"])
        with pytest.raises(UserError, match="go on in a new one"):
            one.broadcast_nowait(b"c")
        with pytest.raises(UserError, match="go on in a new one"):
            await one.broadcast(b"c")
        assert [message.payload for message in await take(two, 2)] == [b"a", b"b"]
        assert one.view == two.view == [0, 1]
