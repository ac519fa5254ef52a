"""Random correct logs of a live group whose members join, restart, leave and are killed.

A log is a list of events (kind, source, sequence) and of lines about views, which are dicts without
``rows``. The model knows nothing of the package but the numbers of kinds and the writer of logs.
"""

import random
import struct
from dataclasses import dataclass, field

from precedes.model import EventKind
from precedes.trace.member_log import ENDED, LEFT, OPEN, LogWriter

BROADCAST, DELIVER = int(EventKind.BROADCAST), int(EventKind.DELIVER)
GROUP = "aa" * 16


@dataclass
class Life:
    """A member: its log, and what it has of each uid; a learner has queued that."""

    uid: int
    name: str
    items: list = field(default_factory=list)
    has: dict = field(default_factory=dict)
    learns: bool = False
    queue: list = field(default_factory=list)
    snapshot: tuple | None = None  # epoch and counts of a state in flight, and its sender
    status: int = OPEN
    of: str | None = None  # the life in the header of its log, if that is another one

    @property
    def life(self):
        return f"{self.uid:032x}"


class Group:
    """The model: epochs of atomic changes, with causal deliveries in between."""

    def __init__(self, seed, *, founders=3, epochs=5, has_states=True):
        self.random = random.Random(seed)
        self.has_states = has_states
        self.lives = [Life(uid, f"n{uid}") for uid in range(1, founders + 1)]
        self.present = list(self.lives)
        self.past = {}  # message -> counts that its sender had
        self.sent = {}
        self.epoch, self.last_of, self.counts = 0, {}, {}
        self.install({})
        for number in range(epochs):
            for _ in range(self.random.randint(0, 12)):
                self.step()
            if number < epochs - 1:
                self.change()
        for life in self.present:
            self.catch_up(life, self.sent)
            if life.learns:
                self.load(life, must=True)
            life.status = ENDED

    # Within an epoch

    def step(self):
        life = self.random.choice(self.present)
        if life.learns and self.random.random() < 0.4:
            self.load(life)
        elif not life.learns and self.random.random() < 0.4:
            sequence = self.sent.get(life.uid, 0) + 1
            self.sent[life.uid] = sequence
            self.past[life.uid, sequence] = dict(life.has)
            life.has[life.uid] = sequence
            life.items.append((BROADCAST, life.uid - 1, sequence))
        elif ready := self.ready(life, self.sent):
            self.deliver(life, *self.random.choice(ready))

    def ready(self, life, limit):
        """The messages that a member can deliver next."""
        present = {one.uid for one in self.present} | set(limit)
        heads = [(uid, life.has.get(uid, 0) + 1) for uid in sorted(present)]
        return [
            (uid, sequence)
            for uid, sequence in heads
            if sequence <= min(limit.get(uid, 0), self.sent.get(uid, 0))
            and all(life.has.get(u, 0) >= n for u, n in self.past[uid, sequence].items())
        ]

    def deliver(self, life, uid, sequence):
        life.has[uid] = sequence
        row = (DELIVER, uid - 1, sequence)
        (life.queue if life.learns else life.items).append(row)

    def catch_up(self, life, limit):
        while ready := self.ready(life, limit):
            self.deliver(life, *self.random.choice(ready))

    def load(self, life, *, must=False):
        """A learner requests a state, or loads the one that it has requested."""
        if life.snapshot is None or must:
            others = [one for one in self.present if not one.learns]
            sender = self.random.choice(others)
            life.snapshot = self.epoch, dict(sender.has), sender
            if not must:
                return
        epoch, contents, _ = life.snapshot
        self.catch_up(life, contents)
        counts = {str(uid): contents.get(uid, 0) for uid in self.views[epoch]}
        life.items.append(self.line("state", life, counts, epoch))
        life.items += [row for row in life.queue if row[2] > contents.get(row[1] + 1, 0)]
        life.learns, life.queue, life.snapshot = False, [], None

    # Between epochs

    def line(self, kind, life, counts, epoch=None):
        epoch = self.epoch if epoch is None else epoch
        about = {"kind": kind, "epoch": epoch, "group": GROUP, "uid": life.uid}
        entries = [[uid, name, one] for uid, name, one in self.views[epoch].values()]
        return {**about, "entries": entries, "counts": dict(counts)}

    views = None

    def change(self):
        chance = self.random
        able = [life for life in self.present if not life.learns]
        chance.shuffle(able)
        killed = able[1:2] if len(able) > 2 and chance.random() < 0.4 else []
        killed += [one for one in self.present if one.learns and chance.random() < 0.1]
        leaving = able[2:3] if len(able) > 3 and chance.random() < 0.4 else []
        gone = [*killed, *leaving]
        kept = [life for life in self.present if life not in killed]
        before = [life.uid for life in self.present]
        cut = {uid: max(life.has.get(uid, 0) for life in kept) for uid in before}
        for life in kept:
            self.catch_up(life, {**life.has, **cut})
        for uid, count in cut.items():  # what no survivor has is lost
            self.sent[uid] = count
        for life in kept:
            taken = life.snapshot
            if taken and any(n > life.has.get(uid, 0) for uid, n in taken[1].items()):
                life.snapshot = None
        self.present = [life for life in self.present if life not in gone]
        if chance.random() < 0.6:
            names = {life.name for life in self.present}
            old = sorted({life.name for life in self.lives} - names)
            uid = len(self.lives) + 1
            name = chance.choice(old) if old and chance.random() < 0.6 else f"n{uid}"
            life = Life(uid, name, has={}, learns=True)
            # What came before its first view is in the state.
            life.has = {**self.ended(), **cut}
            self.lives.append(life)
            self.present.append(life)
        self.install(cut, leaving)

    def ended(self):
        """All counts so far."""
        return dict(self.counts)

    def install(self, cut, leaving=()):
        self.epoch += 1
        self.counts |= cut
        self.views = self.views or {}
        self.views[self.epoch] = {x.uid: (x.uid, x.name, x.life) for x in self.present}
        uids = {*cut, *(life.uid for life in self.present)}
        counts = {str(uid): cut.get(uid, 0) for uid in sorted(uids)}
        for life in leaving:
            life.items.append(self.line("leave", life, counts))
            life.status = LEFT
        for life in self.present:
            is_new = life.uid not in cut and self.epoch > 1
            if is_new and not self.has_states:
                self.begin_without_state(life, counts)
            else:
                kind = "learning" if life.learns else "view"
                life.items.append(self.line(kind, life, counts))

    def begin_without_state(self, life, counts):
        kind = self.random.choice(["view", "learning"])
        lines = [self.line(kind, life, counts)]
        own = {uid: counts[uid] for uid in counts if int(uid) in self.views[self.epoch]}
        lines.append(self.line("state", life, own))
        if kind == "view" and self.random.random() < 0.5:
            lines.reverse()
        life.items += lines
        life.learns = False

    # Logs

    def write(self, directory):
        write(directory, self.lives)


