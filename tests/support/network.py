"""Nodes without sockets, joined by links in memory: lossless, in order, as slow as a seed says."""

import random

from precedes.live.member import arrays
from precedes.live.member.node import DEFAULT_ROOM, Node, Settings
from tests.support.outputs import show


class Network:
    """A group of nodes whose frames travel when the schedule says so."""

    def __init__(
        self,
        protocol,
        members,
        seed,
        *,
        compiled=False,
        tests_at_ns=None,
        on_turn=None,
        room=DEFAULT_ROOM,
        **settings,
    ):
        self.on_turn = on_turn  # called before each turn of a member with the number of turns
        self.turns = 0
        self.rows = []  # of the logs: whose, bytes
        self.reports = []  # who suspects whom
        self.rng = random.Random(seed)
        self.members = members
        self.nodes = [
            Node(
                Settings(member=i, members=members, protocol=protocol, **settings),
                recording=True,
                room=room,
            )
            for i in range(members)
        ]
        self.now_ns = 0
        self.dead = set()
        self.links = {}
        self.frames = []  # all bodies that were sent: by whom, to whom, bytes
        self.delivered = [[] for _ in range(members)]
        self.order = [[] for _ in range(members)]  # what each did: (who, sequence), own included
        self.refused = []
        self.outputs = []  # all that every run of a node gave
        for node in self.nodes:
            if compiled:
                node.prepare()
            node.start(tests_at_ns=tests_at_ns)

    @property
    def alive(self):
        return [i for i in range(self.members) if i not in self.dead]

    def broadcast(self, i, more=b""):
        """One message, if there is credit."""
        if self.nodes[i].credit > 0:
            sequence = self.nodes[i].broadcast(f"{i}:{len(self.order[i])}".encode() + more)
            self.order[i].append((i, sequence))

    def step(self, i, *, share=None):
        """Some frames arrive at a member, and it runs."""
        self.now_ns += 1_000_000
        node = self.nodes[i]
        for (source, target), queue in sorted(self.links.items()):
            if target == i and queue:
                count = len(queue) if share is None else self.rng.randrange(len(queue) + 1)
                for body in queue[:count]:
                    node.receive(source, body)
                del queue[:count]
        if self.on_turn is not None:
            self.on_turn(self, self.turns)
        self.turns += 1
        self.take_output(i, node.run(self.now_ns, force=True))

    def take_output(self, i, output):
        """Deliver what it delivers, send what it sends."""
        node = self.nodes[i]
        self.outputs.append(show(i, node, output))
        self.rows += [(i, row) for row in output.trace]
        self.reports += [(i, output.suspected)] if output.suspected else []
        self.refused += [(i, *what) for what in output.malformed]
        for message in (message for batch in output.deliveries for message in batch):
            self.delivered[i].append(message)
            self.order[i].append((message.sender, message.sequence))
            self.consume(i, message)
        for common, own, _ in output.frames:
            for j in self.alive:
                if j != i:
                    body = (b"" if node.is_gone(j) else common) + own.get(j, b"")
                    if body:
                        self.links.setdefault((i, j), []).append(body)
                        self.frames.append((i, j, body))

    def consume(self, i, message):
        """The application takes a message."""
        self.nodes[i].consume(message.sender, 1)

    def kill(self, i):
        """A member stops; of what it sent last, some arrives and some does not."""
        self.dead.add(i)
        for (source, _), queue in sorted(self.links.items()):
            if source == i:
                del queue[self.rng.randrange(len(queue) + 1) :]

    def crash(self, i, victim):
        """A member learns of a crash, if its protocol goes on without the victim in this epoch."""
        if self.nodes[i].protocol.on_loss == "crash":
            self.nodes[i].crash(victim)

    def settle(self, rounds=200):
        """Let everything arrive."""
        for _ in range(rounds):
            for i in self.alive:
                self.step(i)
            if not any(queue for (_, j), queue in self.links.items() if j not in self.dead):
                return

    def random_run(self, steps, *, victims=(), until=0.6):
        """Random broadcasts and arrivals; victims die on the way, which others learn sometime."""
        times = self.rng.sample(range(steps // 4, steps // 2), len(victims))
        deaths = dict(zip(times, victims, strict=True))
        reported = set()
        for number in range(steps):
            if number in deaths:
                self.kill(deaths[number])
            i = self.rng.choice(self.alive)
            for victim in sorted(self.dead):
                if (i, victim) not in reported and self.rng.random() < 0.05:
                    reported.add((i, victim))
                    self.crash(i, victim)
            if number < until * steps:
                self.broadcast(i)
            self.step(i, share=True)
        for i in self.alive:
            for victim in sorted(self.dead):
                self.crash(i, victim)
        self.settle()

    def lacking(self):
        """Messages of live members that a live member has not delivered."""
        found = []
        for i in self.alive:
            names = {(message.sender, message.sequence) for message in self.delivered[i]}
            for j in self.alive:
                if j != i:
                    sent = int(self.nodes[j].registers[arrays.OWN_SEQUENCE])
                    found += [(i, j, k) for k in range(1, sent + 1) if (j, k) not in names]
        return found


class Lazy(Network):
    """A group whose applications take messages late, each in its own order of delivery."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.untaken = [[] for _ in range(self.members)]
        self.consumed = [[0] * self.members for _ in range(self.members)]

    def consume(self, i, message):
        """It waits for the next turn of its member, or a later one."""
        self.untaken[i].append(message.sender)

    def step(self, i, *, share=None):
        """Before the rest, the application takes some of what it has."""
        waiting = self.untaken[i]
        count = len(waiting) if share is None else self.rng.randrange(len(waiting) + 1)
        for sender in waiting[:count]:
            self.nodes[i].consume(sender, 1)
            self.consumed[i][sender] += 1
        del waiting[:count]
        super().step(i, share=share)

    def consumed_by_all(self, i):
        """The number of stable messages of a member."""
        others = [j for j in range(self.members) if j != i and not self.nodes[i].is_gone(j)]
        return min(self.consumed[j][i] for j in others) if others else None


def out_of_order(orders):
    """Deliveries before a cause, by the definition: an oracle of a few lines, for small runs."""
    pasts, found = {}, []
    pending = [list(order) for order in orders]
    places = [0] * len(orders)
    known = [set() for _ in orders]
    moved = True
    while moved:
        moved = False
        for i, order in enumerate(pending):
            while places[i] < len(order):
                name = order[places[i]]
                if name[0] == i:
                    pasts[name] = frozenset(known[i])
                elif name not in pasts:
                    break
                elif not pasts[name] <= known[i]:
                    found.append((i, name))
                known[i].add(name)
                places[i] += 1
                moved = True
    return found
