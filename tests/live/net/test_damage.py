"""Bytes that are corrupted between two members: nothing is lost, nobody is thrown out."""

import asyncio
import contextlib

import pytest

from precedes.live.net import wire
from tests.support.groups import (
    HELLO_BYTES,
    Proxy,
    address_of,
    exposed,
    group_of,
    listeners,
    passes,
    take,
    until,
)

# In the header: length, kind, number, received, checksum, epoch, check; then in the payload.
PLACES = [0, 3, 4, 5, 13, 21, 25, 29, wire.DATA_HEADER.size + 30]


@contextlib.asynccontextmanager
async def pair(*, handshake=None):
    """Two members, of which the second dials the first by way of a proxy."""
    socks = listeners(2)
    async with Proxy(socks[0]) as proxy:
        if handshake is not None:
            side, at = handshake
            proxy.flip_at[side] = at
        each = [{}, {"addresses": (proxy.address, address_of(socks[1]))}]
        async with group_of(2, socks=socks, each=lambda member: each[member]) as groups:
            yield groups, proxy


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("at", PLACES)
async def test_a_changed_byte_costs_a_connection_and_nothing_else(at, side):
    async with pair() as (groups, proxy):
        sender, receiver = (groups[1], groups[0]) if side == 0 else groups
        sent = [bytes([number]) * 100 for number in range(20)]
        for number, payload in enumerate(sent):
            if number == 5:
                proxy.flip_at[side] = at
            await sender.broadcast(payload)
            await asyncio.sleep(0)
        assert [message.payload for message in await take(receiver, 20)] == sent
        await until(lambda: receiver.metrics.damaged > 0)
        assert receiver.metrics.damaged == 1
        assert "precedes_damaged_total" in exposed(receiver)
        assert not sender.metrics.refusals
        assert not receiver.metrics.refusals
        assert sender.view == receiver.view == [0, 1]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("at", [0, 5, 6, 8, 10, 26, 42, 58, HELLO_BYTES - 1])
async def test_a_changed_handshake_is_said_again(at, side):
    async with pair(handshake=(side, at)) as (groups, proxy):
        assert proxy.flip_at == [None, None], "nothing was changed"
        await passes(groups[0], groups[1], b"there")
