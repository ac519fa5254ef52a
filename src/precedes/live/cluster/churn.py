"""Groups of real processes whose members are replaced: rolling restarts, and random changes.

Processes are started by a ``Zygote``. Each has a number, in the order of their starts, and
the name of a member; a name has one current process. The members have a state, which newcomers get
from others. A major change begins when all members have a vote, so that a quorum runs at all times;
only the admission of another member may still be under way when one is killed or paused. Short
faults happen at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from precedes.errors import PrecedesError
from precedes.live.cluster.faults import Interval, Outage
from precedes.live.cluster.relay import Network, Relay
from precedes.live.cluster.replica import FINISH, LEAVE, Life
from precedes.live.cluster.zygote import Zygote
from precedes.live.config import Config
from precedes.live.net.links import listen_on_loopback

# Changes that members of the group see, of which one happens at a time, and short faults.
MAJOR: Final = ("kill", "pause", "cut", "restart", "move", "join", "replace")
MINOR: Final = ("short pause", "short cut", "reset")
# Changes that may begin while another member joins.
AT_ONCE: Final = ("kill", "pause")
CHANGES_MIN: Final = len(MAJOR)
JOINS_MAX: Final = 3
POLL_S: Final = 0.02
READ_BYTES: Final = 1 << 16

Progress = Callable[[str, float, float | None], None]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of a schedule: after ``after_s`` without one, for ``for_s``.

    ``members`` select two members of the group at that time, by shares of their number.
    """

    kind: str
    after_s: float
    members: tuple[float, ...]
    for_s: float = 0.0


@dataclass(kw_only=True)
class Cause:
    """A change that has been made: to members of these names, and when since all were ready."""

    kind: str
    members: tuple[str, ...]
    at_s: float
    for_s: float


def draw_changes(seed: int, *, count: int, patience_s: float) -> list[Change]:
    """A random schedule in which every kind occurs, if there are enough of them.

    Pauses and cuts are far shorter than the patience of the failure detector, or far longer: what
    happens in between depends on the machine. A killed process is started again before the others
    notice, or after that.
    """
    rng = random.Random(seed)
    kinds: list[str] = []
    while len(kinds) < count:
        kinds += rng.sample(MAJOR, len(MAJOR))
    changes = []
    for kind in kinds[:count]:
        for _ in range(rng.randint(0, 2)):
            minor = rng.choice(MINOR)
            for_s = 0.0 if minor == "reset" else rng.uniform(0.01, 0.1) * patience_s
            changes.append(_change(rng, minor, after_s=0.0, for_s=for_s))
        longest = {"kill": rng.choice([0.0, 2.0]), "pause": 3.0, "cut": 3.0}.get(kind, 0.0)
        for_s = longest * rng.uniform(0.85, 1.0) * patience_s
        changes.append(_change(rng, kind, after_s=rng.uniform(0.0, 0.5), for_s=for_s))
    return changes


def _change(rng: random.Random, kind: str, *, after_s: float, for_s: float) -> Change:
    members = (rng.random(), rng.random())
    return Change(kind=kind, after_s=after_s, members=members, for_s=for_s)


class Stuck(PrecedesError):
    """The group did not come to what a change waits for, in time."""


@dataclass(eq=False, kw_only=True)
class Process:
    """A process of a member, and what is known of it."""

    number: int
    name: str
    address: str
    control: int
    relay: Relay | None
    member: int = -1  # its number in the group, once it is in a view
    epoch: int = 0
    members: frozenset[int] = frozenset()  # of its view
    voters: int = 0
    has_vote: bool = False
    has_ended: bool = False
    is_leaving: bool = False
    # Ends that its faults explain.
    excuses: set[str] = field(default_factory=set)


