"""A dictionary replicated at every member of a group, whose members are restarted one by one.

    python examples/replicated_dictionary.py --member a --address 127.0.0.1:7001
    python examples/replicated_dictionary.py --member b --address 127.0.0.1:7002 \\
        --seed 127.0.0.1:7001

Members a, b and c found the group; others join it. A line KEY=VALUE of the input is a write, and is
printed when every member has it; the line ? prints the dictionary. SIGTERM leaves the group.

Causal order alone keeps a write behind those that its author knew. Two members that write one key
without knowing of each other are concurrent; all copies then agree on the write with the larger
(count, member), as a Lamport clock orders them.
"""

import argparse
import asyncio
import json
import signal
import sys

from precedes.live import Config, Group


class Dictionary:
    """The state of the group: the same at all members that have the same messages."""

    def __init__(self):
        self.items = {}  # key -> [count, member, value]
        self.count = 0

    def change(self, key, value):
        """The message of a write; it counts once it is applied, here and elsewhere."""
        self.count += 1
        return json.dumps([self.count, key, value]).encode()

    def apply(self, message):
        """Apply a write of any member, this one included."""
        count, key, value = json.loads(message.payload)
        self.count = max(self.count, count)
        write = [count, message.sender, value]
        if write[:2] > self.items.get(key, [0, 0])[:2]:
            self.items[key] = write

    def dump(self):
        """The dictionary for a member that joins."""
        return json.dumps([self.count, self.items]).encode()

    def load(self, chunks):
        """Begin with the dictionary of another member."""
        self.count, self.items = json.loads(b"".join(chunks))


async def serve(group, dictionary):
    """Carry out the lines of the input."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        key, _, value = line.decode().strip().partition("=")
        if key == "?":
            values = {key: value for key, (*_, value) in sorted(dictionary.items.items())}
            print(json.dumps(values), flush=True)
        else:
            await group.stable(await group.broadcast(dictionary.change(key, value)))
            print(f"{key}={value}", flush=True)


async def loss(group):
    """Wait until this member cannot go on: it was excluded, or the group is lost."""
    async for event in group.events():
        if event.kind == "lost":
            return


async def main(config):
    """Take part until the input ends, SIGTERM comes, or the group is lost."""
    dictionary, stopped = Dictionary(), asyncio.Event()
    async with Group.open(config, state=dictionary) as group:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        print("ready", flush=True)
        ends = [serve(group, dictionary), stopped.wait(), loss(group)]
        tasks = [asyncio.create_task(end) for end in ends]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await group.leave()  # loses nothing; raises if the group is lost: then start again
    print("left the group", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--member", required=True)
    parser.add_argument("--founders", default="a,b,c")
    parser.add_argument("--address", required=True)
    parser.add_argument("--seed", action="append", default=[])
    parser.add_argument("--metrics")
    options = parser.parse_args()
    asyncio.run(
        main(
            Config(
                name="dictionary",
                member=options.member,
                founders=tuple(options.founders.split(",")),
                address=options.address,
                seeds=tuple(options.seed),
                metrics=options.metrics,
            )
        )
    )
