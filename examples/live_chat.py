"""A chat in which every answer follows its question.

    python examples/live_chat.py

Three people in one process, each a member of a live group over TCP. For a chat between
terminals, `precedes node` broadcasts the lines that you type.
"""

import asyncio
import socket

from precedes.live import Config, Group

NAMES = ("ann", "bob", "eve")


def free_addresses(count):
    """Free addresses on this machine."""
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in socks]
    for sock in socks:
        sock.close()
    return tuple(addresses)


async def chat(member, addresses):
    """Ann asks, Bob answers, and each member records its deliveries in order."""
    seen = []
    async with Group.open(Config(member=member, addresses=addresses)) as group:
        if NAMES[member] == "ann":
            await group.broadcast(b"has anybody seen my keys?")
        if NAMES[member] != "bob":
            await group.finish()
        async for message in group:
            text = message.payload.decode()
            seen.append(f"{NAMES[message.sender]}: {text}")
            if NAMES[member] == "bob" and text.endswith("?"):
                await group.broadcast(b"on the fridge")
                await group.finish()
    return seen


async def main():
    addresses = free_addresses(len(NAMES))
    pages = await asyncio.gather(*(chat(i, addresses) for i in range(len(NAMES))))
    for name, seen in zip(NAMES, pages, strict=True):
        print(f"{name} sees: {' / '.join(seen)}")


if __name__ == "__main__":
    asyncio.run(main())
