"""A world without chance: links deliver exactly what a written schedule passes."""

from collections import deque

from tests.support.membership.adapter import Product
from tests.support.membership.values import Violation
from tests.support.membership.world import LANES, World


class Stage(World):
    """Members ``members`` (one letter each, in order of seniority) in view 1; others may join."""

    def __init__(self, members, others="", process=Product):
        super().__init__(1, process, n=len(members), extra=len(others))
        self.route, self.sticky, self.window, self.stateless = "direct", 0.0, 8, False
        self.with_bytes, self.is_over = True, False
        self.slow_state = False  # connections that carry states pass only what is named

    def __getitem__(self, name):
        return self.at[name]

    def tick(self, names, times=1):
        """Time passes."""
        for _ in range(times):
            for name in names:
                self.link(self.at[name])
                self.at[name].tick()

    def tick_all(self):
        """Time passes everywhere, also at the older processes of a name."""
        for process in self.processes():
            if not process.paused:
                self.link(process)
                process.tick()

    def prepare(self, name):
        """A member starts a ballot."""
        self.at[name].start_ballot()

    def broadcast(self, name):
        """A member broadcasts a message."""
        self.at[name].broadcast()

    def acknowledge(self, names):
        """Members report what they consumed."""
        for name in names:
            self.at[name].acknowledge()

    def suspect(self, name, others):
        """A member suspects others."""
        for other in others:
            self.at[name].suspect(self.names.index(other) + 1)

    def leave(self, name):
        """A member wants to leave."""
        self.at[name].leave_group()

    def change(self, name):
        """A member asks for another view, and time passes there."""
        self.at[name].request_change()
        self.at[name].tick()

    def join(self, name, member):
        """A process outside of the group asks one member for admission."""
        if name not in self.at or not self.at[name].alive:
            self.start(name)
        self.tick(name)
        for other in self.names:
            if other != member:
                self.lose(name, other)
        self.pass_(name, member, "JOIN")

    def admit(self, name, member):
        """A process joins, and the coordinator changes the view."""
        self.join(name, member)
        self.tick(member)
        self.flow()

    def request(self, name, member):
        """A learner requests the state from this member, whatever it has requested before."""
        process = self.at[name]
        for key, queue in self.links.items():
            if key[0] == process.life and key[2]:
                queue.clear()
        self.busy_links = [key for key in self.busy_links if self.links[key]]
        lane = process.life, self.at[member].life, LANES["GET_STATE"]
        for _ in range(40):
            if self.links.get(lane):
                return
            process.tick()  # nobody answers: it tries one after the other
        raise Violation(f"{name} does not request the state from {member}")

    def kill(self, names):
        """Crash, with everything in flight: what is to arrive has been passed before."""
        for name in names:
            process = self.at[name]
            process.alive, process.has_left = False, process.role == "left"
            for lives, queue in self.links.items():
                if process.life in lives:
                    queue.clear()
            self.busy_links = [key for key in self.busy_links if self.links[key]]
            self.disown(process)

    def key(self, source, target, kind=None):
        """A link between processes of two names, or of one with itself, that holds something."""
        for key in sorted(self.busy_links):
            receiver = self.owner.get(key[1])
            if receiver is None or receiver.paused or self.born[key[0]] != source:
                continue
            is_held = key[2] and self.slow_state if kind is None else key[2] != LANES.get(kind, 0)
            if receiver.name == target and not is_held:
                return key
        return None

    def pass_(self, source, target, kind=None):
        """Deliver up to and including this kind; without one everything."""
        while (key := self.key(source, target, kind)) is not None:
            record = self.links[key].popleft()
            if not self.links[key]:
                self.busy_links.remove(key)
            self.pass_record(key[0], self.owner[key[1]], record)
            if record[0] == kind:
                return
        if kind is not None:
            raise AssertionError(f"{source} -> {target}: no {kind} in flight")

    def promise(self, source, targets):
        """Phase 1 with these."""
        for x in targets:
            self.pass_(source, x, "PREPARE")
            self.pass_(x, source, "PROMISE")

    def accept(self, source, targets):
        """Phase 2 with these."""
        for x in targets:
            self.pass_(source, x, "ACCEPT")
            self.pass_(x, source, "ACCEPTED")

    def flow(self, *held):
        """Deliver everything, except over these links ("ab" is from a to b)."""
        moved = True
        while moved:
            moved = False
            for a in self.names:
                for b in self.names:
                    if a + b not in held and self.key(a, b):
                        self.pass_(a, b)
                        moved = True

    def lose(self, source, targets):
        """Data in flight are lost, as if the link ended with a life."""
        for target in targets:
            while (key := self.key(source, target)) is not None:
                self.links[key].clear()
                self.busy_links.remove(key)

    def drain(self, limit=0):
        """Deliver what is in flight."""
        self.flow(*(a + b for a, b in self.cut))


def judge(schedule):
    """(verdict, reason) of a written schedule: held, blocked, stuck or violated."""
    stages = deque()

    def stage(members, others=""):
        stages.append(Stage(members, others))
        return stages[-1]

    try:
        if reason := schedule(stage):
            return "violated", reason
        last = stages[-1]
        if last.is_over or last.converge(70):
            return "held", ""
        if last.due or last.can_progress():
            return "stuck", "a quorum is there and the group does not converge"
        return "blocked", ""
    except Violation as error:
        return "violated", str(error)
