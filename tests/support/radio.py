"""Antennas on a bench, and two judges of them that share no code with the simulator's air.

``lost_by_overlap`` looks at finished transmissions, every two of them. ``by_ticks`` is carrier
sense done the slow way: every antenna looks at the air in every tick of ten microseconds.
"""

import random
from itertools import combinations
from typing import NamedTuple

import numpy as np

from precedes.contract.machines import RadioParameters
from precedes.sim.radio.access import Aloha, CarrierSense
from precedes.sim.radio.air import Air

TICK_NS = 10_000
# A byte takes a microsecond; the end of a frame is rounded up to a whole one.
BANDWIDTH_BPS = 8e9 / 999.999
BYTE_NS = 1000


class Sent(NamedTuple):
    """One transmission."""

    node: int
    name: object
    begin_ns: int
    end_ns: int
    reached: tuple[int, ...]
    heard: tuple[int, ...]  # by those, well


class Drawn(CarrierSense):
    """Carrier sense with slots from a list of each antenna."""

    slots_of: dict[int, list[int]]

    def draw(self, node, copies):
        return self.slots_of[node].pop(0)


class Bench:
    """An air with nothing around it; antennas are on a line, or reach each other as given."""

    def __init__(self, hosts_m, stations_m, *, slots=None, **parameters):
        self.parameters = RadioParameters(bandwidth_bps=BANDWIDTH_BPS, range_m=100.0, **parameters)
        self.now_ns = 0
        self.tasks = []
        self.serial = 0
        self.sent = []
        self.taken = []  # datagrams that their addressees were handed
        stations = np.array([(x, 0.0) for x in stations_m])
        self.air = Air(self.parameters, hosts=len(hosts_m), stations=stations)
        self._watch()
        common = {"at": self.at, "done": self._done}
        if self.parameters.mac == "aloha":
            self.access = Aloha(self.parameters, self.air, **common)
        else:
            kind = CarrierSense if slots is None else Drawn
            self.access = kind(self.parameters, self.air, random=random.Random(1), **common)
            if slots is not None:
                self.access.slots_of = {node: list(row) for node, row in slots.items()}
        self.air.place(np.array([(x, 0.0) for x in hosts_m]))

    def _watch(self):
        begin = self.air.begin

        def watched(node, datagram, size_bytes, now_ns):
            found = begin(node, datagram, size_bytes, now_ns)
            self.sent.append((found, now_ns))
            return found

        self.air.begin = watched

    def hears(self, reached):
        """Say who hears whom."""
        self.air.reached = [list(row) for row in reached]

    def at(self, time_ns, task):
        self.serial += 1
        self.tasks.append((time_ns, self.serial, task))

    def _done(self, sent, is_copy):
        well = [other for other in sent.reached if other not in sent.bad]
        if not is_copy:
            self.taken.append(sent.datagram)
        return well

    def send(self, node, name, at_us, size_bytes=100, target=None):
        time_ns = at_us * 1000
        self.at(time_ns, lambda: self.access.send(node, name, size_bytes, time_ns, target))

    def run(self):
        """All transmissions, in the order of their ends."""
        while self.tasks:
            self.tasks.sort(key=lambda task: task[:2])
            self.now_ns, _, task = self.tasks.pop(0)
            task()
        found = [
            Sent(
                one.node,
                one.datagram,
                begin_ns,
                one.end_ns,
                tuple(one.reached),
                tuple(sorted(set(one.reached) - one.bad)),
            )
            for one, begin_ns in self.sent
        ]
        assert not any(one.bad - set(one.reached) for one, _ in self.sent)
        return sorted(found, key=lambda one: (one.end_ns, one.node))

    def heard(self):
        """Name of a datagram -> who heard it well."""
        return {one.name: list(one.heard) for one in self.run()}

    def begins_us(self):
        """Name of a datagram -> when it was on the air, each time."""
        found = {}
        for one in self.run():
            found.setdefault(one.name, []).append(one.begin_ns / 1000)
        return found


def lost_by_overlap(sent, *, half_duplex):
    """Transmission -> those of its hearers that cannot have heard it well."""
    lost = {place: set() for place in range(len(sent))}
    for (a, one), (b, other) in combinations(enumerate(sent), 2):
        if one.begin_ns < other.end_ns and other.begin_ns < one.end_ns:
            both = set(one.reached) & set(other.reached)
            lost[a] |= both
            lost[b] |= both
            if half_duplex:
                lost[a] |= {other.node} & set(one.reached)
                lost[b] |= {one.node} & set(other.reached)
    return lost


def by_ticks(reached, wanted, slots, *, difs_ticks, slot_ticks, ticks):
    """Times at which each antenna begins its frames: (tick, name), in order.

    ``wanted`` maps an antenna to (tick, ticks it takes, name) in order. An antenna counts silent
    ticks: ``difs_ticks`` open its slots, then every ``slot_ticks`` of them are one slot less, and
    anything heard sets the count back to nothing. It sends in the tick in which no slot is left.
    What begins in the same tick is not heard yet.
    """
    nodes = range(len(reached))
    queue = {node: list(wanted.get(node, ())) for node in nodes}
    draws = {node: list(row) for node, row in slots.items()}
    begin, end = dict.fromkeys(nodes, -1), dict.fromkeys(nodes, -1)
    left, silent, began = {}, {}, []
    for tick in range(ticks):
        starts = []
        for node in nodes:
            if end[node] > tick or not queue[node] or queue[node][0][0] > tick:
                continue
            if node not in left:
                left[node], silent[node] = draws[node].pop(0), 0
            if any(node in reached[other] and begin[other] < tick < end[other] for other in nodes):
                silent[node] = 0
            elif silent[node] == difs_ticks + left[node] * slot_ticks:
                starts.append(node)
            else:
                silent[node] += 1
        for node in starts:
            _, length, name = queue[node].pop(0)
            begin[node], end[node] = tick, tick + length
            began.append((tick, name))
            del left[node]
        for node in left:
            if any(node in reached[other] for other in starts):
                passed = max(0, silent[node] - 1 - difs_ticks)
                left[node] -= passed // slot_ticks
                silent[node] = 0
    return began
