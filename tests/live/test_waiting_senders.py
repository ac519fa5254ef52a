"""Waiting for credit: first come, first served, each woken once, however many wait."""

import asyncio

import pytest

from precedes.errors import UserError
from tests.support.groups import group_of, run, take, until

MANY = 20_000


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts what it is given to run soon: every wake-up of a task is among it."""

    calls = 0

    def call_soon(self, *args, **more):
        self.calls += 1
        return super().call_soon(*args, **more)


def test_wake_ups_do_not_grow_with_those_who_wait():
    served = 100

    async def test():
        loop = asyncio.get_running_loop()
        async with group_of(2, window=4, evict_after_s=60.0) as (one, two):
            waiting = [
                asyncio.create_task(one.broadcast(str(number).encode())) for number in range(MANY)
            ]
            await until(lambda: len(one._driver.senders) == MANY - 4)
            before = loop.calls
            heard = await take(two, served)
            await until(lambda: one.credit == 0)
            calls = loop.calls - before
            assert [int(message.payload) for message in heard] == list(range(served))
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert not one._driver.senders
            return calls

    loop = CountingLoop()
    calls = run(test(), new_loop=lambda: loop)
    # A few for each message. Waking all for each window of 4 takes MANY * served / 4.
    assert calls < 30 * served


async def test_who_is_cancelled_or_robbed_passes_its_turn_on():
    async with group_of(2, window=1) as (one, two):
        await one.broadcast(b"first")
        waiting = [asyncio.create_task(one.broadcast(b"%d" % number)) for number in range(4)]
        await until(lambda: len(one._driver.senders) == 4)
        waiting[1].cancel()

        def rob(message):
            """Use the credit of the first message before those who wait for it."""
            if message.payload == b"first":
                asyncio.get_running_loop().create_task(use_credit())

        async def use_credit():
            while one.credit == 0:  # noqa: ASYNC110 - it wants to be the first to see it
                await asyncio.sleep(0)
            one.broadcast_nowait(b"robber")

        heard = []
        two.on_message(lambda message: (heard.append(message.payload), rob(message)))
        names = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(names[1], asyncio.CancelledError)
        await until(lambda: len(heard) == 5)
        assert [payload for payload in heard if payload != b"robber"] == [
            b"first", b"0", b"2", b"3",
        ]  # fmt: skip
        assert not one._driver.senders


async def test_a_cancelled_sender_that_was_woken_passes_its_credit_on():
    async with group_of(2, window=1) as (one, two):
        await one.broadcast(b"first")
        waiting = [asyncio.create_task(one.broadcast(b"%d" % number)) for number in range(2)]
        await until(lambda: len(one._driver.senders) == 2)

        async def cancel_woken():
            while not one._driver.senders.woken:
                await one._driver.changed.wait()  # rings before those who wait are woken
            waiting[0].cancel()

        cancelling = asyncio.create_task(cancel_woken())
        assert [message.payload for message in await take(two, 2)] == [b"first", b"1"]
        await cancelling
        assert waiting[0].cancelled()


async def test_a_broadcast_with_a_timeout_sends_nothing_when_it_expires():
    async with group_of(2, window=1) as (one, two):
        await one.broadcast(b"first", timeout=0)
        with pytest.raises(TimeoutError, match=r"waited 0\.05 s: no credit: member 1"):
            await one.broadcast(b"late", timeout=0.05)
        with pytest.raises(UserError, match="timeout must be a number of seconds"):
            await one.broadcast(b"", timeout=-1)
        assert one.counts()["broadcasts"] == 1
        assert not one._driver.senders
        sending = asyncio.create_task(one.broadcast(b"second", timeout=60.0))
        assert [message.payload for message in await take(two, 2)] == [b"first", b"second"]
        assert await sending == (0, 2)


@pytest.mark.parametrize("end", ["finish", "exclude"])
async def test_all_who_wait_learn_that_the_group_has_ended(end):
    async with group_of(3, window=1) as (one, two, three):
        await one.broadcast(b"")
        waiting = [asyncio.create_task(one.broadcast(b"")) for _ in range(5)]
        await until(lambda: len(one._driver.senders) == 5)
        if end == "finish":
            await one.finish()
        else:
            for other in (two, three):
                other._driver.membership.suspect(1)
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        kind = {"finish": "GroupClosed", "exclude": "Excluded"}[end]
        assert [type(error).__name__ for error in errors] == [kind] * 5
        for group in (two, three):
            group.on_message(lambda message: None)
