"""Relays in front of members whose connections are broken or held back, in one direction or both.

Each address that members dial is one of a relay. The handshake of a connection, which is not
encrypted here, contains the name of the member that dials.
"""

from __future__ import annotations

import asyncio
import contextlib

from precedes.errors import PrecedesError
from precedes.live.cluster.faults import CHUNK_BYTES
from precedes.live.net import wire
from precedes.live.net.links import listen_on_loopback

Address = tuple[str, int]


class Network:
    """All relays, and the pairs of members whose bytes are held back."""

    def __init__(self) -> None:
        self._held: set[tuple[str, str]] = set()
        self._open: dict[frozenset[str], set[asyncio.StreamWriter]] = {}
        self._changed = asyncio.Event()
        self._relays: list[Relay] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def add(self, name: str) -> Relay:
        """A new relay for a member, at a port of its own."""
        relay = Relay(self, name)
        await relay.start()
        self._relays.append(relay)
        return relay

    def hold(self, source: str, target: str) -> None:
        """Hold back what one member sends to another."""
        self._held.add((source, target))

    def release(self, source: str, target: str) -> None:
        """Pass on what was held back."""
        self._held.discard((source, target))
        self._changed.set()
        self._changed = asyncio.Event()

    def reset(self, one: str, other: str) -> None:
        """Break all connections between two members, with all bytes in flight."""
        for writer in list(self._open.get(frozenset((one, other)), ())):
            writer.transport.abort()

    async def close(self) -> None:
        """End all connections."""
        for relay in self._relays:
            relay.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def accept(self, relay: Relay, reader: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        """Relay a connection."""
        task = asyncio.get_running_loop().create_task(self._relay(relay, reader, far))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(
        self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ends, target = [writer], relay.target
        pair: frozenset[str] = frozenset()
        try:
            assert target is not None, "a relay passes on to a member that was started"
            opening, dialer = await _read_opening(reader)
            pair = frozenset((dialer, relay.name))
            self._open.setdefault(pair, set()).add(writer)
            await self._pass(dialer, relay.name)
            far_reader, far = await asyncio.open_connection(*target, limit=CHUNK_BYTES)
            ends.append(far)
            self._open[pair].add(far)
            far.write(opening)
            pumps = [
                asyncio.ensure_future(self._pump(dialer, relay.name, reader, far)),
                asyncio.ensure_future(self._pump(relay.name, dialer, far_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, EOFError, PrecedesError, wire.Damaged):
            pass  # the other side notices
        finally:
            for end in ends:
                self._open.get(pair, set()).discard(end)
                end.transport.abort()

    async def _pump(
        self, source: str, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._pass(source, target)
                writer.write(data)
                await writer.drain()

    async def _pass(self, source: str, target: str) -> None:
        while (source, target) in self._held:
            await self._changed.wait()


async def _read_opening(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Read a handshake; its bytes, and the name of the member that dials."""
    data = b""
    while (size := wire.hello_bytes(data)) is None or len(data) < size:
        more = await reader.read((size or CHUNK_BYTES) - len(data))
        if not more:
            raise EOFError
        data += more
    return data, wire.decode_hello(data[:size]).member


class Relay:
    """An address of a member, which it may keep when it is started again."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self.target: Address | None = None  # where the present process of the member listens
        self._network = network
        self._socket = listen_on_loopback()
        host, port = self._socket.getsockname()
        self.address = f"{host}:{port}"

    async def start(self) -> None:
        """Accept connections."""

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._network.accept(self, reader, writer)

        self._server = await asyncio.start_server(accept, sock=self._socket, limit=CHUNK_BYTES)

    def stop(self) -> None:
        """Accept no more connections: nobody listens at this address."""
        self._server.close()
