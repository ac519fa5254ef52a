"""A dictionary replicated at every member, whose changes never undo one that they depend on.

    python examples/replicated_dictionary.py

Causal order alone keeps a change behind those that its author knew. Two members that change one
key without knowing of each other are concurrent; all copies then agree on the change with the
larger (count, member), as a Lamport clock orders them.
"""

import asyncio
import json
import random

from live_chat import free_addresses

from precedes.live import Config, Group

MEMBERS = 3
CHANGES = 40


class Replicated:
    """The copy of one member."""

    def __init__(self, group):
        self.group = group
        self.items = {}  # key -> (count, member), value
        self.count = 0

    async def set(self, key, value):
        """Change a key here and at all other members."""
        self.count += 1
        self._apply(self.count, self.group.member, key, value)
        await self.group.broadcast(json.dumps([self.count, key, value]).encode())

    def receive(self, message):
        """Apply a change of another member."""
        count, key, value = json.loads(message.payload)
        self.count = max(self.count, count)
        self._apply(count, message.sender, key, value)

    def _apply(self, count, member, key, value):
        if (count, member) > self.items.get(key, ((0, 0), None))[0]:
            self.items[key] = ((count, member), value)

    def as_dict(self):
        return {key: value for key, (_, value) in sorted(self.items.items())}


async def member(number, addresses):
    """Change keys at random, then wait until all have finished."""
    rng = random.Random(number)
    async with Group.open(Config(member=number, addresses=addresses)) as group:
        copy = Replicated(group)
        group.on_message(copy.receive)
        for turn in range(CHANGES):
            await copy.set(rng.choice("abcdef"), f"{number}.{turn}")
            await asyncio.sleep(0.002 * rng.random())
        await group.finish()
        async for _ in group:
            pass
    return copy.as_dict()


async def main():
    addresses = free_addresses(MEMBERS)
    copies = await asyncio.gather(*(member(i, addresses) for i in range(MEMBERS)))
    same = all(copy == copies[0] for copy in copies)
    print(f"{MEMBERS} copies after {MEMBERS * CHANGES} changes: {'the same' if same else copies}")


if __name__ == "__main__":
    asyncio.run(main())
