"""Bytes that change on the way between two members: nothing is lost, nobody is thrown out."""

import asyncio
import contextlib

import pytest

from precedes.live import Group
from precedes.live.net import wire
from tests.support.groups import configs, exposed, listeners, take, until


class Proxy:
    """Passes bytes on; one of them is changed when a test says so."""

    def __init__(self, target):
        self.target = target
        self.flip_at = [None, None]  # of what comes next from who dials, from who is dialled
        self.connections = 0
        self._tasks = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader, writer):
        self.connections += 1
        self._tasks.append(asyncio.current_task())
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            ways = (self._pass(0, reader, far_writer), self._pass(1, far_reader, writer))
            try:
                await asyncio.gather(*ways)
            finally:
                far_writer.close()
                writer.close()

    async def _pass(self, side, reader, writer):
        with contextlib.suppress(OSError):
            while data := bytearray(await reader.read(1 << 16)):
                at = self.flip_at[side]
                if at is not None and at < len(data):
                    data[at] ^= 0x40
                    self.flip_at[side] = None
                writer.write(bytes(data))
        writer.close()


def pair(proxy_address, socks, **settings):
    """Member 1 dials member 0 by way of the proxy."""
    one, two = configs(socks, **settings)
    two = type(two)(**{**vars(two), "addresses": (proxy_address, two.addresses[1])})
    return [Group.open(one, listener=socks[0]), Group.open(two, listener=socks[1])]


# In the header: length, kind, number, received, both checksums; then in the payload.
PLACES = [0, 3, 4, 5, 13, 21, 25, wire.HEADER.size + 30]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("at", PLACES)
async def test_a_changed_byte_costs_a_connection_and_nothing_else(at, side):
    socks = listeners(2)
    async with Proxy(socks[0].getsockname()) as proxy:
        groups = pair(proxy.address, socks)
        await asyncio.gather(*(group.__aenter__() for group in groups))
        sender, receiver = (groups[1], groups[0]) if side == 0 else groups
        sent = [bytes([number]) * 100 for number in range(20)]
        for number, payload in enumerate(sent):
            if number == 5:
                proxy.flip_at[side] = at
            await sender.broadcast(payload)
            await asyncio.sleep(0)
        assert [message.payload for message in await take(receiver, 20)] == sent
        await until(lambda: receiver.metrics.damaged > 0)
        assert receiver.metrics.damaged == 1
        assert "precedes_damaged_total" in exposed(receiver)
        assert not sender.metrics.refusals
        assert not receiver.metrics.refusals
        assert sender.view == receiver.view == [0, 1]
        await asyncio.gather(*(group.__aexit__(None, None, None) for group in groups))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("at", [0, 5, 6, 8, 10, 26, 42, 58, wire.HELLO_BYTES - 1])
async def test_a_changed_greeting_is_said_again(at, side):
    socks = listeners(2)
    async with Proxy(socks[0].getsockname()) as proxy:
        proxy.flip_at[side] = at
        groups = pair(proxy.address, socks)
        await asyncio.gather(*(group.__aenter__() for group in groups))
        await groups[0].broadcast(b"there")
        assert (await take(groups[1], 1))[0].payload == b"there"
        assert proxy.connections > 1
        await asyncio.gather(*(group.__aexit__(None, None, None) for group in groups))