class Supervisor:
    """The processes of a run, and their changes."""

    def __init__(
        self,
        *,
        configure: Callable[[str, str, tuple[str, ...]], Config],
        names: list[str],
        directory: Path,
        zygote: Zygote,
        reports: tuple[int, int],
        load: dict[str, Any],
        limit_s: float,
        progress: Progress,
    ) -> None:
        self.processes: list[Process] = []
        self.current: dict[str, Process] = {}  # by name
        self.causes: list[Cause] = []
        self.outages: list[Outage] = []
        self.left: set[int] = set()  # numbers of members, from views
        self.lost: set[int] = set()
        self.problems: list[str] = []
        self.members_seen = len(names)  # numbers of members are below this
        self.members_max = len(names)
        self.views = 0
        self.load_s = 0.0
        self.restarts = self.joins = 0
        self.network: Network | None = None
        self._configure = configure
        self._names = names
        self._directory = directory
        self._zygote = zygote
        self._reports, self._set_reports = reports
        self._load = load
        self._limit_s = limit_s
        self._progress = progress
        self._planned_s: float | None = None
        self._began_s = time.monotonic()
        self._phase = "starting"
        self._line = b""
        self._down: set[str] = set()  # names whose process is started by what ended it
        self._kept: dict[str, socket.socket] = {}  # listening sockets of members without relays

    # Processes ----------------------------------------------------------------------------------

    async def start(self, name: str, *, moves: bool = False) -> Process:
        """Start a process under a name, at the address of the one before it, or at another one."""
        before = self.current.get(name)
        if self.network is None:
            if moves and name in self._kept:
                self._kept.pop(name).close()
            if name not in self._kept:
                self._kept[name] = listen_on_loopback()
            listener = self._kept[name]
            relay, address = None, _address_of(listener)
        else:
            listener = listen_on_loopback()
            relay = None if before is None else before.relay
            if relay is None or moves:
                if relay is not None:
                    relay.stop()
                relay = await self.network.add(name)
            relay.target, address = listener.getsockname(), relay.address
        others = (one.address for one in self.current.values() if one.name != name)
        return self._fork(name, address, listener, relay, tuple(others))

    def _fork(
        self,
        name: str,
        address: str,
        listener: socket.socket,
        relay: Relay | None,
        seeds: tuple[str, ...],
    ) -> Process:
        number, (commands, control) = len(self.processes), os.pipe()
        life = Life(
            number=number,
            config=self._configure(name, address, seeds),
            result=self._file(number, "json"),
            log=self._file(number, "log"),
            ready=self._set_reports,
            **self._load,
        )
        self._zygote.start(number, life, [listener.fileno(), commands])
        os.close(commands)
        if relay is not None:
            listener.close()
        one = Process(number=number, name=name, address=address, control=control, relay=relay)
        self.processes.append(one)
        self.current[name] = one
        return one

    def _file(self, number: int, kind: str) -> Path:
        return self._directory / f"process-{number:04d}.{kind}"

    async def found(self) -> None:
        """Start the founders, which need the addresses of all of them."""
        places: list[tuple[str, str, socket.socket, Relay | None]] = []
        for name in self._names:
            listener = listen_on_loopback()
            relay = None if self.network is None else await self.network.add(name)
            if relay is None:
                self._kept[name] = listener
                address = _address_of(listener)
            else:
                relay.target, address = listener.getsockname(), relay.address
            places.append((name, address, listener, relay))
        for name, address, listener, relay in places:
            seeds = tuple(other for _, other, _, _ in places if other != address)
            self._fork(name, address, listener, relay, seeds)
        await self.wait(self.is_settled, "the group was not founded")

    def result(self, one: Process) -> dict[str, Any]:
        """The measurements of a process; one that was killed has none."""
        path = self._file(one.number, "json")
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {"ended": "killed", "member": one.member}

    def label(self, one: Process) -> str:
        """Return the name of a process in results: its member's number, or how it was started."""
        return f"{one.name} (start {one.number})" if one.member < 0 else str(one.member)

    def is_excused(self, one: Process) -> bool:
        """Return whether its faults or commands explain how a process has ended."""
        ended = self.result(one)["ended"].partition(":")[0]
        if ended == "left" and one.is_leaving:
            return one.member not in self.lost or "excluded" in one.excuses
        return ended == "all" or ended in one.excuses

    def _command(self, one: Process, command: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has just ended
            os.write(one.control, command)

    # Waits --------------------------------------------------------------------------------------

    async def wait(self, is_so: Callable[[], bool], otherwise: str) -> None:
        """Wait for something; Stuck if it does not come, or a process ends without a reason."""
        until_s = time.monotonic() + self._limit_s
        while True:
            await self._look()
            if is_so():
                return
            if time.monotonic() > until_s:
                raise Stuck(f"{otherwise} within {self._limit_s:g} s: {self.describe()}")
            await asyncio.sleep(POLL_S)

    async def sleep(self, for_s: float) -> None:
        """Let the group run for a time."""
        until_s = time.monotonic() + for_s
        while (left_s := until_s - time.monotonic()) > 0:
            await self._look()
            await asyncio.sleep(min(left_s, POLL_S))

    async def _look(self) -> None:
        """Read what happened; start members that were excluded again."""
        now_s = time.monotonic() - self._began_s
        self._progress(self._phase, now_s, self._planned_s)
        with contextlib.suppress(BlockingIOError):
            self._line += os.read(self._reports, READ_BYTES)
        *lines, self._line = self._line.split(b"\n")
        for line in lines:
            self._take(**json.loads(line))
        for number in self._zygote.ended():
            one = self.processes[number]
            one.has_ended, one.has_vote = True, False
            os.close(one.control)
            is_wanted = self.current[one.name] is one and one.name not in self._down
            if self._phase != "settling" and not self.is_excused(one):
                how = self.result(one)["ended"]
                raise Stuck(f"process {number} of member {one.name} has ended: {how}")
            if self._phase != "settling" and is_wanted:
                await self.restart(one.name)

    def _take(
        self,
        *,
        process: int,
        member: int,
        epoch: int,
        members: list[int],
        voters: int,
        votes: bool,
        left: list[int],
        lost: list[int],
    ) -> None:
        one = self.processes[process]
        one.member, one.epoch, one.voters = member, epoch, voters
        one.members, one.has_vote = frozenset(members), votes and not one.has_ended
        self.members_seen = max(self.members_seen, 1 + max(members))
        self.members_max = max(self.members_max, len(members))
        self.views = max(self.views, epoch)
        self.left.update(left)
        self.lost.update(lost)

    @property
    def running(self) -> list[Process]:
        """Processes that have not ended."""
        return [one for one in self.processes if not one.has_ended]

    def is_settled(self) -> bool:
        """Return whether the processes of all names are in one view, in which all vote."""
        lives = list(self.current.values())
        numbers = {one.member for one in lives}
        return len(self.running) == len(lives) and all(
            one.has_vote
            and one.members == numbers
            and one.voters == len(lives)
            and one.epoch == lives[0].epoch
            for one in lives
        )

    def describe(self) -> str:
        """Describe the reports of the processes, for an error."""
        return "; ".join(
            f"process {one.number} of member {one.name} is number {one.member} in view {one.epoch} "
            f"of {sorted(one.members)}{', with a vote' if one.has_vote else ''}"
            for one in self.running
        )

    # Changes ------------------------------------------------------------------------------------

    async def restart(self, name: str, *, moves: bool = False) -> Process:
        """Start another process under a name."""
        self.restarts += 1
        return await self.start(name, moves=moves)

    async def replace_gracefully(self, name: str, *, moves: bool = False) -> None:
        """End the process of a member in order, then start another one, until it has a vote."""
        one = self.current[name]
        one.is_leaving = True
        with self._down_of(name):
            self._command(one, LEAVE)
            await self.wait(lambda: one.has_ended, f"member {name} did not leave")
            await self.restart(name, moves=moves)
        await self.wait(self.is_settled, f"member {name} has no vote after its restart")

    @contextlib.contextmanager
    def _down_of(self, name: str) -> Iterator[None]:
        self._down.add(name)
        try:
            yield
        finally:
            self._down.discard(name)

    @contextlib.contextmanager
    def _missing(self, one: Process) -> Iterator[None]:
        """Record a time in which a member is missing; the change of the view is part of it."""
        outage = Outage(member=one.member, since_us=_now_us())
        self.outages.append(outage)
        try:
            yield
        finally:
            outage.until_us = _now_us()

    async def roll(self) -> None:
        """Replace the processes of all members, one after the other."""
        for name in self._names:
            self._note("restart", (name,), 0.0)
            with self._missing(self.current[name]):
                await self.replace_gracefully(name)

    def _note(self, kind: str, names: tuple[str, ...], for_s: float) -> None:
        at_s = time.monotonic() - self._began_s
        self.causes.append(Cause(kind=kind, members=names, at_s=at_s, for_s=for_s))

    async def churn(self, changes: list[Change]) -> None:
        """Make these changes, one after the other; short faults in between."""
        short: list[asyncio.Task[None]] = []
        try:
            for change in changes:
                await self.sleep(change.after_s)
                if change.kind in MINOR:
                    first, second = self._pick(change)
                    names = (first.name,) if "pause" in change.kind else (first.name, second.name)
                    self._note(change.kind, names, change.for_s)
                    short.append(asyncio.create_task(self._fault(change, first, second)))
                    continue
                if change.kind not in AT_ONCE:
                    await self.wait(
                        self.is_settled, f"the group is not whole before a {change.kind}"
                    )
                await self._change(change, *self._pick(change))
                await asyncio.gather(*short)
                short.clear()
        finally:
            for task in short:
                task.cancel()
            await asyncio.gather(*short, return_exceptions=True)

    def _pick(self, change: Change) -> tuple[Process, Process]:
        """Two different members."""
        names = sorted(self.current)
        at = int(change.members[0] * len(names))
        step = 1 + int(change.members[1] * (len(names) - 1))
        first, second = names[at], names[(at + step) % len(names)]
        return self.current[first], self.current[second]

    async def _fault(self, change: Change, first: Process, second: Process) -> None:
        """A fault that excludes nobody if it is short."""
        assert self.network is not None
        if change.kind == "reset":
            self.network.reset(first.name, second.name)
        elif "pause" in change.kind:
            await self._pause(first, change.for_s)
        else:
            self.network.hold(first.name, second.name)
            try:
                await asyncio.sleep(change.for_s)
            finally:
                self.network.release(first.name, second.name)

    async def _pause(self, one: Process, for_s: float) -> None:
        self._zygote.signal(one.number, signal.SIGSTOP)
        try:
            await asyncio.sleep(for_s)
        finally:
            self._zygote.signal(one.number, signal.SIGCONT)

    async def _change(self, change: Change, first: Process, second: Process) -> None:
        kind, for_s = change.kind, change.for_s
        if kind == "join" and len(self.current) >= len(self._names) + JOINS_MAX:
            kind = "restart"
        newcomer = str(len(self._names) + self.joins)
        names = {"join": (newcomer,), "cut": (first.name, second.name)}.get(kind, (first.name,))
        self._note(kind, names, for_s)
        with self._missing(first):
            if kind == "join":
                self.joins += 1
                await self.start(newcomer)
                return
            if kind in ("restart", "move"):
                await self.replace_gracefully(first.name, moves=kind == "move")
            elif kind == "kill":
                with self._down_of(first.name):
                    first.excuses.add("killed")
                    self._zygote.signal(first.number, signal.SIGKILL)
                    await self.wait(lambda: first.has_ended, "a killed process runs")
                    await self.sleep(for_s)
                    await self.restart(first.name)
            elif kind == "replace":
                first.excuses.add("replaced")
                await self.restart(first.name, moves=True)
            else:  # a long pause, or a long cut
                for one in (first, second)[: len(names)]:
                    one.excuses |= {"excluded", "lost"}
                over = asyncio.create_task(self._fault(change, first, second))
                try:
                    while not over.done():
                        await self.sleep(POLL_S)
                    await over
                finally:
                    over.cancel()
                    await asyncio.gather(over, return_exceptions=True)
            await self.wait(self.is_settled, f"the group is not whole after a {kind}")
            for one in self.running:
                one.excuses.clear()  # what it has survived explains no later end

    # A run --------------------------------------------------------------------------------------

    async def supervise(
        self, changes: list[Change] | None, *, seconds: float, relayed: bool
    ) -> None:
        """Found the group, make all changes, or restart all, and let the members finish."""
        os.set_blocking(self._reports, False)
        self.network = Network() if relayed else None
        try:
            await self.found()
            self._began_s, self._phase, self._planned_s = time.monotonic(), "load", seconds
            if changes is None:
                await self.roll()
            else:
                await self.churn(changes)
            await self.sleep(self._began_s + seconds - time.monotonic())
            await self.wait(self.is_settled, "the group is not whole at the end")
            self._phase, self._planned_s = "settling", None
            self.load_s = time.monotonic() - self._began_s
            self._began_s = time.monotonic()
            for one in self.running:
                self._command(one, FINISH)
            await self.wait(lambda: not self.running, "members did not end")
        except Stuck as error:
            self.problems.append(str(error))
        finally:
            if self.network is not None:
                await self.network.close()
            for listener in self._kept.values():
                listener.close()

    def close(self) -> None:
        """Close the pipes to processes that did not end, once they are killed."""
        for one in self.running:
            os.close(one.control)

    def disturbed(self) -> list[Interval]:
        """Times in which members were missing or replaced, in order and without overlaps."""
        end_us = _now_us()
        merged: list[Interval] = []
        for outage in sorted(self.outages, key=lambda outage: outage.since_us):
            since, until = outage.since_us, outage.until_us or end_us
            if merged and since <= merged[-1][1]:
                since, until = merged[-1][0], max(merged.pop()[1], until)
            merged.append((since, until))
        return merged

    def unexplained(self) -> list[Process]:
        """Processes that have ended in a way that nothing explains."""
        return [one for one in self.processes if one.has_ended and not self.is_excused(one)]

    def faults(self) -> list[dict[str, Any]]:
        """The changes that were made, as in JSON."""
        return [asdict(cause) for cause in self.causes]


def _address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def quantile_ms(values_us: Collection[int], share: float) -> float | None:
    """A quantile of times in us, in ms."""
    ordered = sorted(values_us)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / 1000 if ordered else None
