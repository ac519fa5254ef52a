"""Leaving a group, by whatever way: nothing is lost, nothing stays behind, nobody waits."""

import asyncio
import socket
import traceback

import pytest

from precedes.live import Excluded, Group, GroupLost
from precedes.trace.member_log import LEFT, log_path, read_member_log
from tests.support.groups import Impostor, configs, end, group_of, listeners, take, until

# For an end that would otherwise wait forever.
LONG_S = 1000.0
SOON_S = 20.0
# Another member may have received and reported it first.
GONE = ("left", "excluded")


class Mistake(Exception):
    """Of an application."""


@pytest.fixture(autouse=True)
def endless(monkeypatch):
    """The last frames are awaited for so long that no test passes which awaits what is lost."""
    monkeypatch.setattr("precedes.live.group.FLUSH_S", LONG_S)


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
async def test_what_was_broadcast_before_an_error_arrives(protocol):
    async with group_of(3, protocol=protocol) as (one, two, three):
        for number in range(10):
            await one.broadcast(bytes([number]))
        await one.__aexit__(Mistake, Mistake(), None)
        for other in (two, three):
            assert [m.payload for m in await take(other, 10)] == [bytes([n]) for n in range(10)]


@pytest.mark.parametrize("evict_after_s", [0.3, LONG_S])
async def test_who_leaves_waits_for_no_acknowledgement(evict_after_s):
    """Others close the link when they hear of it, and are silent from then on."""
    patience = {"evict_after_s": evict_after_s, "test_every_s": 0.1}
    async with group_of(3, linger_s=0.01, **patience) as (one, two, three):
        events = two.events()
        for group in (two, three):
            group.on_message(lambda message: None)
        await one.broadcast(b"bye")
        async with asyncio.timeout(SOON_S):
            await one.__aexit__(None, None, None)
        assert one._driver.error is None
        event = await anext(events)
        assert (event.kind in GONE, event.member) == (True, 0)
        await until(lambda: two.view == three.view == [1, 2])


async def test_members_that_leave_at_the_same_time_do_not_wait_for_each_other():
    async with group_of(3) as groups:
        for group in groups:
            await group.broadcast(b"bye")
        async with asyncio.timeout(SOON_S):
            await asyncio.gather(*(g.__aexit__(Mistake, Mistake(), None) for g in groups))


def is_free(sock_name):
    """Return whether nobody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(sock_name) != 0


def status_of(directory, member):
    return read_member_log(log_path(directory, member)).status


async def test_a_member_that_is_cancelled_while_it_drains_is_gone(tmp_path):
    async with group_of(3, trace=str(tmp_path)) as (one, two, three):
        events, name = two.events(), one._listener.getsockname()
        two.on_message(lambda message: None)
        await one.broadcast(b"three does not take it")
        closing = asyncio.create_task(one.__aexit__(None, None, None))
        await until(lambda: one._driver.is_finishing)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert is_free(name)
        assert status_of(tmp_path, 0) == LEFT
        assert not one._driver.links.connections
        assert not any("_tend" in str(task) or "_dial" in str(task) for task in tasks_of(one))
        event = await anext(events)
        assert (event.kind in GONE, event.member) == (True, 0)
        await until(lambda: three.view == [1, 2])
        assert (await take(three, 1))[0].payload == b"three does not take it"


def tasks_of(group):
    """Tasks that a group has left behind."""
    driver = group._driver
    mine = [*driver._tasks, *driver.links._tasks, *driver.links._dialling.values()]
    return [task for task in mine if not task.done()]


async def test_a_member_that_is_cancelled_twice_is_gone(tmp_path):
    """A peer that acknowledges nothing does not keep it, nor does it keep its connections."""
    socks = listeners(2)
    one = Group.open(configs(socks, trace=str(tmp_path))[0], listener=socks[0])
    silent = Impostor(configs(socks)[1], socks)
    entering = asyncio.create_task(one.__aenter__())
    await silent.connect(0)
    await silent.enter()
    await entering
    await one.broadcast(b"")
    closing = asyncio.create_task(one.__aexit__(None, None, None))
    await until(lambda: one._driver.is_finishing)
    closing.cancel()
    await until(lambda: one.is_over)
    assert is_free(socks[1].getsockname()) is False
    assert is_free(("127.0.0.1", int(one.config.addresses[0].rpartition(":")[2])))
    assert status_of(tmp_path, 0) == LEFT
    assert not closing.done()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await silent.reader.read()  # until it is closed
    await until(lambda: not tasks_of(one))
    await end(silent.writer)
    socks[1].close()


async def test_a_member_that_is_cancelled_while_it_waits_for_others_is_gone(tmp_path):
    socks = listeners(3)
    given = configs(socks, trace=str(tmp_path), evict_after_s=LONG_S)
    one, two = (Group.open(given[i], listener=socks[i]) for i in (0, 1))
    entering = [asyncio.create_task(group.__aenter__()) for group in (one, two)]
    drivers = [group._driver for group in (one, two)]
    await until(lambda: all(hasattr(driver, "links") for driver in drivers))
    await until(lambda: all(len(driver.links.connections) == 1 for driver in drivers))
    name = socks[0].getsockname()
    entering[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering[0]
    assert is_free(name)
    assert not log_path(tmp_path, 0).exists(), "a log begins with the first view"
    entering[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering[1]
    socks[2].close()


async def test_every_call_after_the_end_raises_an_error_of_its_own():
    async with group_of(3) as (one, two, three):
        three.on_message(lambda message: None)
        two._driver.membership.suspect(1)
        three._driver.membership.suspect(1)
        await until(lambda: one._driver.error is not None)
        found = []
        for _ in range(20):
            for call in (one.broadcast(b""), one.stable((1, 1)), take(one, 1)):
                with pytest.raises(Excluded) as caught:
                    await call
                found.append(caught.value)
        assert len({id(error) for error in found}) == len(found)
        lines = [len(traceback.extract_tb(error.__traceback__)) for error in found]
        assert max(lines) < 8
        assert len({str(error) for error in found}) == 1
        with pytest.raises(GroupLost):
            await one.__aexit__(None, None, None)
