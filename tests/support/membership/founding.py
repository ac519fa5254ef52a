"""Founding under an adversary: processes restart, records of dead ones arrive late, links are cut.

Only one group may go on at any time, and one has to when faults have stopped, with everybody in it:
a process that restarts while its group goes on joins it.
"""

import random
from collections import Counter, deque

from precedes.errors import PeerError
from precedes.live.membership import records
from precedes.live.membership.agreement import Report, Timing
from precedes.live.membership.machine import Membership, Role
from precedes.live.membership.values import is_quorum
from tests.support.membership.values import Violation

ROUNDS = 80  # of the fair end


class Process:
    """A process without messages of its own."""

    def __init__(self, world, name, number):
        self.world, self.name = world, name
        self.life = number.to_bytes(16, "big")
        self.alive, self.ticks, self.said = True, 0, None
        self.machine = Membership(
            records.Entry(0, name, self.life), tuple(world.founders), group=self.life,
            timing=Timing(gather_s=0, retry_s=1, retry_max_s=2, patience_s=2, install_s=8,
                          linger_s=4, lost_s=1),
        )  # fmt: skip
        self.machine.tried_seeds()

    @property
    def group(self):
        """The group that it is a member of."""
        is_member = self.alive and self.machine.role is Role.MEMBER
        return self.machine.view.group if is_member else None

    def carry_out(self):
        """Do what the machine asks for."""
        while effects := self.machine.drain():
            for effect in effects:
                name = type(effect).__name__
                if name == "Send":
                    self.world.send(self, effect.life, effect.record)
                elif name == "Freeze":
                    nothing = (0,) * len(self.machine.view.entries)
                    self.machine.report(Report(nothing, nothing, (), {}))
                elif name == "Install":
                    self.world.installed(self, effect.view)
                elif name == "Stop":
                    self.world.covered[effect.reason.name] += 1
                    self.world.restart(self.name)


class Founding:
    """The world of one schedule."""

    def __init__(self, seed, founders=None):
        self.rng = rng = random.Random(f"founding {seed}")
        self.founders = founders or [f"f{i}" for i in range(rng.choice([1, 2, 3, 3, 4, 5]))]
        self.covered = Counter()
        self.number = 0
        self.at, self.everybody, self.links = {}, {}, {}
        self.views = {}  # group -> its last view
        self.side = set()
        for name in self.founders:
            self.start(name)

    def start(self, name):
        """A process under a name, with links to all that it reaches."""
        self.number += 1
        process = self.at[name] = Process(self, name, self.number)
        self.everybody[process.life] = process
        self.meet(process)

    def restart(self, name):
        """Another process takes the name."""
        gone = self.at[name]
        gone.alive = False
        for other in self.alive():
            other.machine.link_lost(gone.life)
        self.start(name)

    def reaches(self, a, b):
        """Return whether two processes are on one side of a partition."""
        return (a.name in self.side) == (b.name in self.side)

    def meet(self, process):
        """Handshakes with all processes that run."""
        for other in self.alive():
            if other is not process and self.reaches(process, other):
                process.machine.link_up(other.life, other.name)
                process.carry_out()
                other.machine.link_up(process.life, process.name)
                other.carry_out()

    def alive(self):
        """All that run."""
        return [p for p in self.at.values() if p.alive]

    def send(self, process, life, record):
        """Links are FIFO; what a process sent outlives it."""
        data = records.encode(record)
        self.links.setdefault((process.life, life), deque()).append(data)

    def pass_(self, key):
        """Deliver the first record of a link."""
        data, source, target = self.links[key].popleft(), *map(self.everybody.get, key)
        if target.alive and self.reaches(source, target):
            target.machine.receive(source.life, records.decode(data, ids_max=100))
            target.carry_out()

    def deliver(self):
        """Deliver a record of some link."""
        if keys := [key for key, queue in self.links.items() if queue]:
            self.pass_(self.rng.choice(keys))
        return bool(keys)

    def tick(self, process):
        """Time passes, and the failure detector is accurate or cut off."""
        machine, process.ticks = process.machine, process.ticks + 1
        if machine.role is Role.MEMBER:
            for entry in machine.view.entries:
                other = self.everybody[entry.life]
                is_here = other.alive and self.reaches(process, other)
                if is_here and other.machine.role is Role.MEMBER and other.group == process.group:
                    machine.trust(entry.uid)
                else:
                    machine.suspect(entry.uid)
        machine.tick(process.ticks)
        process.carry_out()

    # Judgement ------------------------------------------------------------------------------------

    def installed(self, process, view):
        """A view is installed: no older group may be able to go on next to a new one."""
        if view.group not in self.views:
            self.covered["founded"] += 1
            for other in self.views.values():
                if self.goes_on(other):
                    raise Violation("founded while another group can still go on")
        last = self.views.get(view.group)
        if last is None or last.epoch < view.epoch:
            self.views[view.group] = view

    def goes_on(self, view):
        """Return whether a quorum of a group's last view is there."""
        here = {
            uid for life, uid in view.uid_of.items() if self.everybody[life].group == view.group
        }
        return is_quorum(view.voters, frozenset(here))

    def going(self):
        """Groups that go on."""
        return [group for group, view in self.views.items() if self.goes_on(view)]

    def check(self):
        """Only one group goes on."""
        if len(self.going()) > 1:
            raise Violation("two groups go on")

    # The adversary --------------------------------------------------------------------------------

    def run(self):
        """A schedule of faults."""
        rng = self.rng
        for _ in range(rng.choice([60, 200, 500])):
            x = rng.random()
            if x < 0.6:
                self.deliver()
            elif x < 0.88:
                self.tick(rng.choice(self.alive()))
            elif x < 0.95:
                self.covered["restart"] += 1
                self.restart(rng.choice(self.founders))
            elif x < 0.97:
                self.side = {x for x in self.founders if rng.random() < rng.choice([0, 0, 0.4])}
            else:
                self.meet(rng.choice(self.alive()))
            self.check()

    def converge(self):
        """Faults stop: whether one group goes on, with all that are not outside."""
        self.side = set()
        for _ in range(ROUNDS):
            for process in self.alive():
                self.meet(process)
                self.tick(process)
            while self.deliver():
                pass
            self.check()
            if going := self.going():
                view = self.views[going[0]]
                if {p.life for p in self.alive()} == set(view.uid_of) and view.voters == view.uids:
                    return True
        return self.is_blocked()

    def is_blocked(self):
        """Return whether a quorum of a view that may have been decided is gone (G7, c)."""
        for process in self.alive():
            if process.group is not None and (accepted := process.machine.agreement.accepted):
                here = {accepted[1].uid_of.get(p.life) for p in self.alive()}
                if not is_quorum(accepted[1].voters, frozenset(here - {None})):
                    self.covered["blocked"] += 1
                    return True
        return False


