"""Members of a cluster tell by a pipe that they are ready, whatever their number."""

import asyncio
import os

from precedes.live.cluster import process, run
from precedes.live.member.node import MEMBERS_MAX


def test_every_member_can_say_that_it_is_ready(monkeypatch):
    """Numbers above 255 too, cut into reads of any size; nothing is broken before the last one."""
    ready, tell_ready = os.pipe()
    began = []
    members = list(range(MEMBERS_MAX))
    supervisor = run._Supervisor(members, ready, [], None, lambda *_: None, load_s=0.0, page=None)
    alive = set(range(MEMBERS_MAX))
    monkeypatch.setattr(process, "ended", lambda number: number not in alive)

    class Fault:
        """Noted when the clock of the faults starts."""

        at_s = 0.0

    async def cause(fault):
        began.append(len(said))

    supervisor.faults = [Fault()]
    supervisor._cause = cause
    said = []

    async def live():
        for who in range(MEMBERS_MAX):
            os.write(tell_ready, process.NUMBER.pack(who))
            said.append(who)
            if who % 300 == 0:
                await asyncio.sleep(0.03)
        await asyncio.sleep(0.1)
        alive.clear()

    async def main():
        _, hung = await asyncio.gather(live(), supervisor.supervise(30.0))
        return hung

    assert asyncio.run(main()) == []
    assert began == [MEMBERS_MAX]
    os.close(ready)
    os.close(tell_ready)
