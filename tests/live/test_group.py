"""``Group`` over real sockets: the interface, back-pressure, full disks."""

import asyncio
import logging
import os

import pytest

from precedes.errors import UserError
from precedes.live import (
    Config,
    Group,
    GroupClosed,
    GroupLost,
    SlowMember,
    WouldBlock,
)
from precedes.live.metrics import health
from precedes.trace import read_members
from tests.support.groups import (
    Proxy,
    address_of,
    enter_all,
    group_of,
    leave_all,
    listeners,
    passes,
    take,
    until,
)


@pytest.mark.parametrize(
    "protocol", ["vector", "vcube", "bundled", "probabilistic", "hashed", "dcs"]
)
async def test_all_get_everything(protocol):
    async with group_of(4, protocol=protocol) as groups:
        for number in range(10):
            for group in groups:
                await group.broadcast(f"{number}".encode())
        for group in groups:
            await group.finish()
        found = await asyncio.gather(*(take(group, 1000) for group in groups))
    for who, messages in enumerate(found):
        names = sorted((m.sender, int(m.payload)) for m in messages)
        assert names == [(i, k) for i in range(4) if i != who for k in range(10)]


async def test_many_at_once_wait_for_credit_and_stay_in_order():
    async with group_of(2, window=8) as (one, two):
        payloads = [bytes(number % 5) for number in range(50)]
        equal = [number.to_bytes(2, "little") for number in range(30)]
        sender = asyncio.create_task(one.broadcast_many(payloads))
        await until(lambda: one.credit == 0)
        assert not sender.done()
        assert [m.payload for m in await take(two, 50)] == payloads
        assert await sender == (0, 50)
        sender = asyncio.create_task(one.broadcast_many(equal))
        found = await take(two, 30)
        assert await sender == (0, 80)
        assert [(m.sequence, m.payload) for m in found] == list(enumerate(equal, 51))
        with pytest.raises(UserError, match="at least one"):
            await one.broadcast_many([])
        with pytest.raises(UserError, match="at most"):
            await one.broadcast_many([b"", bytes(one.config.payload_max_bytes + 1)])
        assert one.counts()["broadcasts"] == 80


async def test_batches_callbacks_and_the_rest_of_a_batch():
    async with group_of(3) as (one, two, three):
        heard = []
        three.on_message(heard.append)
        for number in range(20):
            await one.broadcast(bytes([number]))
        first = await take(two, 1)  # the others of its batch are not lost
        rest = []
        async for batch in two.batches():
            assert [m.payload for m in batch] == batch.payloads
            rest += batch.payloads
            if len(rest) == 19:
                break
        assert [first[0].payload, *rest] == [bytes([n]) for n in range(20)]
        await until(lambda: len(heard) == 20)
        assert [m.sequence for m in heard] == list(range(1, 21))


