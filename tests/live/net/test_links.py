"""Connections that are dialled again, kept alive, given up or replaced."""

import asyncio
import logging
import socket
import time

import pytest

from precedes.live.net import links, wire
from tests.support.groups import (
    Proxy,
    address_of,
    end,
    frames_in,
    group_of,
    listeners,
    passes,
    until,
)


async def test_after_a_link_dialling_begins_with_the_shortest_wait(monkeypatch):
    """A connection that breaks now and then for a day is not redialled ever more slowly."""
    waits = []  # for each restart of the back-off, the number of waits

    def noted():
        waits.append(0)
        place = len(waits) - 1
        while True:
            waits[place] += 1
            yield 0.001

    monkeypatch.setattr(links, "backoff_s", noted)
    async with group_of(2) as (one, two):
        dialling = two._driver.links  # the one with the higher number dials, and here it alone
        monkeypatch.setattr(one._driver.links, "want", lambda *_, **more: None)
        for times in range(1, 4):
            connection = dialling.connections[0]
            connection.abort()
            await until(lambda old=connection: dialling.connections.get(0, old) is not old)
            assert dialling.reconnections == times
        assert one.view == two.view == [0, 1]
    assert waits == [1, 1, 1], "slower after a link than at first"


async def test_what_was_accepted_at_the_very_end_is_closed():
    async with group_of(2) as (one, _):
        mine, accepted = socket.socketpair()
        one._driver.links._enter(accepted, "its address")
        one._driver.links.stop_listening()
        with mine:
            mine.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(mine, 1) == b""
        assert accepted.fileno() == -1


SILENT_S = 40.0


class Wire:
    """Transport that records what a connection writes."""

    def __init__(self, connection):
        self.written, self.is_aborted = b"", False
        connection.transport = self

    def is_closing(self):
        return self.is_aborted

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_aborted = True


@pytest.mark.parametrize(
    ("heard", "said", "sends"),
    [(0.0, 0.3, "ping"), (0.3, 0.0, ""), (0.7, 0.3, "ping"), (0.8, 0.0, "abort")],
)
async def test_idle_connections_are_pinged_and_silent_ones_given_up(heard, said, sends):
    """Shares of the patience since anything came, and since anything was sent.

    A ping is not an answer: who hears the pings of the other must send some of its own.
    """
    async with group_of(2, evict_after_s=SILENT_S) as groups:
        one, _ = groups
        await until(lambda: all(g._driver.membership.has_all_installed for g in groups))
        tended, now_s = one._driver.links, time.monotonic()
        for _ in range(2):
            tended.tend(SILENT_S)
        connection = tended.connections[1]
        kept, recorder = connection.transport, Wire(connection)
        connection.received_s = now_s - heard * SILENT_S
        connection.sent_s = now_s - said * SILENT_S
        tended.tend(SILENT_S)
        tended.tend(SILENT_S)
        connection.transport, connection.received_s = kept, time.monotonic()
        kinds = [kind for kind, *_ in frames_in(wire.Frames(frame_max_bytes=99), recorder.written)]
        assert kinds == ([wire.PING] if sends == "ping" else [])
        assert recorder.is_aborted == (sends == "abort")


async def test_after_a_pause_of_this_process_connections_are_kept():
    """Bytes that others sent meanwhile are still to be read."""
    async with group_of(2, evict_after_s=SILENT_S) as (one, _):
        driver = one._driver
        driver.links.connections[1].received_s -= SILENT_S
        driver._beat_ns -= round(SILENT_S * 1e9)
        driver._forgive_own_pause(time.monotonic_ns())
        driver.links.tend(SILENT_S)
        assert not driver.links.connections[1].transport.is_closing()


@pytest.mark.parametrize("silent", [False, True])
async def test_a_handshake_replaces_a_connection_that_has_been_silent(silent, caplog, monkeypatch):
    """Of two connections that were dialled at once the one of the larger life is kept."""
    lives = iter((b"1" * 16, b"2" * 16))
    monkeypatch.setattr(links, "new_life", lambda: next(lives))
    with caplog.at_level(logging.WARNING):
        async with group_of(2, test_every_s=5.0) as (one, two):
            kept = two._driver.links.connections[0]
            kept.received_s -= 6.0 * silent
            hello = one._driver.links.hello(1).encode()
            reader, writer = await asyncio.open_connection(*two._listener.getsockname())
            writer.write(hello)
            answer = await reader.readexactly(wire.HEADER.size)
            assert (answer[: len(wire.MAGIC)] == wire.MAGIC) == silent
            assert (two._driver.links.connections[0] is kept) != silent
            await end(writer)
            await until(lambda: not two.missing_links() and not one.missing_links())
            await passes(one, two)
    assert caplog.messages == [], "both may dial at once"


async def test_a_half_open_connection_evicts_nobody():
    """Member 0 has lost the connection; member 1, which dialled it, sends into the void."""
    socks = listeners(2)
    async with Proxy(socks[0], closes=False) as proxy:
        each = [{}, {"addresses": (proxy.address, address_of(socks[1]))}]
        given = {"evict_after_s": 240.0, "test_every_s": 0.1, "each": lambda i: each[i]}
        async with group_of(2, socks=socks, **given) as (one, two):
            proxy.writers[1].transport.abort()
            await until(lambda: one.missing_links() == [1])
            await passes(one, two)
            assert one.view == two.view == [0, 1]
