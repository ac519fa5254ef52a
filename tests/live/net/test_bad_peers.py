"""A peer that sends what no member sends is dropped and counted, while the group goes on."""

import asyncio
import contextlib
import logging
import random
import struct

import pytest

from precedes.live import Group, GroupLost
from precedes.live.member import records
from precedes.live.net import wire
from precedes.live.net.links import Connection
from tests.support.groups import (
    Impostor,
    configs,
    end,
    frames_in,
    group_of,
    leave,
    leave_all,
    listeners,
    passes,
    take,
    until,
)

GARBAGE = {
    "noise": random.Random(1).randbytes(4096),
    "nothing at all": b"",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "a huge length": struct.pack("<I", 2**31) + bytes(100),
}


@pytest.mark.parametrize("what", GARBAGE)
async def test_foreign_peers_are_dropped_and_counted_while_the_group_goes_on(what, monkeypatch):
    monkeypatch.setattr("precedes.live.net.links.HANDSHAKE_S", 0.3)
    async with group_of(2) as (one, two):
        port = one._listener.getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GARBAGE[what])
        with contextlib.suppress(ConnectionError):
            await reader.read()  # until it is closed
        await end(writer)
        await passes(two, one)
        assert sum(one.metrics.refusals.values()) == 1


async def test_handshakes_of_all_kinds_are_counted_under_few_reasons():
    """Text of a peer is logged, but never the label of a metric."""
    async with group_of(2, protocol="bundled") as (one, two):  # a fixed group: nobody joins
        hello = two._driver.links.hello(0)
        for number in range(3, 40):
            for wrong in (
                hello._replace(member=str(number)),
                hello._replace(target=str(number)),
                hello._replace(life=bytes([number] * 16)),
                hello._replace(group=bytes([number] * 16)),
                hello,
            ):
                data = bytearray(wrong.encode())
                data[4] += number * (wrong is hello)  # the version
                reader, writer = await asyncio.open_connection(*one._listener.getsockname())
                writer.write(data)
                await reader.read()
                await end(writer)
        assert one.metrics.refusals == {
            "its handshake names the wrong members": 2 * 37,
            "it was restarted, or two processes have its name": 37,
            "it belongs to another group, or its settings differ": 37,
            "it speaks another version": 37,
        }


async def test_a_member_of_version_2_is_refused_by_a_frame_that_it_understands(caplog):
    async with group_of(2) as (one, two):
        reader, writer = await asyncio.open_connection(*one._listener.getsockname())
        writer.write(struct.pack("<4sHHH16s16s16sQI", b"prcd", 2, 1, 0, b"", b"", b"", 0, 0))
        (frame,) = frames_in(wire.Frames(frame_max_bytes=1000), await reader.read())
        await end(writer)
        said = "it speaks another version: version 2, this member 3"
        assert (frame[0], frame[-1]) == (wire.REFUSED, said.encode())
        assert [line for line in caplog.messages if said in line] == caplog.messages
        await passes(two, one)


@pytest.mark.parametrize("dialled", [False, True])
async def test_no_handshake_in_time_is_not_worth_a_warning(dialled, caplog):
    """A member that is dialled while it starts answers late, and is dialled again."""
    with caplog.at_level(logging.INFO):
        async with group_of(2) as (one, _):
            connection = Connection(one._driver.links, 1 if dialled else None, "its address")
            connection._on_handshake_timeout()
            assert one.metrics.refusals == ({} if dialled else {"no handshake": 1})
    assert not any("its address" in line for line in caplog.messages)


def message(source, sequence, need, payload=b""):
    """A packet with one message of ``vector``, as bytes."""
    words = b"".join(bytes([2 * word]) for word in need)
    head = struct.pack("<BHBHI", records.PACKET, 1, 0, source, sequence)
    return head + struct.pack("<H", len(need)) + words + struct.pack("<I", len(payload)) + payload


BAD = {
    "a clock that claims our messages": (message(2, 1, [5, 0, 0]), "impossible"),
    "a sequence far ahead": (message(2, 900, [0, 0, 0]), "does not come by"),
    "a message of somebody else": (message(1, 1, [0, 0, 0]), "does not come by"),
    "a member that is not there": (message(9, 1, [0, 0, 0]), "names no member"),
    "an unknown record": (b"\xff", "unknown kind"),
    "a record cut short": (message(2, 1, [0, 0, 0])[:-2], "cut short"),
    "an oversized payload": (message(2, 1, [0, 0, 0])[:-4] + b"\xff\xff\xff\x7f", "longer"),
}


