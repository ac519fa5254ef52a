"""Views over real sockets: who is lost, what is delivered, and who goes on."""

import asyncio
import contextlib

import pytest

from precedes.audit import audit
from precedes.live import Excluded, GroupLost
from tests.support.groups import (
    Proxy,
    address_of,
    close,
    group_of,
    leave,
    listeners,
    passes,
    take,
    until,
)

PROTOCOLS = ("vector", "vcube", "hashed")
QUICK = {"evict_after_s": 1.0, "test_every_s": 0.2, "blocked_s": 2.0, "linger_s": 3.0}


def collected(group):
    """Names of all messages that a group delivers from now on."""
    names = []
    group.on_message(lambda message: names.append((message.sender, message.sequence)))
    return names


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_survivors_deliver_the_same_of_a_member_that_is_lost(protocol, tmp_path):
    """Under load; what only one of them has delivered, all deliver."""
    trace = str(tmp_path)
    async with group_of(4, protocol=protocol, trace=trace, window=16, **QUICK) as groups:
        got = [collected(group) for group in groups]
        senders = [asyncio.create_task(load(group)) for group in groups]
        await until(lambda: all(len(names) > 100 for names in got))
        await leave(groups[3])
        await until(lambda: all(group.view == [0, 1, 2] for group in groups[:3]))
        lost = [[name for name in names if name[0] == 3] for names in got[:3]]
        assert lost[0] == lost[1] == lost[2]
        reached = [len(names) for names in got[:3]]
        await until(
            lambda: all(len(names) > n + 50 for names, n in zip(got[:3], reached, strict=True))
        )
        for sender in senders:
            sender.cancel()
        for group in groups[:3]:
            await group.finish()
    for names in got[:3]:
        assert len(names) == len(set(names))
        for member in range(4):
            sequences = [number for sender, number in names if sender == member]
            assert sequences == list(range(1, len(sequences) + 1)), "a number is missing or twice"
    (report,) = audit(tmp_path)
    assert report.verdict == "held"
    assert report.lost == 0


