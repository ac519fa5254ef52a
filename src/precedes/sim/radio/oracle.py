"""Judging deliveries of a run with members that come and go: exact, by sets of bits.

A message's past is a set of bits, the union of what its source had delivered and broadcast. A
delivery is a violation if a message of its past is neither delivered nor before the member's join.
What lies before a join is known from the station's own list of stamps.
"""

from __future__ import annotations

from typing import Final

# A set of bits is copied for every delivery: beyond this, runs would take longer to judge than to
# simulate.
MESSAGES_MAX: Final = 50_000


class RadioOracle:
    """What every host has, and what it need not have."""

    def __init__(self, hosts: int, stations: int) -> None:
        self.past: list[int] = []
        self.known = [0] * hosts
        self.delivered = [0] * hosts
        self.missed = [0] * hosts
        self.stamped: list[list[int]] = [[] for _ in range(stations)]
        self.sent_by = [0] * hosts
        self.violations = 0
        self.violating: set[int] = set()
        self.duplicates = 0

    def on_broadcast(self, host: int) -> int:
        """The number of the new message."""
        message = len(self.past)
        self.past.append(self.known[host])
        self.known[host] |= 1 << message
        self.sent_by[host] |= 1 << message
        return message

    def on_stamp(self, station: int, message: int) -> None:
        """A station has given a message its next stamp."""
        self.stamped[station].append(message)

    def on_join(self, host: int, station: int, start: int) -> None:
        """A life begins with this stamp of this station."""
        before = 0
        for message in self.stamped[station][:start]:
            before |= 1 << message
        self.missed[host] = before & ~self.delivered[host]

    def on_deliver(self, host: int, message: int) -> None:
        """Judge one delivery."""
        bit = 1 << message
        has = self.delivered[host]
        if has & bit:
            self.duplicates += 1
            return
        if self.past[message] & ~(has | self.missed[host]):
            self.violations += 1
            self.violating.add(message)
        self.delivered[host] = has | bit
        self.known[host] |= bit | self.past[message]

    def lost(self, members: list[int], sources: list[int]) -> int:
        """How many deliveries are missing: by ``members`` of the end, of hosts that are up then.

        Own messages are due too, in a run in which one has come back to its source.
        """
        due = 0
        for source in sources:
            due |= self.sent_by[source]
        pairs = list(zip(self.delivered, self.sent_by, strict=True))
        own = any(delivered & sent for delivered, sent in pairs)
        lost = 0
        for host in members:
            lacking = due & ~(self.delivered[host] | self.missed[host])
            lost += (lacking if own else lacking & ~self.sent_by[host]).bit_count()
        return lost
