"""Network and a random adversary around processes; then a fair end that must converge.

Safety is checked at every step. At the end faults stop, detectors become accurate, and the group
has to converge if ``can_progress`` says so: *held*; *blocked*, no quorum can be there; *stuck*, one
is there and the group does not converge; *violated*.
"""

import random
from collections import Counter, deque

from precedes.errors import PeerError
from tests.support.membership.adapter import Product
from tests.support.membership.checker import Checker
from tests.support.membership.host import STATE_RECORDS
from tests.support.membership.reference import Reference
from tests.support.membership.values import Entry, View, Violation, is_quorum

PROFILES = ("mixed", "joins", "one_way", "five")
KINDS = (
    *("DATA", "ACK", "PREPARE", "PROMISE", "ACCEPT", "ACCEPTED", "DECIDED", "FETCH", "BODIES"),
    *("INSTALLED", "CHANGE", "JOIN", "GET_STATE", "STATE"),
)
JOIN_KINDS = ("STATE", "STATE", "GET_STATE", "JOIN", "DECIDED", "INSTALLED")
SIZES = {"five": [5, 5, 6, 7], "joins": [1, 2, 3]}  # of the first view
# Records outside of the order of a link: states have connections of their own.
LANES = dict.fromkeys(STATE_RECORDS, 1)
BYTES_EVERY = 10  # schedules in which records travel as bytes


