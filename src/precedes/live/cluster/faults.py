"""Faults for a cluster on one machine: kills, pauses, broken connections, partitions.

A schedule is drawn from a seed: the same seed gives the same faults at the same times. Every
connection between two members goes through a relay here, which can break it or hold its bytes
back, as a network would.

A member that is killed, paused or partitioned holds back the others until it is excluded or back:
they have no credit, and messages in flight wait. Such a wait shows the patience of the failure
detector and not the speed of a group, so latency is also measured without it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from precedes.live.net.links import listen_on_loopback

KINDS: Final = ("kill", "pause", "reset", "partition")
CHUNK_BYTES: Final = 1 << 16

Interval = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: from ``at_s`` on, for ``for_s`` (a kill is permanent, a reset takes no time)."""

    kind: str
    at_s: float
    members: tuple[int, ...]
    for_s: float = 0.0


def draw(
    seed: int,
    *,
    members: int,
    seconds: float,
    patience_s: float,
    crashes: bool = True,
) -> list[Fault]:
    """A random schedule that leaves a majority alive; the seed also selects the kinds of faults.

    Pauses are far shorter than the patience of the failure detector, or far longer: what happens
    in between depends on the machine. Partitions are short, since a longer one ends in two
    groups, of which the smaller one stops. Without ``crashes`` no member is killed or
    excluded; member 0 never is.
    """
    rng = random.Random(seed)
    kinds = [kind for kind in KINDS if rng.random() < 0.7] or [rng.choice(KINDS)]
    victims = rng.sample(range(1, members), members - 1)
    expendable = (members - 1) // 2 if crashes else 0
    faults = []
    for kind in kinds:
        for _ in range(rng.randint(1, 3)):
            at_s = rng.uniform(0.1, 0.7) * seconds
            if kind == "kill" and expendable > 0:
                expendable -= 1
                faults.append(Fault(kind=kind, at_s=at_s, members=(victims.pop(),)))
            elif kind == "pause":
                long = rng.random() < 0.3 and expendable > 0
                expendable -= long
                member = victims.pop() if long else rng.randrange(members)
                for_s = rng.uniform(2.5, 3.0) * patience_s if long else rng.uniform(0.02, 0.3)
                if not long:
                    for_s = min(for_s, 0.1 * patience_s)
                faults.append(Fault(kind=kind, at_s=at_s, members=(member,), for_s=for_s))
            elif kind == "reset":
                pair = tuple(sorted(rng.sample(range(members), 2)))
                faults.append(Fault(kind=kind, at_s=at_s, members=pair))
            elif kind == "partition":
                side = tuple(sorted(rng.sample(range(members), rng.randint(1, members // 2))))
                for_s = rng.uniform(0.03, 0.12) * patience_s
                faults.append(Fault(kind=kind, at_s=at_s, members=side, for_s=for_s))
    return sorted(faults, key=lambda fault: fault.at_s)


class Relays:
    """A listening socket for every ordered pair of members, passing bytes on to the second."""

    def __init__(self, members: int, targets: list[tuple[str, int]]) -> None:
        self._targets = targets
        self._cut: set[frozenset[int]] = set()
        self._open: dict[frozenset[int], set[asyncio.StreamWriter]] = {}
        self._heal = asyncio.Event()
        self._servers: list[asyncio.Server] = []
        self.sockets = {
            (i, j): listen_on_loopback() for i in range(members) for j in range(members) if i != j
        }

    def addresses(self, member: int) -> list[str]:
        """The addresses at which one member reaches each of the others."""
        addresses = []
        for j, (host, port) in enumerate(self._targets):
            if j != member:
                host, port = self.sockets[member, j].getsockname()
            addresses.append(f"{host}:{port}")
        return addresses

    async def start(self) -> None:
        """Accept connections."""
        for (i, j), sock in self.sockets.items():
            relay = functools.partial(self._relay, frozenset((i, j)), self._targets[j])
            server = await asyncio.start_server(relay, sock=sock, limit=CHUNK_BYTES)
            self._servers.append(server)

    async def _relay(
        self,
        pair: frozenset[int],
        target: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        ends = {writer}
        try:
            await self._pass(pair)
            other_reader, other = await asyncio.open_connection(*target, limit=CHUNK_BYTES)
            ends.add(other)
            self._open.setdefault(pair, set()).update(ends)
            both = (self._pump(pair, reader, other), self._pump(pair, other_reader, writer))
            pumps = [asyncio.ensure_future(pump) for pump in both]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the end of the run cancels what is still open
        finally:
            for end in ends:
                self._open.get(pair, set()).discard(end)
                end.transport.abort()

    async def _pass(self, pair: frozenset[int]) -> None:
        while pair in self._cut:
            self._heal.clear()
            await self._heal.wait()

    async def _pump(
        self, pair: frozenset[int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            await self._pass(pair)
            writer.write(data)
            await writer.drain()

    def reset(self, one: int, other: int) -> None:
        """Break all connections between two members, with all bytes in flight."""
        for writer in list(self._open.get(frozenset((one, other)), ())):
            writer.transport.abort()

    def cut(self, side: tuple[int, ...]) -> None:
        """Hold back everything between these members and the others."""
        everyone = range(len(self._targets))
        self._cut = {frozenset((i, j)) for i in side for j in everyone if j not in side}

    def heal(self) -> None:
        """Let everything through again."""
        self._cut = set()
        self._heal.set()

    async def close(self) -> None:
        """End all connections."""
        for server in self._servers:
            server.close()
        for writers in self._open.values():
            for writer in list(writers):
                with contextlib.suppress(OSError):
                    writer.transport.abort()


@dataclass(kw_only=True)
class Outage:
    """Time in which a member was missing, or several were cut off (None).

    It ends at ``until_us`` (None: not by itself), or earlier, when all others have excluded the
    member.
    """

    member: int | None
    since_us: int
    until_us: int | None = None


def disturbances(
    outages: Iterable[Outage], evicted_us: Sequence[Mapping[str, int]], *, end_us: int
) -> list[Interval]:
    """Times in which members were missing until the end of a run, in order and without overlaps.

    ``evicted_us`` has, for each of the others, the time of each exclusion.
    """
    merged: list[Interval] = []
    for outage in sorted(outages, key=lambda outage: outage.since_us):
        since, until = outage.since_us, end_us if outage.until_us is None else outage.until_us
        seen = [times[str(outage.member)] for times in evicted_us if str(outage.member) in times]
        until = max((at_us for at_us in seen if since <= at_us <= until), default=until)
        if merged and since <= merged[-1][1]:
            since, until = merged[-1][0], max(merged.pop()[1], until)
        merged.append((since, until))
    return merged


def latencies(samples: Sequence[tuple[int, int]], disturbed: Sequence[Interval]) -> dict[str, Any]:
    """Quantiles of samples (when sent, how long it took) in us, and of the undisturbed ones."""
    ends = [until for _, until in disturbed]

    def is_quiet(sent_us: int, took_us: int) -> bool:
        next_one = bisect_left(ends, sent_us)
        return next_one == len(ends) or sent_us + took_us < disturbed[next_one][0]

    def quantile_ms(values: Sequence[int], share: float) -> float | None:
        return values[min(int(share * len(values)), len(values) - 1)] / 1000 if values else None

    every = sorted(took_us for _, took_us in samples)
    quiet = sorted(took_us for sent_us, took_us in samples if is_quiet(sent_us, took_us))
    return {
        "p50_ms": quantile_ms(every, 0.50),
        "p99_ms": quantile_ms(every, 0.99),
        "p50_undisturbed_ms": quantile_ms(quiet, 0.50),
        "p99_undisturbed_ms": quantile_ms(quiet, 0.99),
        "disturbed_s": sum(until - since for since, until in disturbed) / 1e6,
    }
