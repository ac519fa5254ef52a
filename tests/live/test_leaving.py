"""``Group.leave``: nothing is lost, and nobody is waited for."""

import asyncio
import signal
import subprocess

import pytest

from precedes.errors import UserError
from precedes.live import GroupClosed, GroupLost
from tests.support import commands
from tests.support.groups import address_of, group_of, listeners, open_all, passes, until

# A wait for the others to finish would not end.
LONG = {"linger_s": 1000.0, "drain_s": 1000.0}
SOON_S = 20.0


async def test_a_member_leaves_without_waiting_for_the_others_to_finish():
    async with group_of(3, **LONG) as (one, two, three):
        got = [[], []]
        for names, group in zip(got, (one, two), strict=True):
            group.on_message(lambda message, names=names: names.append(message[:2]))
        events = two.events()
        for _ in range(20):
            await three.broadcast(b"")
        async with asyncio.timeout(SOON_S):
            await three.leave()
        assert got == [[(2, k) for k in range(1, 21)]] * 2
        event = await anext(events)
        assert (event.kind, event.member) == ("left", 2)
        assert three.is_over
        async with asyncio.timeout(SOON_S):
            await three.leave()
            await three.__aexit__(None, None, None)
        with pytest.raises(GroupClosed):
            await three.broadcast(b"")
        await until(lambda: one.view == two.view == [0, 1])
        two._driver.inbox._callbacks = ()
        await passes(one, two)
        async with asyncio.timeout(SOON_S):
            await asyncio.gather(one.leave(), two.leave())


async def test_members_that_leave_together_do_not_wait_for_each_other():
    async with group_of(3, **LONG) as groups:
        for group in groups:
            group.on_message(lambda message: None)
            await group.broadcast(b"bye")
        async with asyncio.timeout(SOON_S):
            await asyncio.gather(*(group.leave() for group in groups))
        assert [group.error for group in groups] == [None, None, None]


async def test_the_end_of_the_block_waits_for_a_leave_of_another_task():
    """A handler of SIGTERM calls it; the iteration ends, and nothing is cut off."""
    async with group_of(3, **LONG) as (one, two, three):
        one.on_message(lambda message: None)
        two.on_message(lambda message: None)
        got = []

        async def iterate():
            async for message in three:
                got.append(message.payload)
            await three.__aexit__(None, None, None)
            assert not three._driver.links.connections

        iterating = asyncio.create_task(iterate())
        await one.broadcast(b"last")
        await until(lambda: got)
        async with asyncio.timeout(SOON_S):
            leaving = asyncio.create_task(three.leave())
            await iterating
            await leaving
        assert got == [b"last"]
        await until(lambda: one.view == [0, 1])
        await asyncio.gather(one.leave(), two.leave())


async def test_a_leave_cuts_the_end_of_the_block_short():
    async with group_of(2, **LONG) as (one, two):
        one.on_message(lambda message: None)
        ending = asyncio.create_task(two.__aexit__(None, None, None))
        await until(lambda: two._driver.is_finishing)
        await asyncio.sleep(0.1)
        assert not ending.done()
        async with asyncio.timeout(SOON_S):
            await two.leave()
            await ending
        await one.leave()


async def test_an_error_in_the_block_ends_a_leave_at_once():
    """Nobody consumes what was broadcast."""
    async with group_of(2, **LONG) as (one, two):
        await one.broadcast(b"")
        leaving = asyncio.create_task(one.leave())
        await until(lambda: one._driver.is_finishing)
        async with asyncio.timeout(SOON_S):
            await one.__aexit__(KeyError, KeyError(), None)
        assert leaving.cancelled()
        await two.__aexit__(KeyError, KeyError(), None)


async def test_a_member_that_was_lost_leaves_with_its_error():
    async with group_of(2, **LONG) as (one, two):
        two._driver._stop(GroupLost("no quorum"))
        with pytest.raises(GroupLost, match="no quorum"):
            await two.leave()
        await two.__aexit__(None, None, None)
        await one.leave()


async def test_a_group_is_left_after_it_is_entered():
    socks = listeners(2)
    group, _ = open_all(socks)
    with pytest.raises(UserError, match="enter the group first"):
        await group.leave()
    for sock in socks:
        sock.close()


def test_a_node_leaves_with_a_view_at_sigterm():
    """Its input is open; the other one goes on."""
    socks = listeners(2)
    addresses = [address_of(sock) for sock in socks]
    for sock in socks:
        sock.close()
    ways = [word for address in addresses for word in ("--address", address)]
    lines = [
        commands.command("node", "--interpreted", "--member", member, *ways) for member in (0, 1)
    ]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with (
        subprocess.Popen(lines[0], text=True, **pipes) as one,
        subprocess.Popen(lines[1], text=True, **pipes) as two,
    ):
        two.stdin.write("hello\n")
        two.stdin.flush()
        assert one.stdout.readline() == "1: hello\n"
        two.send_signal(signal.SIGTERM)
        assert two.wait(timeout=60) == 0
        assert two.stderr.read().endswith("precedes: member 1 has left the group\n")
        one.send_signal(signal.SIGTERM)
        assert one.wait(timeout=60) == 0