@pytest.mark.parametrize("what", BAD)
async def test_a_member_that_sends_nonsense_is_excluded_and_the_others_go_on(what):
    body, reason = BAD[what]
    await send_nonsense(lambda config: body, reason)


async def send_nonsense(make_body, reason, **settings):
    """Member 2 sends something to member 0, which finds a reason to go on without it."""
    settings |= {"evict_after_s": 0.5, "test_every_s": 0.1}
    async with next_to_an_impostor(**settings) as (one, two, bad):
        bad.send(make_body(bad.config))
        await until(lambda: one.view == two.view == [0, 1])
        assert any(reason in text for text in one.metrics.refusals), one.metrics.refusals
        await passes(two, one)


async def test_a_group_is_not_founded_without_all_founders():
    """One has died after it was met, and two never come."""
    socks = listeners(4)
    given = configs(socks, evict_after_s=0.3, test_every_s=0.1, start_s=2.0)
    dead = Impostor(given[1], socks)
    one = Group.open(given[0], listener=socks[0])
    entering = asyncio.create_task(one.__aenter__())
    await dead.connect(0)
    await end(dead.writer)
    with pytest.raises(GroupLost, match="member 1, 2, 3 did not come"):
        await entering
    for sock in socks[1:]:
        sock.close()


async def test_a_founder_that_was_restarted_is_waited_for():
    """Its first life ends before the others come; view 1 has the second."""
    socks = listeners(3)
    given = configs(socks, start_s=20.0)
    first = Impostor(given[2], socks)
    groups = [Group.open(given[i], listener=socks[i]) for i in range(3)]
    entering = [asyncio.create_task(groups[0].__aenter__())]
    await first.connect(0)
    await end(first.writer)
    entering += [asyncio.create_task(group.__aenter__()) for group in groups[1:]]
    await asyncio.gather(*entering)
    await passes(groups[2], groups[0])
    await leave_all(groups)


@contextlib.asynccontextmanager
async def next_to_an_impostor(**settings):
    """Members 0 and 1 of a group, and somebody in the place of member 2 that both have met."""
    socks = listeners(3)
    given = configs(socks, **{"evict_after_s": 30.0, **settings})
    bad = Impostor(given[2], socks)
    groups = [Group.open(given[i], listener=socks[i]) for i in (0, 1)]
    entering = asyncio.gather(*(group.__aenter__() for group in groups))
    await bad.connect(1)
    await bad.connect(0)
    await bad.enter()
    await entering
    try:
        yield *groups, bad
    finally:
        leaving = asyncio.gather(*map(leave, groups))
        for writer in bad.writers:
            await end(writer)
        await leaving
        socks[2].close()


def number_items(tag, values):
    """Packets of one number each."""
    return b"".join(struct.pack("<BHBQ", records.PACKET, 1, tag, value) for value in values)


def is_given_up(group):
    return any("does not acknowledge" in reason for reason in group.metrics.refusals)


async def test_who_acknowledges_nothing_is_given_up_however_much_it_asks():
    """Its tests are answered, and the answers kept for it, up to a bound."""
    async with next_to_an_impostor(window=4) as (one, _, bad):
        body = number_items(1, range(1, 10_001))
        bad.send(body)
        await until(lambda: is_given_up(one))
        assert one.lags()[2] == 0
        assert await bad.reader.read(1 << 16), "it had been answered before"
        bad.send(body)
        with contextlib.suppress(ConnectionError):
            while await bad.reader.read(1 << 16):
                pass


async def test_who_takes_messages_that_it_does_not_acknowledge_is_given_up():
    async with next_to_an_impostor(window=4) as (one, two, bad):
        two.on_message(lambda message: None)
        kept = [0]
        while not is_given_up(one):
            _, number = await one.broadcast(bytes(1000))
            await until(lambda: one.lags()[2] > kept[-1] or is_given_up(one))
            kept.append(one.lags()[2])
            bad.send(struct.pack("<BHIH", records.UP, 0, number, 2))
        assert 4 * 1000 < max(kept) < 100_000


async def test_who_does_not_hear_for_a_while_is_not_given_up():
    """The twin: a whole window of large messages waits for it."""
    async with group_of(2, window=8, payload_max_bytes=1 << 20) as (one, two):
        deaf = two._driver.links.connections[0].transport
        deaf.pause_reading()
        for _ in range(8):
            one.broadcast_nowait(bytes(1 << 20))
        await until(lambda: one.lags()[1] > 8 << 20)
        assert one.metrics.refusals == {}
        deaf.resume_reading()
        assert len(await take(two, 8)) == 8