class World:
    """Processes, links, and an adversary drawn from a seed."""

    def __init__(self, seed, process=Product, profile="mixed", n=None, extra=None):
        self.rng = rng = random.Random(f"{profile} {seed}")
        self.profile, self.with_bytes = profile, seed % BYTES_EVERY == 0
        self.checker, self.covered = Checker(self), Counter()
        self.process = process
        self.pids = self.lives = self.calm_round = 0
        self.local = deque()
        self.links, self.busy_links = {}, []  # (life, life, lane) -> records; those not empty
        self.owner, self.at = {}, {}  # life -> process; name -> its newest process
        self.older = []  # processes whose name a second one has
        self.born = {}  # life -> name
        self.cut = set()  # ordered pairs of names: (sender, receiver) whose link is cut
        self.bad_pair, self.due = (), False
        self.traps, self.slow = [], set()
        if n is None:
            n = rng.choice(SIZES.get(profile, [1, 2, 3, 3, 4, 5, 6]))
        if extra is None:
            extra = rng.choice([2, 3, 4] if profile == "joins" else [0, 1, 1, 2])
        self.names = [chr(97 + i) for i in range(n + extra)]
        self.founders = self.names[:n]
        self.route = rng.choice(["direct", "direct", "tree"])
        self.sticky = rng.choice([0.0, 0.0, 0.15])
        self.window = rng.choice([2, 4, 8])
        self.stateless = rng.random() < 0.3
        self.patience = 3
        self.found()

    def found(self):
        """Start with a view of all founders."""
        for name in self.founders:
            self.at[name] = self.process(self, name, self.founders)
        for made in self.at.values():
            self.link(made)
        if self.process is Reference:
            entries = [Entry(i, x, self.at[x].life) for i, x in enumerate(self.founders, 1)]
            uids = {entry.uid for entry in entries}
            view = View(epoch=1, entries=entries, voters=uids, next_uid=len(uids) + 1,
                        ballot=(1, 1))  # fmt: skip
            for made in self.at.values():
                made.found(view)
        else:
            for made in self.at.values():
                made.machine.tried_seeds()
            for made in self.at.values():
                made.machine.tick(0)
                made.carry_out()
                self.flood()
        self.links, self.busy_links = {}, []
        assert all(made.installed_by == made.view.uids for made in self.at.values())

    def flood(self):
        """Deliver everything in flight, in some order."""
        while self.busy_links:
            self.deliver_at(0)

    # Identities and links -------------------------------------------------------------------------

    def start(self, name):
        """A process that is in no group."""
        self.at[name] = self.process(self, name, self.founders)

    def link(self, process):
        """A process notices which links it has, in both directions."""
        reached = {
            p.life: p.name for p in self.processes()
            if p is not process and p.role != "replaced"
            and not {(p.name, process.name), (process.name, p.name)} & self.cut
        }  # fmt: skip
        for life in sorted(process.linked.keys() - reached.keys()):
            process.link_lost(life)
        for life in sorted(reached.keys() - process.linked.keys()):
            process.link_up(life, reached[life])

    def next_pid(self):
        """A number for each process."""
        self.pids += 1
        return self.pids

    def next_life(self):
        """A life that no process had."""
        self.lives += 1
        return self.lives

    def own(self, process):
        """Records to this life go to this process."""
        self.owner[process.life] = process
        self.born[process.life] = process.name

    def disown(self, process):
        """Records to this life are lost."""
        if self.owner.get(process.life) is process:
            del self.owner[process.life]

    def is_connected(self, life):
        """Return whether the process of a life runs."""
        process = self.owner.get(life)
        return process is not None and process.alive

    def processes(self):
        """All that run, those that have left and still answer among them."""
        self.older = [p for p in self.older if p.alive]
        return [p for p in self.at.values() if p.alive] + self.older

    def send(self, a, b, record):
        """Links are FIFO between two lives and lose nothing but with a life."""
        key = a, b, LANES.get(record[0], 0)
        queue = self.links.setdefault(key, deque())
        if not queue:
            self.busy_links.append(key)
        queue.append(record)

    def send_local(self, process, record):
        """A record of a process to itself."""
        self.local.append((process, record))

    def settle(self):
        """Deliver what processes send to themselves."""
        while self.local:
            process, record = self.local.popleft()
            if process.alive:
                process.handle(process.life, record)

    def deliver_at(self, i):
        """Deliver the head of a link, unless it is held back."""
        key = self.busy_links[i]
        queue, target = self.links[key], self.owner.get(key[1])
        if target is None or not target.alive:
            queue.clear()
            self.drop_link(i)
            return False
        if target.paused or (self.cut and (self.born[key[0]], target.name) in self.cut):
            return False
        if queue[0][0] in self.slow and self.rng.random() < 0.85:
            return False
        record = queue.popleft()
        if not queue:
            self.drop_link(i)
        trap = self.sprung(record[0])
        if trap != "before":
            self.pass_record(key[0], target, record)
        if trap and target.alive:
            self.crash(target)
        return True

    def pass_record(self, source, target, record):
        """A record arrives, over a link."""
        if source not in target.linked:
            target.link_up(source, self.born[source])
        target.handle(source, record)
        self.settle()

    def drop_link(self, i):
        """A link is empty."""
        self.busy_links[i] = self.busy_links[-1]
        self.busy_links.pop()

    def sprung(self, kind):
        """A trap crashes the receiver before or after the k-th record of a kind."""
        for trap in self.traps:
            if trap[0] == kind:
                trap[1] -= 1
                if trap[1] == 0:
                    self.traps.remove(trap)
                    self.covered["trap_" + kind] += 1
                    return trap[2]
        return None

    # Faults ---------------------------------------------------------------------------------------

    def crash(self, process):
        """A process ends; some of what it sent is lost with it."""
        if not process.alive:
            return
        self.covered["crash"] += 1
        self.covered["crash_" + process.role] += 1
        self.covered["crash_learner"] += process.role == "member" and not process.restored
        self.covered["crash_sender"] += any(
            key[0] == process.life and key[2] and queue for key, queue in self.links.items()
        )
        self.covered["crash_coordinator"] += process.ballot is not None
        self.covered["crash_frozen"] += process.frozen
        self.covered["crash_decided"] += process.decided is not None
        process.alive, process.has_left = False, process.role == "left"
        for key, queue in self.links.items():
            if key[0] == process.life and queue:
                for _ in range(self.rng.randint(0, len(queue))):
                    self.covered["lost_" + queue.pop()[0]] += 1
        self.busy_links = [key for key in self.busy_links if self.links[key]]
        self.disown(process)

    def restart(self, name):
        """Another process takes the name of one that has crashed."""
        self.start(name)
        self.covered["restart"] += 1

    def down(self):
        """Names whose process crashed and did not leave before."""
        return [x for x, p in self.at.items() if not p.alive and not p.has_left]

    # The adversary --------------------------------------------------------------------------------

    def run(self):
        """One schedule of faults."""
        if self.profile == "joins":
            self.run_joins()
        elif self.profile == "one_way" or self.rng.random() < 0.5:
            self.run_phases()
        else:
            self.run_mixed()
        self.traps, self.slow = [], set()

    def act(self, weights, steps):
        """Draw actions."""
        actions = [getattr(self, "do_" + name) for name in weights]
        for action in self.rng.choices(actions, list(weights.values()), k=steps):
            action()
            self.settle()

    def run_mixed(self):
        """Faults of every kind at any time."""
        rng = self.rng
        level = rng.choice([0.3, 1.0, 2.0])
        weights = {
            "deliver": 60, "broadcast": 10, "consume": 10, "acknowledge": 6,
            "tick": rng.choice([6, 12]), "crash": 0.6 * level * rng.random(),
            "suspect": 0.8 * level * rng.random(), "detect": rng.choice([0, 0.5, 2]),
            "pause": 0.5 * level * rng.random(), "resume": 1.5,
            "cut": 0.5 * level * rng.random(), "split": 0.4 * level * rng.random(), "heal": 1.0,
            "leave": 0.4 * level * rng.random(), "change": rng.choice([0, 0.5, 1.0]),
            "blackout": 0.01, "restart": 2.0 * level, "join": 1.0, "double": 0.03,
        }  # fmt: skip
        style = rng.choice(["mixed", "mixed", "duel", "churn", "hold"])
        if style == "duel":  # coordinators that compete
            self.patience = rng.choice([0, 0, 1])
            weights.update(tick=rng.choice([20, 40]), suspect=1.0, cut=1.5, heal=0.5, detect=0.5)
        elif style == "churn":
            weights.update(change=3.0, leave=0.3, crash=0.3, tick=25, detect=2, join=3, restart=4)
        elif style == "hold":  # cuts that last
            weights.update(cut=2.0, heal=0.1, split=0.0, tick=20, suspect=0.5)
        if rng.random() < 0.4:
            self.slow = set(rng.sample(KINDS, rng.randint(1, 2)))
        if rng.random() < 0.2:  # decisions arrive before the messages that they flush
            self.slow |= {"DATA", "FETCH", "BODIES"}
            weights["crash"] *= 2
        if rng.random() < 0.5:
            self.set_traps(KINDS, rng.randint(1, 3))
        self.act(weights, rng.choice([120, 250, 400, 700]))

    def set_traps(self, kinds, count):
        """Processes crash before or after they receive such a record."""
        rng = self.rng
        self.traps = [
            [rng.choice(kinds), rng.randint(1, 12), rng.choice(["before", "after"])]
            for _ in range(count)
        ]

    def run_joins(self):
        """Mostly joins, restarts and exclusions; transfers are slow."""
        rng = self.rng
        self.patience = rng.choice([1, 3])
        self.slow = set(rng.sample(JOIN_KINDS, rng.randint(1, 3)))
        if rng.random() < 0.7:
            self.set_traps((*JOIN_KINDS, "ACCEPT"), rng.randint(1, 2))
        weights = {
            "deliver": 60, "tick": rng.choice([20, 40]), "broadcast": 10, "consume": 6,
            "acknowledge": 3, "join": 6, "leave": rng.choice([0, 0.3]), "restart": 2, "detect": 2,
            "crash": rng.choice([0, 0.2, 0.6]), "suspect": rng.choice([0, 0.4]), "cut": 0.6,
            "heal": 1, "double": 0.1, "believe": rng.choice([0, 0.5]),
        }  # fmt: skip
        self.act(weights, rng.choice([150, 300, 500]))

    def run_phases(self):
        """Partitions that last, with detectors that believe them."""
        rng = self.rng
        self.patience = rng.choice([0, 1, 1, 2])
        is_closed = rng.random() < 0.5  # nobody joins or leaves
        weights = {
            "deliver": 60, "tick": rng.choice([8, 15, 25]), "broadcast": rng.choice([2, 6]),
            "consume": 5, "acknowledge": rng.choice([1, 4]), "believe": rng.choice([2, 6]),
            "change": rng.choice([0, 1.5]), "leave": 0 if is_closed else 0.2,
            "crash": rng.choice([0, 0.2, 0.6]), "join": 0 if is_closed else 1.5,
            "restart": rng.choice([0.3, 1.0, 3.0]),
        }  # fmt: skip
        kinds = ["whole", "split", "split", "alone", "deaf", "mute", "random"]
        if self.profile == "one_way":
            kinds = ["whole", "deaf", "mute", "deaf", "mute", "random", "chain"]
        for _ in range(rng.randint(4, 12)):
            self.cut = self.partition(rng.choice(kinds))
            self.act(weights, rng.randint(15, 90))

    def partition(self, kind):
        """Links that are cut."""
        names, one = self.names, self.rng.choice(self.names)
        self.covered["phase_" + kind] += 1
        if kind == "split":
            side = {x for x in names if self.rng.random() < 0.5}
            return {(a, b) for a in names for b in names if (a in side) != (b in side)}
        if kind == "alone":
            return {pair for x in names for pair in ((one, x), (x, one))}
        if kind == "deaf":
            return {(x, one) for x in names}
        if kind == "mute":
            return {(one, x) for x in names}
        if kind == "random":
            return {(a, b) for a in names for b in names if self.rng.random() < 0.3}
        if kind == "chain":  # only links to the next name work
            return {(a, b) for i, a in enumerate(names) for j, b in enumerate(names) if j != i + 1}
        return set()

    def pick(self, test=None):
        """A process that runs and passes the test."""
        found = [p for p in self.processes() if not p.paused and (test is None or test(p))]
        return self.rng.choice(found) if found else None

    def pick_member(self):
        return self.pick(lambda p: p.role == "member")

    def do_deliver(self):
        for _ in range(8):
            if self.busy_links and self.deliver_at(self.rng.randrange(len(self.busy_links))):
                return

    def do_broadcast(self):
        if (p := self.pick()) is not None and p.may_broadcast():
            p.broadcast(self.rng.random() < self.sticky)

    def do_consume(self):
        if (p := self.pick()) is not None and p.restored:
            p.consume(self.rng.randint(1, 6))

    def do_acknowledge(self):
        if (p := self.pick()) is not None:
            p.acknowledge()

    def do_tick(self):
        if (p := self.pick()) is not None:
            self.link(p)
            p.tick()

    def do_restart(self):
        if names := self.down():
            self.restart(self.rng.choice(names))

    def do_join(self):
        if absent := [x for x in self.names if x not in self.at]:
            self.start(self.rng.choice(absent))

    def do_double(self):
        """A second process under a name in use, by an operator's mistake."""
        if names := [x for x, p in self.at.items() if p.alive and p.role in ("member", "joiner")]:
            self.double(self.rng.choice(names))
            self.covered["double"] += 1

    def double(self, name):
        """Start a second process of a name."""
        self.older.append(self.at[name])
        self.start(name)

    def do_crash(self):
        tests = [None, lambda p: p.ballot is not None, lambda p: p.frozen,
                 lambda p: p.decided is not None, lambda p: p.decided is not None,
                 lambda p: p.role == "left", lambda p: p.role == "member" and not p.restored,
                 lambda p: p.role == "member" and p.restored and self.sends_state(p)]  # fmt: skip
        if (p := self.pick(self.rng.choice(tests))) is not None:
            self.crash(p)

    def sends_state(self, process):
        """Return whether a part of its state is in flight."""
        return any(key[0] == process.life and key[2] for key in self.busy_links)

    def do_blackout(self):
        self.covered["blackout"] += 1
        for p in self.processes():
            self.crash(p)

    def do_detect(self):
        if (p := self.pick_member()) is not None:
            for e in p.view.entries:
                if not self.is_connected(e.life):
                    p.suspect(e.uid)

    def do_believe(self):
        """One process updates its suspects from the links it has."""
        if (p := self.pick_member()) is not None:
            for e in p.view.entries:
                if self.is_connected(e.life) and (e.name, p.name) not in self.cut:
                    p.trust(e.uid)
                else:
                    p.suspect(e.uid)

    def do_suspect(self):
        p = self.pick(lambda p: p.role == "member" and len(p.view.uids) > 1)
        if p is not None:
            p.suspect(self.rng.choice(sorted(p.view.uids - {p.uid})))
            self.covered["false_suspicion"] += 1

    def do_pause(self):
        if (p := self.pick()) is not None:
            p.paused = True

    def do_resume(self):
        if paused := [p for p in self.processes() if p.paused]:
            self.rng.choice(paused).paused = False

    def do_cut(self):
        self.cut.add((self.rng.choice(self.names), self.rng.choice(self.names)))

    def do_split(self):
        self.cut = self.partition("split")

    def do_heal(self):
        self.cut = set()

    def do_leave(self):
        if (p := self.pick_member()) is not None:
            p.leave_group()

    def do_change(self):
        if (p := self.pick_member()) is not None:
            p.request_change()

    # The fair end ---------------------------------------------------------------------------------

    def calm(self, rounds=90):
        """Faults stop: True if the group converges. ``self.due``: whether it has to."""
        rng, self.cut = self.rng, set()
        if len(self.names) > 2 and rng.random() < 0.15:  # a link that never works again
            a, b = self.bad_pair = tuple(rng.sample(self.names, 2))
            self.cut = {(a, b)} if rng.random() < 0.5 else {(a, b), (b, a)}
            self.covered["bad_pair"] += 1
        self.patience = 3
        for p in self.processes():
            p.paused = False
        if rng.random() < 0.85:
            for name in self.down():
                if rng.random() < 0.8:
                    self.restart(name)
        return self.converge(rounds)

    def converge(self, rounds):
        """Return whether all that run end in one view."""
        left, self.due = self.covered["last_left"], False
        for self.calm_round in range(rounds):
            self.exchange()
            self.detect()
            if self.calm_round == 2:  # records of crashed processes had their last effect
                self.due = self.can_progress()
            if self.is_converged():
                self.broadcast_finally()
                return True
            for p in self.processes():
                self.link(p)
                p.tick()
                self.settle()
        if self.covered["last_left"] > left:
            self.due = False  # the only voter left, as it wanted
        return False

    def exchange(self):
        """Everything arrives and is consumed."""
        for _ in range(2):
            self.drain()
            for p in self.processes():
                if p.restored:
                    p.consume(10**9)
                p.acknowledge()
            self.settle()
        self.drain()

    def drain(self, limit=20_000):
        """Deliver what is in flight."""
        idle = 0
        while self.busy_links and limit and idle < 60:
            moved = self.deliver_at(self.rng.randrange(len(self.busy_links)))
            idle, limit = 0 if moved else idle + 1, limit - 1

    def detect(self):
        """An accurate failure detector."""
        for p in self.processes():
            if p.role == "member":
                for e in p.view.entries:
                    roles = ("member", "joiner")
                    alive = self.is_connected(e.life) and self.owner[e.life].role in roles
                    if alive and (e.name, p.name) not in self.cut:
                        p.trust(e.uid)
                    else:
                        p.suspect(e.uid)

    def is_converged(self):
        """All that run are in one view, and have the same state."""
        live = [p for p in self.processes() if p.role != "left"]
        if self.bad_pair and live:  # one of the two has to stay outside
            top = max(p.epoch for p in live)
            out = [p for p in live if p.name in self.bad_pair
                   and (p.role != "member" or p.epoch < top)]  # fmt: skip
            if len({p.name for p in out}) == 1:
                live = [p for p in live if p not in out]
        for p in [p for p in live if p.role == "member" and p.view.voters == {p.uid}]:
            # The only voter is never replaced: a second process of its name has to wait.
            live = [x for x in live if x.name != p.name or x.role != "joiner"]
        if not live or any(p.role != "member" or p.epoch != live[0].epoch for p in live):
            return False
        if any(p.frozen or p.leaving or p.waiting or p.suspects or not p.restored for p in live):
            return False
        view = live[0].view
        if set(view.by_life) != {p.life for p in live} or view.voters != view.uids:
            return False
        states = [{u: n for u, n in p.state.items() if n} for p in live]
        return all(state == states[0] for state in states)

    def broadcast_finally(self):
        """Everybody broadcasts once more, and everybody delivers it."""
        members = [p for p in self.processes() if p.role == "member"]
        top = max(p.epoch for p in members)
        for p in members:
            if p.epoch == top:
                if not p.may_broadcast():
                    raise Violation(f"{p.name} has no credit in a calm group")
                p.broadcast()
                self.settle()
        self.drain()
        if not self.is_converged():
            raise Violation("the last messages do not reach everybody")

    # Does the group have to make progress? --------------------------------------------------------

    def can_progress(self):
        """G7: enough voters are running and connected, judged by what has happened."""
        if not self.bad_pair:
            return self.has_quorum(self.processes())
        return any(
            self.has_quorum([p for p in self.processes() if p.name != x]) for x in self.bad_pair
        )

    def has_quorum(self, processes):
        """A quorum of the last decided view is here, and one of the view accepted after it.

        Voters that have not installed the last view yet count if they can, when a process here has
        the decision, or a quorum of the view before is here.
        """
        views = self.checker.views
        top = max(views)
        view, before = views[top], views.get(top - 1)
        active = [p for p in processes if p.role == "member"]
        here = frozenset(p.uid for p in active if p.epoch == top)
        behind = [p for p in active if p.epoch == top - 1]
        entering = frozenset(view.by_life[p.life] for p in behind if p.life in view.by_life)
        if not is_quorum(view.voters, here | entering):
            return False
        if not here & view.voters:
            old = frozenset(p.uid for p in behind)
            return before is not None and is_quorum(before.voters, old)
        pairs = [
            pair[:2] for p in active if p.epoch == top
            for pair in (p.accepted, p.pending) if pair is not None
        ]  # fmt: skip
        if not pairs:
            return True
        value = max(pairs, key=lambda pair: pair[0])[1]
        continuing = {value.successors[u] for u in here | entering if u in value.successors}
        return is_quorum(value.voters, frozenset(continuing))


def run_schedule(seed, process=Product, profile="mixed"):
    """(verdict, reason, world): held, blocked (no quorum is there), stuck, or violated."""
    world = World(seed, process, profile)
    try:
        world.run()
        if world.calm():
            return "held", "", world
        if world.due or world.can_progress():
            return "stuck", "a quorum is there and the group does not converge", world
        return "blocked", "", world
    except Violation as error:
        return "violated", str(error), world
    except PeerError as error:
        return "violated", f"a record of a correct member is refused: {error}", world
