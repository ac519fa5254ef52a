"""Links that carry data so slowly that records of the failure detector are queued for long.

No second queue is needed for these records: any byte of a member is a sign of life.
"""

import asyncio
import contextlib
import time

from tests.support.groups import Proxy, address_of, group_of, listeners, until

PATIENCE_S = 1.0
PAYLOAD_BYTES = 1 << 16
WINDOW = 8
CHUNK_BYTES, EVERY_S = 1 << 12, 0.05  # a payload takes 0.8 s, a window 6.4 s


@contextlib.asynccontextmanager
async def slowly_linked():
    """Three members; the last one is linked by proxies, and all broadcast as much as they may."""
    socks = listeners(3)
    async with (
        Proxy(socks[0]) as first,
        Proxy(socks[1]) as second,
        Proxy(socks[2]) as third,
        asyncio.TaskGroup() as tasks,
    ):
        direct, proxies = list(map(address_of, socks)), (first, second, third)
        ways = (*direct[:2], third.address), (first.address, second.address, direct[2])

        def each(member):
            return {"addresses": ways[member == 2]}

        given = {"evict_after_s": PATIENCE_S, "test_every_s": 0.1, "drain_s": 0.1, "linger_s": 0.1}
        given["blocked_s"] = PATIENCE_S
        async with group_of(3, socks=socks, each=each, window=WINDOW, **given) as groups:
            for proxy in proxies:
                proxy.chunk_bytes, proxy.every_s = CHUNK_BYTES, EVERY_S
            for group in groups:
                group.on_message(lambda message: None)
            senders = [tasks.create_task(broadcast(group)) for group in groups]
            await until(lambda: all(group.credit == 0 for group in groups))
            yield groups, proxies
            for sender in senders:
                sender.cancel()
            for proxy in proxies:
                proxy.chunk_bytes, proxy.every_s = 1 << 16, 0.0


async def broadcast(group):
    with contextlib.suppress(Exception):  # the end of the group, where one is expected
        while True:
            await group.broadcast(bytes(PAYLOAD_BYTES))


async def test_a_member_is_not_excluded_while_bytes_flow():
    """Its records come many times later than the patience; the twin is below."""
    async with slowly_linked() as (groups, _):
        one, two, three = groups
        began_s = time.monotonic()
        lags = []
        while time.monotonic() < began_s + 3 * PATIENCE_S:
            await asyncio.sleep(PATIENCE_S / 4)
            lags.append(min(one.lags()[2], two.lags()[2], three.lags()[0], three.lags()[1]))
            assert one.view == two.view == three.view == [0, 1, 2]
        # The queue of each way took longer than the patience all the time.
        assert min(lags) > 2 * PATIENCE_S / EVERY_S * CHUNK_BYTES
        assert [group.metrics.evictions for group in groups] == [0, 0, 0]


async def test_a_member_whose_link_stalls_for_good_is_excluded():
    """With windows of data in flight, and the others go on."""
    async with slowly_linked() as (groups, proxies):
        one, two, three = groups
        for proxy in proxies:
            proxy.stall()
        await until(lambda: one.view == two.view == [0, 1])
        await until(lambda: three.error is not None)
        assert "no quorum of the view for 1 s: member 0, 1" in str(three.error)
        before = one.metrics.delivered
        await until(lambda: one.metrics.delivered > before + 2 * WINDOW)
