"""Groups in one process, over real sockets on 127.0.0.1, the protocol interpreted."""

import asyncio
import contextlib
import itertools
import socket

from precedes.live import Config, Group
from precedes.live.membership.agreement import Timing
from precedes.live.membership.machine import Membership, Send
from precedes.live.membership.records import decode, encode
from precedes.live.membership.values import Entry
from precedes.live.net import wire
from precedes.live.prometheus import Exposed

LIMIT_S = 60.0
HELLO_HEAD_BYTES = 10
# Of members with one digit, at an address with a port of five.
HELLO_BYTES = len(
    wire.Hello("0", "0", bytes(16), bytes(16), bytes(16), 0, "127.0.0.1:34567").encode()
)


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
    """Run a test's coroutine, with a time limit."""

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
    """Passes bytes on between members that dial it and one that it dials, until changed.

    Side 0 is that of the members that dial.
    """

    def __init__(self, target, *, closes=True):
        self.target = target.split(":") if isinstance(target, str) else target.getsockname()
        self.closes = closes  # whether the end of one connection ends the other
        self.flip_at = [None, None]  # place of a byte to change in the next chunk of a side
        self.chunk_bytes, self.every_s = 1 << 16, 0.0
        self.connections = 0
        self.writers = []  # of the last connection
        self._flowing = (asyncio.Event(), asyncio.Event())
        for flowing in self._flowing:
            flowing.set()
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

    def stall(self, side=None):
        """Pass nothing on any more, or nothing of one side."""
        for number, flowing in enumerate(self._flowing):
            if side in (None, number):
                flowing.clear()

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
                await self._flowing[side].wait()
                if not writer.is_closing():
                    writer.write(data)
                    await writer.drain()
        if self.closes:
            writer.close()


class Impostor:
    """A member with the right handshake and the wrong intentions, once the group is founded."""

    def __init__(self, config, socks):
        self.config = config
        self.socks = socks
        self.writers = []
        self.life = b"i" * 16
        me = Entry(0, config.member, self.life)
        self.machine = Membership(me, config.names, group=bytes(16), timing=Timing())
        self._ways = {}  # by life of the other side: reader, writer, numbers of sent frames

    async def connect(self, target):
        """Shake hands; what is answered: a handshake, or a refusal."""
        address = self.socks[target].getsockname()
        self.reader, self.writer = await asyncio.open_connection(*address)
        hello = wire.Hello(
            member=self.config.member,
            target=str(target),
            group=self.config.group_digest(),
            life=self.life,
            known=bytes(16),
            received=0,
            address=self.config.advertised,
        )
        self.writers.append(self.writer)
        self.writer.write(hello.encode())
        data = await self.reader.read(HELLO_HEAD_BYTES)
        rest_bytes = (wire.hello_bytes(data) or 0) - len(data) if data[:4] == wire.MAGIC else 1000
        data += await self.reader.read(rest_bytes)
        if data.startswith(wire.MAGIC):
            life = wire.decode_hello(data).life
            self._ways[life] = self.way = (self.reader, self.writer, itertools.count(1))
            self.machine.link_up(life, str(target))
        return data

    async def enter(self):
        """Take part in founding, as any member does."""
        pumps = [asyncio.create_task(self._pump(life)) for life in self._ways]
        try:
            await until(lambda: self.machine.view is not None)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, life):
        reader, *_ = self._ways[life]
        frames = wire.Frames(frame_max_bytes=1 << 20)
        while data := await reader.read(1 << 16):
            for kind, *_, body in frames_in(frames, data):
                if kind == wire.CONTROL:
                    self.machine.receive(life, decode(body, ids_max=1000))
            for effect in self.machine.drain():
                if isinstance(effect, Send) and effect.life in self._ways:
                    _, writer, numbers = self._ways[effect.life]
                    record = encode(effect.record)
                    writer.write(wire.frame(wire.CONTROL, next(numbers), 0, record))

    def send(self, body):
        """Send DATA to the member that was connected last."""
        self.writer.write(wire.frame(wire.DATA, next(self.way[2]), 0, body, epoch=1))
