"""Broadcast within an epoch, and the application of a process: what the membership stands on.

A message is the tuple (position, sequence, clock, (uid, sequence in the group), sticky). A *sticky*
message waits for an answer of its sender before it can be delivered, as in protocols that request
missing dependencies.

The state of a process is a count of messages for each uid. A learner queues deliveries until it has
the state of another member, which comes in chunks over a connection of its own.
"""

NODE_RECORDS = ("DATA", "ACK", "ASK", "ANSWER")
STATE_RECORDS = ("GET_STATE", "NO_STATE", "STATE")
CHUNKS = 2


class Host:
    """The state of a process without its membership.

    That has ``frozen`` and ``view``, and implements ``may_serve``, ``note_delivered``,
    ``state_arrived`` and ``state_failed``.
    """

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.pid = world.next_pid()
        self.alive, self.paused, self.has_left = True, False, False
        self.restored = True  # has the state of the group
        self.ticks = self.began = 0
        self.linked = {}  # life -> name: processes that this one has a link with
        self.clear_state()

    def clear_state(self):
        """Nothing is known of a group."""
        self.state = {}  # uid -> messages in the application's state, own ones included
        self.consumed, self.inbox, self.queue = {}, [], []
        self.first_epoch = self.request = self.silent_ticks = 0
        self.chunks, self.state_epoch, self.is_fetching = {}, 0, False

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
        if self.role != "member" or self.leaving or self.frozen or not self.restored:
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
        """Deliver to the application; a learner without state queues."""
        self.delivered[name[0]] = name[1]
        self.unstable.append(name)
        tag = message[3]
        if self.restored:
            self.apply(tag)
        else:
            self.queue.append(tag)
            self.note_delivered(dict([tag]))

    def apply(self, tag):
        """A message reaches the application."""
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
        """Report what is consumed; learners report what is queued."""
        if self.role != "member":
            return
        bases, counts = self.view.bases, list(self.delivered)
        if self.restored:
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

    # Transfer of the state ------------------------------------------------------------------------

    def begin_learning(self, view):
        """A newcomer: without a state to transfer it begins with the view."""
        self.first_epoch = view.epoch
        self.world.covered["learner"] += 1
        self.restored = False
        if self.world.stateless:
            self.restore(self.world.checker.totals[view.epoch])

    def fetch_state(self, life, first_epoch):
        """Request the state; an earlier request is void."""
        self.request += 1
        self.chunks, self.is_fetching, self.silent_ticks = {}, True, 0
        self.world.send(self.life, life, ("GET_STATE", first_epoch, self.request))

    def on_state_record(self, src, record):
        """A record of a connection that carries a state."""
        getattr(self, "on_" + record[0].lower())(src, *record[1:])

    def on_get_state(self, src, first_epoch, request):
        """Send the state in chunks, or refuse."""
        if not self.may_serve(src, first_epoch):
            self.world.send(self.life, src, ("NO_STATE", request))
            return
        self.world.covered["transfer"] += 1
        for i in range(CHUNKS):
            part = {uid: n for uid, n in self.state.items() if uid % CHUNKS == i}
            self.world.send(self.life, src, ("STATE", request, self.epoch, i, part))

    def is_awaited(self, request):
        """Return whether a chunk is of the last request."""
        return request == self.request

    def on_no_state(self, src, request):
        """The member cannot send its state."""
        if self.is_fetching and self.is_awaited(request):
            self.is_fetching = False
            self.world.covered["refused_state"] += 1
            self.state_failed()

    def on_state(self, src, request, epoch, index, part):
        """A chunk has arrived."""
        if not self.is_fetching or not self.is_awaited(request):
            return
        self.chunks[index], self.silent_ticks = part, 0
        if len(self.chunks) == CHUNKS:
            self.is_fetching, self.state_epoch = False, epoch
            self.state_arrived(epoch, self.state_in_chunks())

    def state_in_chunks(self):
        """The state that has arrived."""
        return {uid: n for part in self.chunks.values() for uid, n in part.items()}

    def tick_transfer(self):
        """A transfer that stands still has failed."""
        if self.is_fetching and self.role == "member":
            self.silent_ticks += 1
            if self.silent_ticks > self.world.patience:
                self.is_fetching = False
                self.world.covered["transfer_failed"] += 1
                self.state_failed()

    def restore(self, state):
        """Replace the state, and apply of the queue what it does not contain."""
        self.world.checker.restore(self, state)
        self.world.covered["restored"] += 1
        self.restored, self.chunks = True, {}
        self.state, self.consumed, self.inbox = dict(state), dict(state), []
        queue, self.queue = self.queue, []
        for tag in queue:
            if self.is_beyond_state(tag):
                self.apply(tag)

    def is_beyond_state(self, tag):
        """Return whether a queued message is not in the state yet."""
        return tag[1] > self.state.get(tag[0], 0)
