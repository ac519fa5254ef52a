"""A member of a group of three: member 1 answers the question of member 0.

Run `python examples/member.py NUMBER` for 0, 1 and 2, in three terminals.
"""

import asyncio
import sys

from precedes.live import Config, Group

addresses = ("127.0.0.1:17400", "127.0.0.1:17401", "127.0.0.1:17402")


async def main(member):
    async with Group.open(Config(member=member, addresses=addresses)) as group:
        if member == 0:
            await group.broadcast(b"a question")
        async for message in group:
            print(message.payload.decode(), flush=True)
            if member == 1 and message.payload == b"a question":
                await group.broadcast(b"an answer")


asyncio.run(main(int(sys.argv[1])))
