"""Exact checker: happened-before from what each state contained when a message was broadcast."""

from collections import defaultdict

from tests.support.membership.values import Violation, covers

CALM_ROUNDS = 15  # after the end of all faults; decisions from then on must not exclude a member


class Checker:
    """Raises Violation at the first broken guarantee. Knows the world, nothing of the design."""

    def __init__(self, world):
        self.world = world
        self.past = {}  # (uid, sequence) -> uid -> count: everything that happened before
        self.sender = {}
        self.views = {}  # epoch -> decided view
        self.totals = {0: {}, 1: {}}  # epoch -> uid -> messages before the epoch, all uids ever
        self.actors = {}  # (epoch, uid) -> process
        self.claims = defaultdict(dict)  # epoch -> uid -> count reported stable in it
        self.decided_in = {}  # epoch -> calm round of the decision
        self.deliveries = defaultdict(list)  # process -> messages

    def fail(self, text):
        """Report what is broken."""
        raise Violation(text)

    def broadcast(self, process, tag):
        """A message is new, and the next one of its sender."""
        if tag in self.past:
            self.fail(f"sequence number reused: {tag}")
        if process.state.get(tag[0], 0) != tag[1] - 1:
            self.fail(f"gap in the sequence numbers before {tag}")
        self.past[tag] = dict(process.state)

    def deliver(self, process, tag):
        """Once, in causal order, and only what was broadcast."""
        if tag not in self.past:
            self.fail(f"{process.name} delivers {tag}, which was never broadcast")
        have = process.state.get(tag[0], 0)
        if have >= tag[1]:
            self.fail(f"duplicate: {tag} at {process.name}")
        if have != tag[1] - 1:
            self.fail(f"gap before {tag} at {process.name}")
        if not covers(process.state, self.past[tag]):
            self.fail(f"causal order: {tag} at {process.name} before its past")
        self.deliveries[process.pid].append(tag)

    def restore(self, process, state):
        """A state is closed under causes, and lacks nothing that its receiver has not queued."""
        for uid, n in state.items():
            if n and (uid, n) not in self.past:
                self.fail(f"state with {uid}:{n}, which was never broadcast")
            elif n and not covers(state, self.past[uid, n]):
                self.fail(f"causal order: state with {uid}:{n} and not its past")
        if not covers(state, self.totals[process.first_epoch]):
            self.fail(f"state of {process.name} lacks messages from before its first view")

    def decide(self, view):
        """One view for each epoch, which loses nothing that was stable."""
        names = [entry.name for entry in view.entries]
        if len(set(names)) != len(names):
            self.fail(f"a name occurs twice in {view}")
        first = self.views.setdefault(view.epoch, view)
        if first.ident != view.ident:
            self.fail(f"two views decided for epoch {view.epoch}")
        self.decided_in.setdefault(view.epoch, self.world.calm_round)
        if view.epoch not in self.totals:
            before = self.totals[view.epoch - 1]
            self.totals[view.epoch] = {**before, **view.bases, **view.ended}
            for epoch, claims in self.claims.items():
                if epoch < view.epoch and not covers(self.totals[view.epoch], claims):
                    self.fail(f"stable in epoch {epoch}, lost in epoch {view.epoch}")

    def install(self, process, view):
        """All that install a view with the state have delivered the same messages."""
        self.decide(view)
        uid = view.by_life[process.life]
        if self.actors.setdefault((view.epoch, uid), process.pid) != process.pid:
            self.fail(f"uid {uid} is two processes in {view}")
        if process.restored:
            self.compare(process, view, "begins")

    def leave(self, process, view):
        """So do those that leave with it, and their own messages survive."""
        if process.restored:
            self.compare(process, view, "leaves at")
        if view.cut[process.position] != process.delivered[process.position]:
            self.fail(f"messages of {process.name}, which leaves, are lost")

    def compare(self, process, view, verb):
        """The state of a process is what lies before the epoch."""
        state = {uid: n for uid, n in process.state.items() if n}
        expected = {uid: n for uid, n in self.totals[view.epoch].items() if n}
        if state != expected:
            self.fail(f"virtual synchrony: {process.name} {verb} {view} with another state")

    def stable(self, process, uid, n):
        """A stable message is in every later view's state."""
        claims = self.claims[process.epoch]
        claims[uid] = max(claims.get(uid, 0), n)
        for epoch, totals in self.totals.items():
            if epoch > process.epoch and totals.get(uid, 0) < n:
                self.fail(f"{uid}:{n} is stable in epoch {process.epoch}, lost in {epoch}")

    def excluded(self, process):
        """No exclusion may be decided in a calm group; the member may find out later."""
        for epoch in sorted(e for e in self.views if e > process.epoch):
            if process.life not in self.views[epoch].by_life:
                is_calm = self.decided_in[epoch] > CALM_ROUNDS and not self.world.covered["double"]
                if is_calm and not self.world.bad_pair:
                    self.fail(f"{process.name} is excluded in a calm group")
                return
