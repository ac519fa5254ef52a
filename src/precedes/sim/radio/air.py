"""The air: who hears whom, how long a datagram takes, and what is lost where two meet.

A reception is lost if another transmission reaches the same antenna while it lasts, and, half
duplex, if the antenna sends meanwhile. ``aloha`` sends as soon as the antenna is free; ``csma``
waits until nothing is heard and then a random number of slots, again and again. Nothing is
captured: two overlapping receptions are both lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

import numpy as np

from precedes.contract.machines import RadioParameters
from precedes.model import NANOSECONDS_PER_S
from precedes.sim.radio.mobility import Floats, distances

NANOSECONDS_PER_US: Final = 1000


class Transmission:
    """A datagram on the air, and the antennas at which it is lost."""

    __slots__ = ("bad", "datagram", "end_ns", "heard_by", "node")

    def __init__(self, node: int, datagram: Any, end_ns: int, heard_by: list[int]) -> None:
        self.node = node
        self.datagram = datagram
        self.end_ns = end_ns
        self.heard_by = heard_by
        self.bad: set[int] = set()


class Air:
    """All antennas: hosts first, then stations. ``at(time, what)`` has ``what`` done later."""

    def __init__(
        self,
        parameters: RadioParameters,
        *,
        hosts: int,
        stations: Floats,
        random: Random,
        at: Callable[[int, Callable[[], None]], None],
        done: Callable[[Transmission], None],
    ) -> None:
        self.parameters = parameters
        self.hosts = hosts
        self.stations = stations
        self.random = random
        self.at = at
        self.done = done
        nodes = hosts + len(stations)
        self.heard_by: list[list[int]] = [[] for _ in range(nodes)]
        self.busy_until_ns = [0] * nodes  # something reaches the antenna, or it sends
        self.last: list[Transmission | None] = [None] * nodes  # what reached it last
        self.queue: list[deque[tuple[Any, int]]] = [deque() for _ in range(nodes)]
        self.sending = [False] * nodes
        self.nearest: list[int] = [-1] * hosts
        self.transmissions = 0
        self.bytes_sent = 0
        self.dropped = 0
        self.ns_per_byte = 8 * NANOSECONDS_PER_S / parameters.bandwidth_bps

    def place(self, hosts: Floats) -> None:
        """Hosts are here now: work out who hears whom, and the nearest station in reach."""
        range_m = self.parameters.range_m
        count = self.hosts
        to_stations = distances(hosts, self.stations)
        nearest = np.argmin(to_stations, axis=1)
        reached = to_stations[np.arange(count), nearest] <= range_m
        self.nearest = np.where(reached, nearest, -1).tolist()
        self.heard_by = _lists(
            np.block(
                [
                    [distances(hosts, hosts) <= range_m, to_stations <= range_m],
                    [range_m >= to_stations.T, distances(self.stations, self.stations) <= range_m],
                ]
            )
        )

    def send(self, node: int, datagram: Any, size_bytes: int, now_ns: int) -> None:
        """Send, now or when the antenna is free; a full queue drops it."""
        if len(self.queue[node]) >= self.parameters.queue_max:
            self.dropped += 1
            return
        self.queue[node].append((datagram, size_bytes))
        if not self.sending[node]:
            self.sending[node] = True
            self._try(node, now_ns)

    def _try(self, node: int, now_ns: int) -> None:
        """The antenna is free: begin, or with csma wait for silence."""
        if self.parameters.mac == "csma":
            slots = self.random.randrange(self.parameters.slots)
            wait_ns = int(slots * self.parameters.slot_us * NANOSECONDS_PER_US)
            start_ns = max(now_ns, self.busy_until_ns[node]) + wait_ns
            if start_ns > now_ns:
                self.at(start_ns, lambda: self._sense(node, start_ns))
                return
        self._begin(node, now_ns)

    def _sense(self, node: int, now_ns: int) -> None:
        if self.busy_until_ns[node] > now_ns:
            self._try(node, now_ns)
        else:
            self._begin(node, now_ns)

    def _begin(self, node: int, now_ns: int) -> None:
        datagram, size_bytes = self.queue[node].popleft()
        end_ns = now_ns + int(size_bytes * self.ns_per_byte) + 1
        heard_by = self.heard_by[node]
        sent = Transmission(node, datagram, end_ns, heard_by)
        busy, last = self.busy_until_ns, self.last
        if self.parameters.half_duplex:
            if busy[node] > now_ns:
                current = last[node]
                if current is not None:
                    current.bad.add(node)
            busy[node] = max(busy[node], end_ns)
            last[node] = sent
        bad = sent.bad
        for other in heard_by:
            if busy[other] > now_ns:
                # Of several that overlap here, all but the last are known to be lost.
                bad.add(other)
                current = last[other]
                if current is not None:
                    current.bad.add(other)
                if busy[other] < end_ns:
                    busy[other] = end_ns
                    last[other] = sent
            else:
                busy[other] = end_ns
                last[other] = sent
        self.transmissions += 1
        self.bytes_sent += size_bytes
        self.at(end_ns, lambda: self._end(sent))

    def _end(self, sent: Transmission) -> None:
        node = sent.node
        self.done(sent)
        if self.queue[node]:
            self._try(node, sent.end_ns)
        else:
            self.sending[node] = False


def _lists(near: Any) -> list[list[int]]:
    np.fill_diagonal(near, val=False)
    return [np.flatnonzero(row).tolist() for row in near]