async def load(group):
    """Broadcast as much as there is credit for."""
    with contextlib.suppress(GroupLost):
        while True:
            await group.broadcast(b"load")
            await asyncio.sleep(0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_member_that_leaves_is_waited_for(protocol):
    """The others have all of its messages, and it has left, without any loss."""
    async with group_of(3, protocol=protocol, **QUICK) as (one, two, three):
        got = [collected(group) for group in (one, two)]
        events = two.events()
        for _ in range(20):
            await three.broadcast(b"")
        three.config.__dict__["linger_s"] = 0.05
        three.on_message(lambda message: None)
        await three.__aexit__(None, None, None)
        assert three.error is None
        event = await anext(events)
        assert (event.kind, event.member) == ("left", 2)
        await until(lambda: one.view == two.view == [0, 1])
        assert [names == [(2, k) for k in range(1, 21)] for names in got] == [True, True]
        assert one.metrics.evictions == 0
        two._driver.inbox._callbacks = ()
        await passes(one, two)


@pytest.mark.parametrize("cut", ["both ways", "one way", "the other way", "half open"])
async def test_a_broken_link_costs_one_member(cut):
    """Members 0 and 3 do not reach each other; both reach all others."""
    socks = listeners(4)
    closes = cut != "half open"
    async with Proxy(socks[0], closes=closes) as first, Proxy(socks[3], closes=closes) as last:
        direct = list(map(address_of, socks))
        ways = {0: (*direct[:3], last.address), 3: (first.address, *direct[1:])}

        def each(member):
            return {"addresses": ways.get(member, tuple(direct))}

        async with group_of(4, socks=socks, each=each, **QUICK) as groups:
            for group in groups[1:3]:
                group.on_message(lambda message: None)
            for proxy, away in ((first, 0), (last, 1)):
                if cut == "half open" and proxy.writers:
                    proxy.writers[0].transport.abort()
                sides = {"one way": (away,), "the other way": (1 - away,)}.get(cut, (0, 1))
                for side in sides:
                    proxy.stall(side)
            await until(lambda: len(groups[1].view) == 3)
            (gone,) = {0, 1, 2, 3} - set(groups[1].view)
            assert gone in (0, 3)
            rest = [group for group in groups if group.member != gone]
            await until(lambda: all(group.view == rest[0].view for group in rest))
            await until(lambda: groups[gone].error is not None)
            assert isinstance(groups[gone].error, (Excluded, GroupLost))
            (end,) = {0, 3} - {gone}
            await passes(groups[1], groups[end])
            assert [group.metrics.evictions for group in rest] == [1, 1, 1]


async def test_a_minority_waits_and_says_for_whom():
    async with group_of(3, **{**QUICK, "blocked_s": 1.0}) as (one, two, three):
        for group in (two, three):
            await leave_silently(group)
        await until(lambda: one.blocked == ("1", "2") and one.credit == 0)
        waiting = asyncio.create_task(one.broadcast(b"to nobody"))
        await until(lambda: one.error is not None)
        assert "no quorum of the view for 1 s: member 1, 2 cannot be reached" in str(one.error)
        with pytest.raises(GroupLost):
            await waiting


async def leave_silently(group):
    """End as a process that is killed: nothing is announced."""
    group._driver.links.part = lambda: None
    await leave(group)


async def test_of_two_members_the_senior_goes_on():
    async with group_of(2, **QUICK) as (one, two):
        await two.broadcast(b"last")
        await leave_silently(two)
        await until(lambda: one.view == [0])
        assert [message.payload for message in await take(one, 1)] == [b"last"]
        name = await one.broadcast(b"alone")
        await one.stable(name)


async def test_of_two_members_the_junior_does_not():
    async with group_of(2, **{**QUICK, "blocked_s": 0.5}) as (one, two):
        await leave_silently(one)
        await until(lambda: two.error is not None)
        assert two.view == [0, 1]


@pytest.mark.parametrize("protocol", ["probabilistic", "dcs"])
async def test_protocols_without_views_end_with_a_loss(protocol):
    async with group_of(3, protocol=protocol, **QUICK) as (one, two, three):
        await leave(three)
        for group in (one, two):
            await until(lambda group=group: group.error is not None)
            assert f"{protocol} cannot go on without member 2" in str(group.error)


async def test_bundled_goes_on_in_the_same_epoch():
    async with group_of(4, protocol="bundled", **QUICK) as groups:
        got = [collected(group) for group in groups]
        await leave(groups[3])
        await until(lambda: all(group.view == [0, 1, 2] for group in groups[:3]))
        for group in groups[:3]:
            await group.broadcast(b"")
        await until(lambda: all(len(names) == 2 for names in got[:3]))


async def test_names_and_order_go_on_through_epochs():
    """Sequence numbers, stability and the past do not begin again with a view."""
    async with group_of(3, **QUICK) as (one, two, three):
        first = await one.broadcast(b"first")
        (before,) = await take(two, 1)
        await leave(three)
        await until(lambda: one.view == two.view == [0, 1])
        await one.stable(first)
        second = await one.broadcast(b"second")
        assert (first, second) == ((0, 1), (0, 2))
        (after,) = await take(two, 1)
        assert after[:2] == second
        assert two.happened_before(before, after)
        assert one.counts()["broadcasts"] == 2
        two.on_message(lambda message: None)
        await one.stable(second)


async def test_groups_that_lose_members_one_after_the_other(tmp_path):
    async with group_of(5, trace=str(tmp_path), **QUICK) as groups:
        got = [collected(group) for group in groups]
        for left in (4, 3, 2):
            for group in groups[: left + 1]:
                await group.broadcast(b"")
            await leave(groups[left])
            await until(lambda left=left: all(g.view == list(range(left)) for g in groups[:left]))
        await until(lambda: len(got[0]) == len(got[1]))
        await close(groups[2:])
        for group in groups[:2]:
            await group.finish()
    (report,) = audit(tmp_path)
    assert (report.verdict, report.lost) == ("held", 0)
