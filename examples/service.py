"""A member of a group as a service: docs/deploy.md runs it with systemd, Docker and Kubernetes.

MEMBER=0 python examples/service.py examples/group.toml
"""

import asyncio
import os
import signal
import sys

from precedes.live import Group, from_toml


async def main(path):
    """Broadcast a line, print deliveries, and leave the group at SIGTERM."""
    config = from_toml(path, member=os.environ["MEMBER"])
    async with Group.open(config) as group:
        leaving = []
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGTERM, lambda: leaving.append(asyncio.create_task(group.leave()))
        )
        await group.broadcast(f"member {config.member} is up".encode())
        async for message in group:  # ends when the member has left
            print(message.payload.decode(), flush=True)
    print("left the group")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
