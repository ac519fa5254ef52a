"""Groups in one process, over real sockets on 127.0.0.1, the protocol interpreted."""

import asyncio
import contextlib
import socket

from precedes.live import Config, Group, prometheus
from precedes.live.net import wire

LIMIT_S = 60.0


def listeners(count):
    """Sockets that listen on free ports."""
    found = []
    for _ in range(count):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.listen(64)
        found.append(sock)
    return found


def configs(socks, *, each=lambda member: {}, **settings):
    """A configuration for each member; ``each`` has settings of one."""
    addresses = tuple(f"127.0.0.1:{sock.getsockname()[1]}" for sock in socks)
    common = {"tier": "interpreted", "linger_s": 1.0, "start_s": 30.0, **settings}
    return [Config(member=i, addresses=addresses, **common, **each(i)) for i in range(len(socks))]


def open_all(socks, *, registry=None, **settings):
    """Members of a group, none of which is entered."""
    return [
        Group.open(config, listener=sock, registry=registry)
        for config, sock in zip(configs(socks, **settings), socks, strict=True)
    ]


@contextlib.asynccontextmanager
async def group_of(count, *, without=(), **settings):
    """Members of a group, all entered; ``without`` leaves their places to the test."""
    socks = listeners(count)
    groups = [group for group in open_all(socks, **settings) if group.member not in without]
    try:
        await asyncio.gather(*(group.__aenter__() for group in groups))
        yield groups
    finally:
        await close(groups)
        for sock in socks:
            sock.close()


async def close(groups):
    """Leave all at once, as members of a group that ends do."""
    await asyncio.gather(
        *(group.__aexit__(None, None, None) for group in groups if not group.is_over),
        return_exceptions=True,
    )


def exposed(group):
    """The group's metrics as text."""
    registry = prometheus.new_registry()
    prometheus.register(registry, group._driver)
    try:
        return prometheus.exposition(registry).decode()
    finally:
        prometheus.unregister(registry, group._driver)


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


async def take(group, count):
    """The next messages."""
    found = []
    async for message in group:
        found.append(message)
        if len(found) == count:
            return found
    return found


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
        return await self.reader.readexactly(wire.HELLO_BYTES)

    def send(self, number, body):
        self.writer.write(wire.frame(wire.DATA, number, 0, body))
