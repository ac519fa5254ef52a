"""Deliveries to an application: in order, all of them, whatever its callbacks and tasks do."""

import asyncio
import logging

import pytest

from precedes.errors import InternalError
from precedes.live import GroupClosed
from tests.support import edited
from tests.support.groups import group_of, leave, leave_all, take, until


def sequences(messages):
    return [message.sequence for message in messages]


async def test_a_callback_registered_by_a_callback_disorders_nothing():
    async with group_of(2) as (one, two):
        first, second = [], []
        await one.broadcast_many([b""] * 50)
        await one.broadcast_many([b"more"] * 50)
        await until(lambda: len(two._driver.inbox) == 100)

        def register(message):
            first.append(message)
            if message.sequence == 10:
                two.on_message(second.append)

        two.on_message(register)
        assert sequences(first) == list(range(1, 101))
        assert sequences(second) == list(range(11, 101)), "from the next message on"


@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit, RuntimeError])
async def test_a_callback_that_raises_loses_nothing_but_its_own_call(error, caplog):
    with caplog.at_level(logging.ERROR):
        async with group_of(2) as (one, two):
            before, after = [], []

            def fail(message):
                if message.sequence == 5:
                    raise error

            for callback in (before.append, fail, after.append):
                two.on_message(callback)
            await one.broadcast_many([b""] * 40)
            await until(lambda: len(before) == 40)
            assert sequences(before) == sequences(after) == list(range(1, 41))
            assert two.metrics.callback_failures == 1
    assert "a callback failed on 0:5" in caplog.text


async def test_a_callback_may_end_the_process():
    async with group_of(2) as (one, two):
        await one.broadcast(b"")
        await until(lambda: len(two._driver.inbox) == 1)
        heard = []

        def end(message):
            heard.append(message)
            if message.sequence == 1:
                raise SystemExit

        with pytest.raises(SystemExit):
            two.on_message(end)
        await one.broadcast(b"")
        await until(lambda: sequences(heard) == [1, 2])


async def test_a_step_that_fails_stops_the_member(tmp_path, caplog):
    """It has lost what it was handling: going on would lose messages silently."""
    wrong = ("broadcast", "clock[host.source_of(...)] += 1", "clock[host.source_of(...) + 99] += 1")
    protocol = edited.protocol(tmp_path, "vector", wrong)
    async with group_of(2, protocol=protocol, evict_after_s=1.0) as (one, two):
        two.on_message(lambda message: None)
        await one.broadcast(b"")
        with pytest.raises(InternalError, match="the step failed: IndexError"):
            await take(one, 1)
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("begins", ["long before", "just before"])
async def test_a_consumer_that_iterates_gets_everything_while_the_group_is_left(begins):
    async with group_of(2, window=512) as (one, two):
        heard = []

        async def consume():
            async for message in two:
                heard.append(message)
                await asyncio.sleep(0)

        await one.broadcast_many([b""] * 300)
        if begins == "long before":
            consumer = asyncio.create_task(consume())
            await until(lambda: len(heard) >= 5)
        else:
            await until(lambda: len(two._driver.inbox) == 300)
            consumer = asyncio.create_task(consume())
        await leave_all((one, two))
        await consumer
        assert sequences(heard) == list(range(1, 301))


async def test_an_iteration_that_ends_on_leaving_holds_nobody_up():
    async with group_of(2, linger_s=1000.0) as (one, two):
        await one.broadcast_many([b""] * 20)
        async for message in two:
            if message.sequence == 3:
                break
        async with asyncio.timeout(30.0):
            await leave_all((one, two))


async def test_an_iteration_after_messages_were_discarded_raises():
    async with group_of(2) as (one, two):
        await one.broadcast_many([b""] * 20)
        await until(lambda: len(two._driver.inbox) == 20)
        await leave_all((one, two))
        with pytest.raises(GroupClosed, match="20 messages were discarded"):
            await take(two, 1)
        assert await take(one, 1) == [], "it had none"


async def test_what_was_delivered_before_an_error_is_still_there():
    async with group_of(2) as (one, two):
        await one.broadcast_many([b""] * 20)
        await until(lambda: len(two._driver.inbox) == 20)
        await leave(two)
        assert sequences(await take(two, 21)) == list(range(1, 21))
