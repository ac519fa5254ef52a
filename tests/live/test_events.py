"""Events of a group: what lasts too long is reported once, and who listens is not kept."""

import asyncio

from precedes.live.metrics import health
from tests.support.groups import group_of, take


async def kinds_until(events, kind):
    """Events up to the first of a kind."""
    found = []
    async for event in events:
        found.append(event)
        if event.kind == kind:
            return found
    raise AssertionError(f"no event {kind}: {found}")


async def test_a_sender_that_is_blocked_is_an_event_a_state_of_health_and_a_time():
    async with group_of(3, window=2, gap_after_s=0.2) as (one, two, three):
        two.on_message(lambda message: None)
        events = one.events()
        assert one.metrics.blocked_s == 0.0
        for _ in range(2):
            await one.broadcast(b"")
        sending = asyncio.create_task(one.broadcast(b"third"))
        *others, event = await kinds_until(events, "blocked")
        assert (others, event.member) == ([], 2)
        assert event.text.startswith("holds back 1 broadcasts")
        status, (wrong,) = health(one._driver)
        assert (status, wrong.endswith("member 2 holds them back")) == ("degraded", True)
        first_s = one.metrics.blocked_s
        await asyncio.sleep(0.01)
        second_s = one.metrics.blocked_s
        assert 0.2 < first_s < second_s, "it stands still during a wait"
        assert len(await take(three, 2)) == 2
        await sending
        assert health(one._driver).status == "ready"
        ended_s = one.metrics.blocked_s
        assert second_s <= ended_s == one.metrics.blocked_s
        assert not events.queue, "reported once"


async def test_many_who_wait_are_blocked_for_one_time():
    async with group_of(2, window=1) as (one, two):
        await one.broadcast(b"")
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        sending = [asyncio.create_task(one.broadcast(b"")) for _ in range(10)]
        await asyncio.sleep(0.05)
        assert one.metrics.blocked_s <= loop.time() - began_s, "not the sum over tasks"
        two.on_message(lambda message: None)
        await asyncio.gather(*sending)
        assert one.metrics.blocked_s <= loop.time() - began_s
        assert one.metrics.blocked_since_ns is None


async def test_who_asked_for_events_and_never_iterated_is_forgotten():
    async with group_of(2) as (one, _):
        for _ in range(10):
            one.events()
        assert len(one._driver.events.listeners) == 0
        kept = one.events()
        assert len(one._driver.events.listeners) == 1
        listening = asyncio.create_task(anext(kept, None))
    assert await listening is None, "it ends with the group"
