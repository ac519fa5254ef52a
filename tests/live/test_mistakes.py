"""Mistakes of callers: one clear error, at the first possible moment, or the obvious meaning."""

import asyncio
import concurrent.futures
import functools
import itertools
import logging

import pytest

from precedes.errors import UserError
from precedes.live import Config, Group, GroupClosed
from precedes.live.config import from_toml
from precedes.live.net.discovery import RETRY_FIRST_S, RETRY_LAST_S, backoff_s
from tests.support.groups import (
    enter_all,
    group_of,
    leave_all,
    listeners,
    open_all,
    passes,
    run,
    take,
    until,
)

ADDRESSES = ("127.0.0.1:7000", "127.0.0.1:7001")

WRONG = [
    ({"protocol": "nope"}, "no protocol 'nope'"),
    ({"protocol": "mobile"}, "simulated radio"),
    ({"protocol": 7}, "protocol must be text"),
    ({"parameters": {"entries": 7}}, "vector has no parameter 'entries'"),
    ({"protocol": "probabilistic", "parameters": {"entries": "x"}}, "entries takes a whole number"),
    ({"protocol": "probabilistic", "parameters": {"entries": -1}}, "entries must be at least 1"),
    ({"parameters": ["entries"]}, "parameters must be a table"),
    ({"member": True}, "member must be a name, or a number, not True"),
    ({"member": 0.0}, "member must be a name, or a number"),
    ({"member": 2}, "no member 2 among the founders 0, 1"),
    ({"member": "a b"}, "letters, digits or ._-, not 'a b'"),
    ({"member": ""}, "1 to 64 letters"),
    ({"member": 65 * "a"}, "1 to 64 letters"),
    ({"founders": "a,b"}, "founders must be a list of names, or a count, not 'a,b'"),
    ({"founders": ("a", "b")}, "no member 0 among the founders a, b"),
    ({"founders": ("0", "0")}, "two members have the name 0"),
    ({"founders": ("0", "1", "1")}, "two members have the name 1"),
    ({"founders": (0, 1)}, "letters, digits or ._-, not 0"),
    ({"founders": ("0", "1", "2")}, "2 addresses for 3 founders"),
    ({"founders": 2}, "PREFIX-0, PREFIX-1, ..., unlike '0': list their names"),
    ({"founders": 10**9, "member": "a-0"}, "2 to 1024 members, not 1000000000"),
    ({"founders": 2, "member": "a-2"}, "no member a-2 among the founders a-0, a-1"),
    ({"addresses": ()}, "name the members of the group: founders, or addresses"),
    ({"addresses": (), "founders": ("0", "1")}, "address is missing"),
    ({"address": "127.0.0.1:0"}, "127.0.0.1:0 has port 0: name the port"),
    ({"address": ".".join(5 * [50 * "a"]) + ":7000"}, "at most 255 bytes"),
    ({"address": 64 * "a" + ":7000"}, "is not the name of a host"),
    ({"seeds": ("orders",)}, "an address is host:port, not 'orders'"),
    ({"seeds": "orders:7000"}, "seeds must be a list of host:port, not 'orders:7000'"),
    ({"window": "512"}, "window must be a whole number"),
    ({"payload_max_bytes": 1e6}, "payload_max_bytes must be a whole number"),
    ({"addresses": "127.0.0.1:7000"}, "addresses must be a list"),
    ({"addresses": 7000}, "addresses must be a list"),
    ({"addresses": (7000, 7001)}, "an address is host:port, not 7000"),
    ({"addresses": ("127.0.0.1:7000", "127.0.0.1:0")}, "member 1 has port 0 in 127.0.0.1:0, .*: g"),
    ({"addresses": ("[::1:7000", "127.0.0.1:7001")}, r"an address is host:port, not '\[::1:7000'"),
    ({"addresses": ("::1:7000", "[::1]:7001")}, r"needs brackets, \[::1\]:7000, not '::1:7000'"),
    ({"listen": 7000}, "listen must be host:port"),
    ({"listen": "127.0.0.1:0"}, "listen has port 0 in 127.0.0.1:0: name the port"),
    ({"listen": "0.0.0.0:7000"}, "0.0.0.0:7000 can be reached from outside"),
    ({"metrics": "::1:9100"}, r"needs brackets, \[::1\]:9100"),
    ({"key": b"secret"}, "key must be text, not bytes"),
    ({"metrics": 9100}, "metrics must be host:port"),
    ({"security": "keys"}, "security must be a Security"),
    ({"evict_after_s": 0.3}, r"test_every_s \(0.5\) must not be above evict_after_s \(0.3\)"),
    *(
        ({name: value}, f"{name} must be")
        for name in (
            "evict_after_s", "test_every_s", "slow_after_s", "start_s", "drain_s", "linger_s",
            "gap_after_s",
        )
        for value in (-1, "5", float("nan"), None, True)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "reason"), WRONG, ids=lambda value: str(value)[:40])
