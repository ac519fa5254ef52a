"""A member with replicated state, which serves load until a command to leave or to finish.

It reports each view that it installs, as a JSON line in a pipe that all members share.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import socket
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from precedes.live.cluster import process
from precedes.live.cluster.process import WARM_UP_S, Load, Task
from precedes.live.errors import Excluded, GroupLost, Replaced
from precedes.live.group import Group
from precedes.live.inbox import ViewChange
from precedes.live.member.output import Message

# Commands to a member, over a pipe of its own; its end is a command to leave.
LEAVE: Final = b"l"
FINISH: Final = b"f"
POLL_S: Final = 0.02
# Time before and after the installation of a view in which a gap of deliveries is part of it.
AROUND_US: Final = 500_000
GAP_US: Final = 1000  # shorter ones are not kept
GAPS_MAX: Final = 20_000


@dataclass(frozen=True, kw_only=True)
class Life(Task):
    """Work of one process of a member; its reports go to ``ready``."""

    number: int  # of the process, from 0, in the order of their starts


class Tally:
    """State of the members: for each sender its messages, and the sum of their hashes.

    Sums do not depend on the order of concurrent messages, so members that have the same messages
    have the same state.
    """

    def __init__(self) -> None:
        self._senders: dict[int, tuple[int, int]] = {}

    def apply(self, message: Message) -> None:
        """Count a message."""
        count, total = self._senders.get(message.sender, (0, 0))
        data = message.sequence.to_bytes(4, "little") + message.payload
        digest = hashlib.blake2b(data, digest_size=8).digest()
        total = (total + int.from_bytes(digest, "little")) % (1 << 64)
        self._senders[message.sender] = count + 1, total

    def dump(self) -> bytes:
        """Return the state, as JSON."""
        return json.dumps(sorted(self._senders.items())).encode()

    def load(self, chunks: Iterable[bytes]) -> None:
        """Replace the state."""
        senders = json.loads(b"".join(chunks))
        self._senders = {sender: (count, total) for sender, (count, total) in senders}

    def digest(self) -> str:
        """Return a digest of the state."""
        return hashlib.blake2b(self.dump(), digest_size=16).hexdigest()


def run(life: Life, fds: list[int]) -> None:
    """Run a member in this process, with its listening socket and the pipe of its commands."""
    listener, control = fds
    process.live(life, _live(life, socket.socket(fileno=listener), control))


async def _live(life: Life, listener: socket.socket, control: int) -> dict[str, Any]:
    state = Tally()
    group = Group.open(life.config, state=state, listener=listener)
    load = _Replica(life, group, control)
    ended = "left"
    try:
        async with group:
            await load.drive()
            if group.is_finished:
                ended = "all"
    except Excluded:
        ended = "excluded"
    except Replaced:
        ended = "replaced"
    except GroupLost as error:
        ended = f"lost: {error}"
    return {"ended": ended, "member": group.member, "state": state.digest(), **load.found()}


class _Replica(Load):
    """Load of one process, until a command ends it."""

    def __init__(self, life: Life, group: Group, control: int) -> None:
        super().__init__(life, group)
        self._number, self._reports = life.number, life.ready
        self._control = control
        self._gaps: deque[tuple[int, int]] = deque(maxlen=GAPS_MAX)
        self._installed_us: list[int] = []
        self._delivered_us = 0

    async def drive(self) -> None:
        """Broadcast and report views, until a command to leave, or until all have finished."""
        group = self._group
        self._first_tier = group.tier
        self._begin(is_warm=False)
        loop = asyncio.get_running_loop()
        warm = loop.call_later(WARM_UP_S, functools.partial(self._begin, is_warm=True))
        command: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(self._control, self._on_command, command)
        group.on_message(self._on_message)
        tasks = [asyncio.create_task(run()) for run in (self._send, self._watch, self._follow)]
        try:
            while not command.done() and group.error is None:
                await asyncio.wait([command], timeout=POLL_S)
            await self._cancel(tasks[:1])
            if command.done() and command.result() == FINISH:
                await self._finish()
        finally:
            self._cpu_s = time.process_time() - self._cpu_s
            self._active_s = time.monotonic() - self._active_s
            warm.cancel()
            loop.remove_reader(self._control)
            await self._cancel(tasks)

    async def _finish(self) -> None:
        group = self._group
        await group.finish()
        while group.error is None and not group.is_finished:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)

    async def _cancel(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, GroupLost):
                await task

    def _on_command(self, command: asyncio.Future[bytes]) -> None:
        asyncio.get_running_loop().remove_reader(self._control)
        command.set_result(os.read(self._control, 1) or LEAVE)

    def _on_message(self, message: Message) -> None:
        now_us = time.monotonic_ns() // 1000
        if self._delivered_us and now_us - self._delivered_us >= GAP_US:
            self._gaps.append((self._delivered_us, now_us))
        self._delivered_us = now_us
        if message.sender != self._group.member:
            self._take([message.payload])

    async def _follow(self) -> None:
        """Report each view."""
        is_first = True
        async for view in self._group.views():
            if not is_first:
                self._installed_us.append(time.monotonic_ns() // 1000)
            is_first = False
            os.write(self._reports, self._report(view))

    def _report(self, view: ViewChange) -> bytes:
        me = self._group.member
        about = {
            **{"process": self._number, "member": me, "votes": me in view.voters},
            **{"epoch": view.epoch, "members": sorted(view.members), "voters": len(view.voters)},
            **{"left": view.left, "lost": view.lost},
        }
        return json.dumps(about).encode() + b"\n"

    def found(self) -> dict[str, Any]:
        """The measurements, with the longest gap of deliveries around each change of the view."""
        gaps = [*self._gaps]
        return {**super().found(), "view_change_us": longest_gaps(gaps, self._installed_us)}


def longest_gaps(gaps: Sequence[tuple[int, int]], installed_us: Iterable[int]) -> list[int]:
    """For each view the longest of these gaps, in order, that touches the time around it."""
    ends = [until_us for _, until_us in gaps]
    longest = []
    for at_us in installed_us:
        lengths = [0]
        for since_us, until_us in gaps[bisect_left(ends, at_us - AROUND_US) :]:
            if since_us > at_us + AROUND_US:
                break
            lengths.append(until_us - since_us)
        longest.append(max(lengths))
    return longest
