"""An exact judge of ``mobile``: pasts as bit sets, stamps of stations, and who has what.

It shares no code with the machines. It is notified of broadcasts, stamps, joins and deliveries as
they happen, and looks at the machines' state only for the invariants that speak of it (I4, I5, I6,
I8, I9).
"""

import itertools
from collections import Counter

import numpy as np

from precedes.protocols.mobile import cell
from precedes.protocols.mobile.host import JOINING, OUT
from precedes.trace import History
from tests.support.convictions import Convicted

CODES = {"broadcast": 0, "deliver": 3}


class Violation(Convicted):
    """An invariant does not hold: its name, a colon, and what happened."""

    def __init__(self, text):
        super().__init__(*text.split(": ", 1))


def watch_stamps(station, oracle):
    """Notify the oracle of everything that a station stamps."""
    stamp = station.cell.disseminate

    def disseminate(message, *source):
        oracle.on_stamp(station.station, message.name)
        stamp(message, *source)

    station.cell.disseminate = disseminate


class Oracle:
    """The messages that every host must and must not deliver."""

    def __init__(self, hosts, stations):
        self.index = {}  # name of a message -> its number here
        self.past = []  # message -> bits of its causal past
        self.known = [0] * hosts  # host -> what its next broadcast depends on
        self.delivered = [0] * hosts
        self.pasts_delivered = [0] * hosts
        self.missed = [0] * hosts  # what lies before the start of the life
        self.living = [False] * hosts
        self.adopted = [-1] * hosts
        self.stamped = [0] * stations
        self.logs = [[] for _ in range(stations)]
        self.ended = set()  # host, birth of lives that a station has ended
        self.deliveries = 0
        self.handoffs = 0
        self.rows = []  # host, kind, message: for the audit
        self.names = []

    def on_broadcast(self, host, number):
        name = (host, number)
        if name in self.index:
            raise Violation(f"I1: the name {name} is used twice")
        self.index[name] = len(self.past)
        self.names.append(name)
        self.past.append(self.known[host])
        self.known[host] |= 1 << self.index[name]
        self.rows.append((host, "broadcast", name))

    def on_stamp(self, station, name):
        message = self.index[name]
        if self.stamped[station] >> message & 1:
            raise Violation(f"I1: station {station} stamps {name} twice")
        lacking = self.past[message] & ~self.stamped[station]
        if lacking:
            raise Violation(f"I2: station {station} stamps {name} before {self._name(lacking)}")
        self.stamped[station] |= 1 << message
        self.logs[station].append(message)

    def on_join(self, host, birth, station, start):
        self.living[host] = True
        self.adopted[host] = birth
        self.missed[host] = 0
        for message in self.logs[station][:start]:
            self.missed[host] |= 1 << message
        self.missed[host] &= ~self.delivered[host]
        self.rows.append((host, "join", None))
        counts = Counter(self.names[message][0] for message in self.logs[station][:start])
        for source, count in counts.items():
            self.rows.append((host, "join", (source, count - 1)))

    def on_left(self, host):
        self.living[host] = False
        self.rows.append((host, "leave", None))

    def on_deliver(self, host, name):
        if name not in self.index:
            raise Violation(f"I3: host {host} delivers {name}, which nobody broadcast")
        message = self.index[name]
        bit = 1 << message
        if not self.living[host]:
            raise Violation(f"I3: host {host} delivers {name} outside a life")
        if (host, self.adopted[host]) in self.ended:
            raise Violation(
                f"ended: host {host} delivers {name} after a station has ended its life"
            )
        if self.delivered[host] & bit:
            raise Violation(f"I3: host {host} delivers {name} twice")
        if self.missed[host] & bit:
            raise Violation(f"I3: host {host} delivers {name}, from before its join")
        lacking = self.past[message] & ~(self.delivered[host] | self.missed[host])
        if lacking:
            raise Violation(f"I3: host {host} delivers {name} before {self._name(lacking)}")
        if self.pasts_delivered[host] & bit:
            raise Violation(f"I3: host {host} delivers {name} after one that depends on it")
        self.delivered[host] |= bit
        self.pasts_delivered[host] |= self.past[message]
        self.known[host] |= bit | self.past[message]
        self.deliveries += 1
        self.rows.append((host, "deliver", name))

    def _name(self, bits):
        return self.names[bits.bit_length() - 1]

    # Invariants on every step.

    def check_station(self, station):
        """I6, and what a station stores is what it has stamped and not passed."""
        for host, record in station.cell.records.items():
            if record.pointer < station.cell.base:
                raise Violation(f"I6: station {station.station} has passed host {host}'s pointer")
        if len(station.cell.stored) != station.cell.next_stamp - station.cell.base:
            raise Violation(f"range: station {station.station} stores a broken one")

    def check_host(self, host, machine, stations):
        """I4 and I5: one record that counts, and nothing lost that it still expects."""
        birth = self.adopted[host]
        tokens = []
        for station in stations:
            record = station.cell.records.get(host)
            if record and record.birth == birth and record.mode != cell.WANTED:
                tokens.append((station.station, record))
        if sum(record.mode == cell.OWN for _, record in tokens) > 1:
            where = [station for station, _ in tokens]
            raise Violation(f"I4: host {host} is owned by {where}")
        if machine.birth != birth or machine.mode == OUT:
            return
        for _, record in tokens:
            if record.mode == cell.OWN:
                for number in range(record.number, machine.number):
                    if number not in machine.unacknowledged:
                        raise Violation(f"I5: host {host} has forgotten its message {number}")

    # Invariants at rest.

    def check_rest(self, machines, stations):
        """I7, I8 and I9."""
        everything = (1 << len(self.past)) - 1
        unsent = 0
        for host, machine in enumerate(machines):
            if machine.mode in (OUT, JOINING):
                for number in machine.unacknowledged:
                    unsent |= 1 << self.index[host, number]
        for host, machine in enumerate(machines):
            if self.living[host] != (machine.mode != OUT):
                raise Violation(f"I8: host {host} is in mode {machine.mode}")
            tokens = [s.cell.records[host] for s in stations if host in s.cell.records]
            modes = [record.mode for record in tokens]
            if machine.mode == OUT:
                if modes:
                    raise Violation(f"I8: departed host {host} has records {modes}")
                continue
            if modes != [cell.OWN] or tokens[0].pending is not None:
                raise Violation(f"I8: host {host} has records {modes}")
            lacking = everything & ~unsent & ~(self.delivered[host] | self.missed[host])
            if lacking:
                raise Violation(f"I7: host {host} never delivered {self._name(lacking)}")
            if machine.unacknowledged or machine.early or machine.catch_up_early:
                raise Violation(f"I9: host {host} still holds messages")
            if tokens[0].early or tokens[0].catch_up:
                raise Violation(f"I9: the record of host {host} still holds messages")
        for station in stations:
            if station.cell.stored:
                raise Violation(f"I9: station {station.station} still stores messages")


def history_of(oracle, hosts):
    """The rows of a run as the audit takes them; lives are membership."""
    logs = [[] for _ in range(hosts)]
    joins, state = [], {}
    for host, kind, name in oracle.rows:
        if kind in CODES:
            logs[host].append((CODES[kind], oracle.index[name]))
        else:
            state[host] = kind
            if kind == "join":
                message = -1 if name is None else oracle.index[name]
                joins.append((host, len(logs[host]), message))
    rows = list(itertools.chain(*logs))
    return History(
        nodes=hosts,
        offsets=np.array([0, *itertools.accumulate(map(len, logs))]),
        kind=np.array([kind for kind, _ in rows], np.int8),
        message=np.array([message for _, message in rows], np.int32),
        message_source=np.array([name[0] for name in oracle.names], np.int32),
        message_sequence=np.array([name[1] + 1 for name in oracle.names], np.int32),
        complete=True,
        join_node=np.array([host for host, _, _ in joins], np.int32),
        join_row=np.array([row for _, row, _ in joins], np.int64),
        join_message=np.array([message for _, _, message in joins], np.int32),
        # A host that has never joined is due nothing either.
        departed=np.array([host for host in range(hosts) if state.get(host) != "join"], np.int32),
    )