def test_settings_that_make_no_sense(given, reason):
    with pytest.raises(UserError, match=reason) as caught:
        Config(**{"member": 0, "addresses": ADDRESSES, **given})
    assert "secret" not in str(caught.value)


def test_settings_that_make_sense():
    Config(member=0, addresses=list(ADDRESSES), drain_s=0, linger_s=0, evict_after_s=1)
    Config(member=0, addresses=("[::1]:7000", "localhost:7000"), metrics="127.0.0.1:0")


def test_a_wrong_setting_in_a_file(tmp_path):
    path = tmp_path / "group.toml"
    path.write_text('addresses = ["127.0.0.1:7000", "127.0.0.1:7001"]\nstart_s = "soon"')
    with pytest.raises(UserError, match="start_s must be a number of seconds, not 'soon'"):
        from_toml(path, member=0)


async def test_nothing_is_done_with_a_group_before_it_is_entered():
    one, two = groups = open_all(listeners(2))
    for misuse in (
        one.broadcast(b"early"),
        one.broadcast_many([b"early"]),
        one.finish(),
        one.stable((0, 1)),
        anext(aiter(one)),
        anext(one.batches()),
    ):
        with pytest.raises(UserError, match="enter the group first"):
            await misuse
    with pytest.raises(UserError, match="enter the group first"):
        one.broadcast_nowait(b"early")
    await enter_all(groups)
    await one.broadcast(b"in time")
    assert [message.payload for message in await take(two, 1)] == [b"in time"]
    with pytest.raises(GroupClosed, match="entered once"):
        await one.__aenter__()
    await leave_all(groups)
    with pytest.raises(GroupClosed, match="entered once"):
        await one.__aenter__()


@pytest.mark.parametrize(
    "name", [(-1, 1), (2, 1), (1, 0), (1, -1), (1, 1 << 30), ("1", 1), (1, 1.5), 1, (1, 1, 1), None]
)
async def test_a_message_that_cannot_be_is_not_waited_for(name):
    async with group_of(2) as (one, _):
        with pytest.raises(UserError, match="named \\(member, sequence\\)"):
            await one.stable(name)


async def test_an_own_message_is_waited_for_once_it_was_broadcast():
    async with group_of(2) as (one, two):
        two.on_message(lambda message: None)
        with pytest.raises(UserError, match="0:1 has not been broadcast"):
            await one.stable((0, 1))
        await one.stable(await one.broadcast(b""))
        with pytest.raises(UserError, match="0:2 has not been broadcast"):
            await one.stable((0, 2))


async def _asynchronous(message):
    raise AssertionError("nobody awaits this")


async def _generator(message):
    yield message


class _Callable:
    async def __call__(self, message):
        raise AssertionError("nobody awaits this")


async def test_a_callback_that_would_have_to_be_awaited_is_refused():
    async with group_of(2) as (one, _):
        for wrong in (
            _asynchronous,
            _generator,
            functools.partial(_asynchronous),
            _Callable(),
            None,
        ):
            with pytest.raises(TypeError, match="on_message takes a plain function"):
                one.on_message(wrong)


async def test_a_callback_that_fails_is_logged_now_and_then(caplog):
    with caplog.at_level(logging.ERROR):
        async with group_of(2) as (one, two):
            heard = []

            def fail(message):
                heard.append(message)
                if message.sequence % 2:
                    raise RuntimeError("no")
                return _asynchronous(message)  # looks like a plain function from outside

            two.on_message(fail)
            await one.broadcast_many([b""] * 100)
            await until(lambda: len(heard) == 100)
            assert two.metrics.callback_failures == 100
            assert two.metrics.delivered == 100
    lines = [line for line in caplog.messages if "a callback failed on 0:1" in line]
    assert 1 <= len(lines) <= 10