def opened(directory, life):
    """The writer of the log of a life."""
    first = next((x for x in life.items if isinstance(x, dict) and x["kind"] != "state"), None)
    members = max((uid for uid, _, _ in first["entries"]), default=1) if first else life.uid
    about = {"group": "g", "protocol": "vector", "name": life.name, "life": life.of or life.life}
    members = max(members, life.uid)
    return LogWriter(str(directory), member=life.uid - 1, members=members, about=about)


def put(log, at, item):
    """Append an item to a log."""
    if isinstance(item, dict):
        assert log.append_view(item)
        return
    kind, source, sequence = item
    row = struct.pack("<qq", at, kind << 56 | source << 32 | sequence)
    assert log.append([row], at_once=kind == BROADCAST)


def write(directory, lives):
    """Write the logs of these lives."""
    for life in lives:
        log = opened(directory, life)
        for at, item in enumerate(life.items):
            put(log, at, item)
        log.close(life.status)


def grown(lives, directory, chance):
    """Write the logs of these lives item by item, interleaved, epoch after epoch; yield after each.

    A line about a view comes after the lines of all logs about earlier views.
    """
    logs, left = {}, {life.uid: list(enumerate(life.items)) for life in lives}

    def reached(uid):
        return next((x["epoch"] for _, x in left[uid] if isinstance(x, dict)), 1 << 30)

    while any(left.values()):
        ahead = [uid for uid, items in left.items() if items and not is_view(items[0])]
        first = min(reached(uid) for uid in left)
        due = [uid for uid, items in left.items() if items and is_view(items[0])]
        uid = chance.choice(ahead + [uid for uid in due if reached(uid) <= first])
        life = lives[uid - 1]
        if uid not in logs:
            logs[uid] = opened(directory, life)
        at, item = left[uid].pop(0)
        put(logs[uid], at, item)
        yield
    for life in lives:
        log = logs.get(life.uid) or opened(directory, life)
        log.close(life.status)
        yield


def is_view(item):
    """Return whether an item with its place is a line about a view."""
    return isinstance(item[1], dict)