async def test_a_slow_consumer_holds_senders_back_and_memory_down():
    async with group_of(3, window=8) as (one, two, three):
        for _ in range(8):
            one.broadcast_nowait(b"x" * 1000)
        with pytest.raises(WouldBlock):
            one.broadcast_nowait(b"")
        two.on_message(lambda message: None)
        await until(lambda: one.laggard == 2)
        await until(lambda: len(three._driver.inbox) == 8)
        with pytest.raises(WouldBlock):  # three has taken nothing
            one.broadcast_nowait(b"")
        waiting = asyncio.create_task(one.broadcast(b"more"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert len(await take(three, 8)) == 8
        assert await waiting == (0, 9)


async def test_a_member_that_consumes_nothing_is_an_error_if_one_asks_for_it():
    async with group_of(3, window=4, slow="raise", slow_after_s=0.3) as (one, two, three):
        two.on_message(lambda message: None)
        for _ in range(4):
            await one.broadcast(b"")
        await until(lambda: one.laggard == 2)  # not before member 1 has acknowledged
        with pytest.raises(SlowMember, match="member 2"):
            await one.broadcast(b"")
        assert len(await take(three, 4)) == 4


async def test_stable_means_that_all_have_taken_it():
    async with group_of(3) as (one, two, three):
        name = await one.broadcast(b"")
        two.on_message(lambda message: None)
        waiting = asyncio.create_task(one.stable(name))
        elsewhere = asyncio.create_task(two.stable(name))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await take(three, 1)
        await waiting
        await elsewhere


async def test_a_member_that_leaves_is_not_waited_for():
    async with group_of(3, evict_after_s=60.0) as (one, two, three):
        events = two.events()
        await three.broadcast(b"bye")
        three.config = three.config.__class__(
            **{**vars(three.config), "linger_s": 0.05, "drain_s": 0.5}
        )
        two.on_message(lambda message: None)
        one.on_message(lambda message: None)
        await three.__aexit__(None, None, None)
        event = await anext(events)
        assert (event.kind, event.member) == ("left", 2)
        await until(lambda: one.view == [0, 1])
        for _ in range(600):
            await one.broadcast(b"on")


async def test_what_callers_do_wrong_is_said():
    async with group_of(2, payload_max_bytes=10) as (one, two):
        with pytest.raises(UserError, match="at most 10 bytes"):
            await one.broadcast(b"x" * 11)
        await one.finish()
        with pytest.raises(GroupClosed):
            await one.broadcast(b"")
    with pytest.raises(GroupClosed):
        await two.broadcast(b"")


async def test_who_is_left_alone_has_not_finished():
    """Nobody has its message: a group without anybody left to deliver it to has not succeeded."""
    async with group_of(3, evict_after_s=0.6, blocked_s=0.5) as (one, two, three):
        three.broadcast_nowait(b"alone")
        for gone in (one, two):
            gone._driver._stop(GroupLost("it dies"))
            await gone._close()
        await three.finish()
        with pytest.raises(GroupLost, match=r"no quorum of the view for 0\.5 s: member 0, 1"):
            await take(three, 1)


async def test_members_that_do_not_come_are_named():
    with pytest.raises(GroupLost, match="member 0, 2 did not come"):
        async with group_of(3, without=(0, 2), start_s=0.3):
            pass


async def test_a_member_listens_elsewhere_than_where_others_dial_it():
    """As behind a forwarded port: member 1 dials a proxy, which member 0 does not know."""
    socks = listeners(2)
    own = [address_of(sock) for sock in socks]
    for sock in socks:
        sock.close()
    async with Proxy(own[0]) as proxy:
        given = {"listen": own[0]}, {"listen": own[1]}
        addresses = (proxy.address, own[1])
        each = {"addresses": addresses, "start_s": 30.0, "tier": "interpreted"}
        groups = [Group.open(Config(member=i, **each, **given[i])) for i in (0, 1)]
        await enter_all(groups)
        await passes(*groups)
        assert proxy.connections == 1
        await leave_all(groups)


def test_nobody_listens_beyond_this_machine_by_accident():
    addresses = ("0.0.0.0:7000", "10.0.0.2:7000")
    with pytest.raises(UserError, match="can be reached from outside"):
        Config(member=0, addresses=addresses)
    Config(member=0, addresses=addresses, insecure=True)
    with pytest.raises(UserError, match="metrics are served in the clear"):
        Config(member=0, addresses=("127.0.0.1:1", "127.0.0.1:2"), metrics="0.0.0.0:9")


async def test_a_full_disk_stops_tracing_and_nothing_else(tmp_path, caplog):
    async with group_of(2, trace=str(tmp_path)) as (one, two):
        full = os.open("/dev/full", os.O_WRONLY)
        kept = os.dup(one._driver._trace._file)
        os.dup2(full, one._driver._trace._file)
        events = one.events()
        with caplog.at_level(logging.ERROR):
            await one.broadcast(b"unlogged")
            event = await anext(events)
        assert event.kind == "trace"
        assert "No space left" in event.text
        assert "tracing has stopped" in caplog.text
        assert health(one._driver).wrong == ["tracing has stopped"]
        assert (await take(two, 1))[0].payload == b"unlogged"
        os.dup2(kept, one._driver._trace._file)
        one._driver._trace._set_status(3)
    with pytest.raises(UserError, match="lacks events"):
        read_members(tmp_path)


async def test_a_gap_is_reported_with_what_is_missing():
    async with group_of(3, gap_after_s=0.2) as (one, two, three):
        # Member 2 does not hear member 0 for a while.
        held = []
        keep = three._driver.on_bodies
        three._driver.on_bodies = lambda peer, bodies: (
            held.extend((epoch, bytes(body)) for epoch, body in bodies)
            if peer == 0
            else keep(peer, bodies)
        )
        events = three.events()
        await one.broadcast(b"cause")
        await take(two, 1)
        await two.broadcast(b"effect")
        event = await anext(events)
        assert (event.kind, event.member) == ("gap", 1)
        assert "1:1 waits" in event.text
        assert "for 0:1" in event.text
        (gap,) = three.missing()
        assert gap.message == (1, 1)
        assert gap.needs == [(0, 1)]
        three._driver.on_bodies = keep
        keep(0, held)
        assert [m.payload for m in await take(three, 2)] == [b"cause", b"effect"]
        assert three.counts()["pending"] == 0


@pytest.mark.parametrize("protocol", ["vector", "vcube", "hashed"])
async def test_own_messages_are_echoed_in_order_with_those_of_others(protocol):
    async with group_of(3, protocol=protocol, echo=True) as groups:
        for number in range(5):
            for group in groups:
                await group.broadcast(b"%d" % number)
                await asyncio.sleep(0)
        for group in groups:
            await group.finish()
        found = await asyncio.gather(*(take(group, 1000) for group in groups))
        for messages in found:
            names = [(m.sender, m.sequence, int(m.payload) + 1) for m in messages]
            assert sorted(names) == [(i, k, k) for i in range(3) for k in range(1, 6)]


async def test_an_echo_comes_after_its_past_and_before_all_else():
    async with group_of(3, echo=True) as groups:
        heard = [[], [], []]
        wrong = []

        def listen(group, mine):
            def hear(message):
                if message.sender == group.member:
                    wrong.extend(m for m in mine if not group.happened_before(m, message))
                mine.append(message)

            group.on_message(hear)

        for group, mine in zip(groups, heard, strict=True):
            listen(group, mine)
        for number in range(40):
            groups[number % 3].broadcast_nowait(b"")
            if number % 4 == 3:
                await asyncio.sleep(0.002)
        await until(lambda: all(len(mine) == 40 for mine in heard))
        assert wrong == []
        assert [group.metrics.callback_failures for group in groups] == [0, 0, 0]


async def test_what_is_delivered_after_an_echo_is_not_in_its_past():
    async with group_of(2, echo=True) as (one, two):
        echo = await one.broadcast(b"")
        assert [message[:2] for message in await take(one, 1)] == [echo]
        await two.broadcast(b"")
        (later,) = await take(one, 1)
        assert not one.happened_before(later, echo)  # kept: nobody else has taken it
        two.on_message(lambda message: None)


async def test_a_member_that_takes_none_of_its_echoes_gets_no_credit():
    """Or nothing would bound how many of them wait."""
    async with group_of(2, echo=True, window=4, slow="raise", slow_after_s=0.3) as (one, two):
        two.on_message(lambda message: None)
        for _ in range(4):
            await one.broadcast(b"")
        await until(lambda: one.laggard == 0)
        with pytest.raises(SlowMember, match="member 0"):
            await one.broadcast(b"")
        assert one.view == [0, 1]
        assert len(await take(one, 4)) == 4
        await one.broadcast(b"")


async def test_which_of_two_messages_happened_before_the_other():
    async with group_of(3, gap_after_s=60.0) as (one, two, three):
        for group in (one, two):
            await group.broadcast(b"concurrent")
        (first,) = await take(two, 1)
        answer = await two.broadcast(b"answer")
        heard = {(m.sender, m.sequence): m for m in await take(three, 3)}
        other = heard[1, 1]
        order = {(a, b): three.happened_before(heard[a], heard[b]) for a in heard for b in heard}
        assert {pair for pair, is_before in order.items() if is_before} == {
            ((0, 1), (1, 2)), ((1, 1), (1, 2)),
        }  # fmt: skip
        assert three.happened_before((first.sender, first.sequence), answer), "by their names"
        assert not three.happened_before(other, (0, 1))
        one.on_message(lambda message: None)
        await two.stable(answer)
        with pytest.raises(UserError, match="the clock of message 1:2 is not here"):
            two.happened_before((0, 1), answer)
        with pytest.raises(UserError, match="named"):
            two.happened_before("a", answer)


@pytest.mark.parametrize("protocol", ["vcube", "hashed", "bundled"])
async def test_a_clock_that_orders_no_pair_of_messages_says_so(protocol):
    async with group_of(2, protocol=protocol) as (one, _):
        with pytest.raises(UserError, match=f"{protocol} does not order any two messages"):
            one.happened_before((1, 1), (1, 2))
