"""Groups in one process, over real sockets on 127.0.0.1, the protocol interpreted."""

import asyncio
import contextlib
import socket

from precedes.live import Config, Group
from precedes.live.net import wire
from precedes.live.prometheus import Exposed

LIMIT_S = 60.0
HELLO_BYTES = len(wire.Hello(0, 0, bytes(16), bytes(16), bytes(16), 0).encode())


def listeners(count):
    """Sockets that listen on free ports."""
    found = []
    for _ in range(count):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.listen(64)
        found.append(sock)
    return found


def address_of(sock):
    """The address of a socket that listens."""
    return "{}:{}".format(*sock.getsockname())


def configs(socks, *, each=lambda member: {}, **settings):
    """A configuration for each member; ``each`` has settings of one."""
    addresses = tuple(map(address_of, socks))
    common = {"tier": "interpreted", "linger_s": 1.0, "start_s": 30.0, "addresses": addresses}
    return [Config(**{"member": i, **common, **settings, **each(i)}) for i in range(len(socks))]


def open_all(socks, *, registry=None, **settings):
    """Members of a group, none of which is entered."""
    return [
        Group.open(config, listener=sock, registry=registry)
        for config, sock in zip(configs(socks, **settings), socks, strict=True)
    ]


@contextlib.asynccontextmanager
async def group_of(count, *, without=(), socks=None, **settings):
    """Members of a group, all entered; ``without`` leaves their places to the test."""
    socks = socks or listeners(count)
    groups = [group for group in open_all(socks, **settings) if group.member not in without]
    try:
        await enter_all(groups)
        yield groups
    finally:
        await close(groups)
        for sock in socks:
            sock.close()


async def close(groups):
    """Leave all at once, whatever has happened to them."""
    await leave_all([group for group in groups if not group.is_over], return_exceptions=True)


async def enter_all(groups):
    """Enter all at once."""
    await asyncio.gather(*(group.__aenter__() for group in groups))


async def leave_all(groups, *, return_exceptions=False):
    """Leave all at once, as members of a group that ends do."""
    leaving = (group.__aexit__(None, None, None) for group in groups)
    await asyncio.gather(*leaving, return_exceptions=return_exceptions)


def exposed(group):
    """The group's metrics as text."""
    exposed = Exposed(group._driver)
    try:
        return exposed.text().decode()
    finally:
        exposed.close()


def frames_in(decoder, data):
    """The frames that bytes complete in a decoder, with bodies of their own."""
    found = []
    while data:
        room = decoder.room()
        count = min(len(room), len(data))
        room[:count], data = data[:count], data[count:]
        found += [(*header, bytes(body)) for *header, body in decoder.advance(count)]
    return found


async def leave(group):
    """Leave as with an error: without waiting for others to take anything."""
    await group.__aexit__(RuntimeError, RuntimeError("enough"), None)


def run(coroutine, *, new_loop=asyncio.new_event_loop):
    """Run a test's coroutine, not for ever."""

    async def limited():
        async with asyncio.timeout(LIMIT_S):
            return await coroutine

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(limited())


async def until(is_so):
    """Wait for something that other tasks do."""
    while not is_so():  # noqa: ASYNC110 - nobody tells when it is so
        await asyncio.sleep(0.01)


async def end(writer):
    """Close a connection."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def passes(sender, receiver, payload=b"fine"):
    """A message gets from one member to another, and is its next."""
    await sender.broadcast(payload)
    assert [message.payload for message in await take(receiver, 1)] == [payload]


async def take(group, count):
    """The next messages."""
    found = []
    async for message in group:
        found.append(message)
        if len(found) == count:
            return found
    return found


class Proxy:
    """Passes bytes on between members that dial it and one that it dials, until told otherwise.

    Side 0 is that of the members that dial.
    """

    def __init__(self, target, *, closes=True):
        self.target = target.split(":") if isinstance(target, str) else target.getsockname()
        self.closes = closes  # whether the end of one connection ends the other
        self.flip_at = [None, None]  # place of a byte to change in the next chunk of a side
        self.chunk_bytes, self.every_s = 1 << 16, 0.0
        self.connections = 0
        self.writers = []  # of the last connection
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks = []
        self._ends = []

    async def __aenter__(self):
        sock = listeners(1)[0]
        self._server = await asyncio.start_server(self._accept, sock=sock, limit=self.chunk_bytes)
        self.address = address_of(sock)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._ends:
            writer.transport.abort()

    def stall(self):
        """Pass nothing on any more."""
        self._flowing.clear()

    def _accept(self, reader, writer):
        self.connections += 1
        self._ends.append(writer)
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader, writer):
        with contextlib.suppress(OSError):
            far = await asyncio.open_connection(*self.target, limit=self.chunk_bytes)
            self._ends.append(far[1])
            self.writers = [writer, far[1]]
            await asyncio.gather(self._pass(0, reader, far[1]), self._pass(1, far[0], writer))
        if self.closes:
            writer.transport.abort()

    async def _pass(self, side, reader, writer):
        with contextlib.suppress(OSError):
            while data := bytearray(await reader.read(self.chunk_bytes)):
                at = self.flip_at[side]
                if at is not None and at < len(data):
                    data[at] ^= 0x40
                    self.flip_at[side] = None
                await asyncio.sleep(self.every_s)
                await self._flowing.wait()
                if not writer.is_closing():
                    writer.write(data)
                    await writer.drain()
        if self.closes:
            writer.close()


class Impostor:
    """A member with the right greeting and the wrong intentions."""

    def __init__(self, config, socks):
        self.config = config
        self.socks = socks
        self.writers = []

    async def connect(self, target):
        address = self.socks[target].getsockname()
        self.reader, self.writer = await asyncio.open_connection(*address)
        hello = wire.Hello(
            member=self.config.member,
            target=target,
            group=self.config.group_digest(),
            life=b"i" * 16,
            known=bytes(16),
            received=0,
        )
        self.writers.append(self.writer)
        self.writer.write(hello.encode())
        return await self.reader.read(HELLO_BYTES)  # or a refusal

    def send(self, number, body):
        self.writer.write(wire.frame(wire.DATA, number, 0, body))
