"""The air: reach of antennas, durations of frames, and collisions.

A reception is lost if another transmission reaches the same antenna while it lasts, and, half
duplex, if the antenna sends meanwhile. There is no capture: two overlapping receptions are both
lost. The access (``access.py``) decides when an antenna may send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from precedes.contract.machines import RadioParameters
from precedes.model import NANOSECONDS_PER_S
from precedes.sim.radio.mobility import Floats, distances


class Transmission:
    """A datagram on the air, and the antennas at which it is lost."""

    __slots__ = ("bad", "datagram", "end_ns", "node", "reached")

    def __init__(self, node: int, datagram: Any, end_ns: int, reached: list[int]) -> None:
        self.node = node
        self.datagram = datagram
        self.end_ns = end_ns
        self.reached = reached
        self.bad: set[int] = set()


class Air:
    """All antennas: hosts first, then stations."""

    def __init__(self, parameters: RadioParameters, *, hosts: int, stations: Floats) -> None:
        self.range_m = parameters.range_m
        self.half_duplex = parameters.half_duplex
        self.hosts = hosts
        self.stations = stations
        nodes = hosts + len(stations)
        self.reached: list[list[int]] = [[] for _ in range(nodes)]
        self.busy_until_ns = [0] * nodes  # a signal reaches the antenna, or it sends
        self.last: list[Transmission | None] = [None] * nodes  # last signal at the antenna
        self.nearest: list[int] = [-1] * hosts
        self.ns_per_byte = 8 * NANOSECONDS_PER_S / parameters.bandwidth_bps
        self.listening = [False] * nodes  # antennas at which ``carrier`` is to be called
        self.carrier: Callable[[int, int], None] = _nobody

    def place(self, hosts: Floats) -> None:
        """Set the positions of hosts: update the reach, and the nearest station of each."""
        range_m = self.range_m
        count = self.hosts
        to_stations = distances(hosts, self.stations)
        nearest = np.argmin(to_stations, axis=1)
        reached = to_stations[np.arange(count), nearest] <= range_m
        self.nearest = np.where(reached, nearest, -1).tolist()
        self.reached = _lists(
            np.block(
                [
                    [distances(hosts, hosts) <= range_m, to_stations <= range_m],
                    [range_m >= to_stations.T, distances(self.stations, self.stations) <= range_m],
                ]
            )
        )

    def length_ns(self, size_bytes: int) -> int:
        """The duration of this many bytes."""
        return int(size_bytes * self.ns_per_byte) + 1

    def begin(self, node: int, datagram: Any, size_bytes: int, now_ns: int) -> Transmission:
        """Start sending at an antenna; overlapping receptions in its reach are lost."""
        end_ns = now_ns + self.length_ns(size_bytes)
        reached = self.reached[node]
        sent = Transmission(node, datagram, end_ns, reached)
        busy, last = self.busy_until_ns, self.last
        if self.half_duplex:
            current = last[node]
            if busy[node] > now_ns and current is not None and current.node != node:
                current.bad.add(node)
            busy[node] = max(busy[node], end_ns)
            last[node] = sent
        bad = sent.bad
        listening = self.listening
        for other in reached:
            if busy[other] > now_ns:
                # Of several that overlap here, all but the last are known to be lost.
                bad.add(other)
                current = last[other]
                if current is not None and current.node != other:
                    current.bad.add(other)
                if busy[other] < end_ns:
                    busy[other] = end_ns
                    last[other] = sent
            else:
                busy[other] = end_ns
                last[other] = sent
            if listening[other]:
                self.carrier(other, now_ns)
        return sent


def _nobody(node: int, now_ns: int) -> None:
    """Default listener: do nothing."""


def _lists(near: Any) -> list[list[int]]:
    np.fill_diagonal(near, val=False)
    return [np.flatnonzero(row).tolist() for row in near]