def run_schedule(seed):
    """(verdict, reason, world) of a random schedule: held, stuck or violated."""
    world = Founding(seed)
    try:
        world.run()
        return ("held" if world.converge() else "stuck"), "", world
    except Violation as error:
        return "violated", str(error), world
    except PeerError as error:
        return "violated", f"a record of a correct process is refused: {error}", world


# Written schedules --------------------------------------------------------------------------------

_JOIN = records.encode(records.Join(0, records.Entry(0, "x", bytes(16)), frozenset()))[0]


def _pass(world, *keys):
    """Deliver a record of each link, and the requests to join before it."""
    for key in keys:
        while world.links[key][0][0] == _JOIN:
            world.pass_(key)
        world.pass_(key)


def _founded_and_gone():
    """f1 founds a group of two and restarts; FOUNDED is still in flight to f0."""
    world = Founding(0, ["f0", "f1"])
    f0, old = world.at["f0"].life, world.at["f1"].life
    world.tick(world.at["f1"])
    world.tick(world.at["f1"])
    _pass(world, (old, f0), (f0, old), (old, f0), (f0, old))
    assert world.at["f1"].group is not None
    world.restart("f1")
    world.tick(world.at["f1"])
    world.tick(world.at["f1"])
    new = world.at["f1"].life
    _pass(world, (new, f0))  # INVITE; INSTALLED and FOUNDED of the old one are in flight
    return world, f0, old, new


def late_decision():
    """F4: f0 has confirmed to the new f1 when the group of the old one reaches it."""
    world, f0, old, new = _founded_and_gone()
    _pass(world, (f0, new), (new, f0), (old, f0), (old, f0), (f0, new))
    return world


def late_freshness():
    """F7: f0 was fresh, then enters the group of the old f1, then its answer reaches the new f1."""
    world, f0, old, new = _founded_and_gone()
    _pass(world, (old, f0), (old, f0), (f0, new))
    return world


WRITTEN = {"F4": late_decision, "F7": late_freshness}


def judge(schedule):
    """(verdict, reason) of a written schedule."""
    try:
        return ("held" if schedule().converge() else "stuck"), ""
    except Violation as error:
        return "violated", str(error)