async def test_many_messages_that_are_cut_short_say_how_many_went_out():
    async with group_of(2, window=8) as (one, two):
        sending = asyncio.create_task(one.broadcast_many([b""] * 20))
        await until(lambda: one.credit == 0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await sending
        assert cancelled.value.broadcast_count == 8
        assert cancelled.value.__notes__ == ["8 of 20 messages were broadcast"]
        with pytest.raises(TimeoutError) as late:
            async with asyncio.timeout(0.05):
                await one.broadcast_many([b""] * 20)
        # As its cause from Python 3.11.3 on.
        assert late.value.__context__.broadcast_count == 0
        assert len(await take(two, 8)) == 8
        await until(lambda: one.credit == 8)
        assert one.counts()["broadcasts"] == 8


def test_redialling_is_drawn_and_slows_down():
    """Members that lost a connection at the same time do not dial at the same time."""
    several = [list(itertools.islice(backoff_s(), 12)) for _ in range(20)]
    for waits_s in several:
        assert RETRY_FIRST_S / 2 <= waits_s[0] <= 3 * RETRY_FIRST_S / 2
        assert all(RETRY_LAST_S / 2 <= wait_s <= 3 * RETRY_LAST_S / 2 for wait_s in waits_s[8:])
    assert len({waits_s[-1] for waits_s in several}) > 10


async def test_calls_from_another_thread_are_refused_and_change_nothing():
    async with group_of(2) as (one, two):
        calls = {
            "broadcast": lambda: asyncio.run(one.broadcast(b"")),
            "broadcast_many": lambda: asyncio.run(one.broadcast_many([b""])),
            "broadcast_nowait": lambda: one.broadcast_nowait(b""),
            "finish": lambda: asyncio.run(one.finish()),
            "stable": lambda: asyncio.run(one.stable((1, 1))),
            "iteration": lambda: asyncio.run(take(one, 1)),
            "on_message": lambda: one.on_message(print),
            "events": one.events,
            "happened_before": lambda: one.happened_before((0, 1), (1, 1)),
        }
        await two.broadcast(b"it waits for somebody")
        await until(lambda: len(one._driver.inbox) == 1)
        for name, call in calls.items():
            with pytest.raises(UserError, match="call broadcast_threadsafe from other threads"):
                await asyncio.to_thread(call)
            assert len(one._driver.inbox) == 1, name
        assert one.counts()["broadcasts"] == 0
        await passes(one, two, b"the group goes on")


def test_other_threads_broadcast_threadsafe():
    each, threads = 50, 4

    async def test():
        async with group_of(2, window=8) as (one, two):

            def broadcast_all(thread):
                return [
                    one.broadcast_threadsafe(b"%d:%d" % (thread, number), timeout=60.0).result()
                    for number in range(each)
                ]

            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                loop = asyncio.get_running_loop()
                jobs = [loop.run_in_executor(pool, broadcast_all, i) for i in range(threads)]
                heard = await take(two, each * threads)
                names = await asyncio.gather(*jobs)
            assert sorted(itertools.chain(*names)) == [(0, i + 1) for i in range(each * threads)]
            for thread in range(threads):
                mine = [m for m in heard if m.payload.startswith(b"%d:" % thread)]
                assert [m.payload for m in mine] == [b"%d:%d" % (thread, i) for i in range(each)]
                assert [(m.sender, m.sequence) for m in mine] == names[thread]
            with pytest.raises(UserError, match="at most"):
                one.broadcast_threadsafe(bytes(one.config.payload_max_bytes + 1))
        return one

    one = run(test())
    with pytest.raises(GroupClosed, match="event loop"):
        one.broadcast_threadsafe(b"late")
    early = Group.open(Config(member=0, addresses=ADDRESSES))
    with pytest.raises(UserError, match="enter the group first"):
        early.broadcast_threadsafe(b"early")


def test_what_may_be_asked_of_a_group_before_it_is_entered():
    group = Group.open(Config(member=0, addresses=ADDRESSES))
    assert group.lags() == {}
    assert group.missing() == []
    assert group.missing_links() == [1]
    assert (group.view, group.credit, group.laggard) == ([0, 1], 0, 0)
    assert (group.error, group.is_over, group.is_finished) == (None, False, False)
    assert (group.tier, group.metrics_address) == ("interpreted", None)
    assert group.counts()["broadcasts"] == 0
