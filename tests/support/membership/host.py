"""Broadcast within an epoch, and the application of a process: what the membership stands on.

A message is the tuple (position, sequence, clock, (uid, sequence in the group), sticky). A *sticky*
message waits for an answer of its sender before it can be delivered, as in protocols that request
missing dependencies.
"""

NODE_RECORDS = ("DATA", "ACK", "ASK", "ANSWER")


class Host:
    """The state of a process without its membership, which has ``frozen`` and ``view``."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.alive, self.paused, self.has_left = True, False, False
        self.state = {}  # uid -> messages in the application's state, own ones included
        self.consumed, self.inbox = {}, []
        self.ticks = self.began = 0

    def start_epoch(self):
        """Fresh state of the protocol for the current view."""
        n = len(self.view.entries)
        self.delivered, self.stable = [0] * n, [0] * n
        self.bodies = {}  # (position, sequence) -> message: everything that is not stable
        self.waiting = set()  # received, not yet deliverable
        self.unstable = []  # delivered above the stable prefix, in order of delivery
        self.acknowledged = {uid: [0] * n for uid in self.view.uids}
        self.explained, self.asked = set(), set()

    @property
    def position(self):
        """Position in the view."""
        return self.view.position[self.uid]

    def may_broadcast(self):
        """Return whether there is credit, and no change."""
        if self.role != "member" or self.leaving or self.frozen:
            return False
        return self.delivered[self.position] - self.stable[self.position] < self.world.window

    def broadcast(self, sticky=False):
        """Broadcast one message, delivered here at once."""
        p = self.position
        name = p, self.delivered[p] + 1
        tag = self.uid, self.view.bases[self.uid] + name[1]
        message = (*name, tuple(self.delivered), tag, sticky)
        self.world.checker.broadcast(self, tag)
        self.delivered[p] = name[1]
        self.unstable.append(name)
        self.bodies[name] = message
        self.state[tag[0]] = self.consumed[tag[0]] = tag[1]
        self.route(message)

    def route(self, message):
        """Send or forward: directly to all, or along a binary tree of positions."""
        n, source = len(self.view.entries), message[0]
        if self.world.route == "tree":
            rank = (self.position - source) % n
            targets = [(source + r) % n for r in (2 * rank + 1, 2 * rank + 2) if r < n]
        elif source == self.position:
            targets = [q for q in range(n) if q != source]
        else:
            targets = []
        for q in targets:
            self.send(self.view.entries[q].life, "DATA", self.epoch, message)

    def on_node_record(self, src, record):
        """A record of the epoch's node."""
        getattr(self, "on_" + record[0].lower())(src, *record[1:])

    def on_data(self, src, epoch, message):
        """A message: deliver it when its past is here; once frozen only its body counts."""
        name = message[:2]
        if name[1] <= self.delivered[name[0]] or name in self.bodies:
            return
        self.bodies[name] = message
        if self.frozen:
            self.body_arrived(name, message)
            return
        self.waiting.add(name)
        self.route(message)
        if message[4] and name not in self.asked:
            self.asked.add(name)
            self.send(self.view.entries[name[0]].life, "ASK", epoch, name)
        self.deliver_ready()

    def on_ask(self, src, epoch, name):
        """Answer for a sticky message."""
        if not self.frozen:
            self.send(src, "ANSWER", epoch, name)

    def on_answer(self, src, epoch, name):
        """A sticky message may be delivered."""
        self.explained.add(name)
        if not self.frozen:
            self.deliver_ready()

    def is_deliverable(self, message):
        """Return whether the past of a message is here."""
        p, sequence, clock, _, sticky = message
        if sequence != self.delivered[p] + 1:
            return False
        if any(need > have for need, have in zip(clock, self.delivered, strict=True)):
            return False
        return not sticky or (p, sequence) in self.explained

    def deliver_ready(self):
        """Deliver what waited."""
        progress = True
        while progress:
            progress = False
            for name in sorted(self.waiting):
                if self.is_deliverable(self.bodies[name]):
                    self.waiting.discard(name)
                    self.deliver(name, self.bodies[name])
                    progress = True

    def deliver(self, name, message):
        """Deliver to the application."""
        self.delivered[name[0]] = name[1]
        self.unstable.append(name)
        tag = message[3]
        self.world.checker.deliver(self, tag)
        self.state[tag[0]] = tag[1]
        self.inbox.append(tag)
        if not self.world.stateless:
            self.consume(len(self.inbox))  # a state object consumes in the turn of the delivery

    def consume(self, n):
        """The application takes up to ``n`` messages."""
        for tag in self.inbox[:n]:
            self.consumed[tag[0]] = max(self.consumed.get(tag[0], 0), tag[1])
        del self.inbox[:n]

    def acknowledge(self):
        """Report what is consumed."""
        if self.role != "member":
            return
        bases = self.view.bases
        counts = [max(0, self.consumed.get(e.uid, 0) - bases[e.uid]) for e in self.view.entries]
        self.on_ack(self.life, self.epoch, self.uid, counts)
        for uid in sorted(self.view.uids - {self.uid}):
            self.send(self.view.life[uid], "ACK", self.epoch, self.uid, counts)

    def on_ack(self, src, epoch, uid, counts):
        """Raise the stable prefix; that of a promise must stay true."""
        if uid not in self.acknowledged or len(counts) != len(self.stable):
            return
        pairs = zip(self.acknowledged[uid], counts, strict=True)
        self.acknowledged[uid] = [max(pair) for pair in pairs]
        if self.frozen:
            return
        stable = [min(column) for column in zip(*self.acknowledged.values(), strict=True)]
        if stable == self.stable:
            return
        self.stable = stable
        for p, n in enumerate(stable):
            if n:
                other = self.view.entries[p].uid
                self.world.checker.stable(self, other, self.view.bases[other] + n)
        self.unstable = [name for name in self.unstable if name[1] > stable[name[0]]]
        for p, s in list(self.bodies):
            if s <= min(stable[p], self.delivered[p]):
                del self.bodies[p, s]
