"""Reference of group membership: the same rules, written a second time for the adversary alone.

Random schedules run both the product and this, record for record, and compare what they decide. It
has no sockets, no bytes and no clock but ticks.
"""

from collections import Counter, defaultdict

from tests.support.membership.host import NODE_RECORDS, STATE_RECORDS, Host
from tests.support.membership.values import Entry, View, covers, is_quorum

ANSWERED = frozenset({*NODE_RECORDS, "CHANGE", "PREPARE", "ACCEPT"})
EPOCHAL = ANSWERED | {"PROMISE", "REJECT", "ACCEPTED", "DECIDED", "BODIES", "INSTALLED"}
INSTALL_TICKS = 20
LINGER_TICKS = 18
LONELY_TICKS = 20


class Ballot:
    """A coordinator's attempt to decide a view."""

    def __init__(self, number, began):
        self.number, self.began = number, began  # (round, uid)
        self.promises, self.accepted, self.value = {}, set(), None


class Reference(Host):
    """Roles: joiner -> member -> left, replaced, or joiner again."""

    def __init__(self, world, name, founders):
        super().__init__(world, name)
        self.be_joiner()

    def be_joiner(self):
        """Outside of the group, under a new life."""
        self.clear_state()
        self.life, self.linked = self.world.next_life(), {}
        self.world.own(self)
        self.early, self.turns = [], 0
        self.role, self.leaving = "joiner", False
        self.joins = {}  # life -> (name, lives that it has links with)
        self.admitted = set()  # lives that were in a view
        self.asked_at = self.lonely_since = None
        self.complete = None  # epoch and counts of the state that has arrived
        self.seen, self.requested, self.requested_at, self.turn = {}, False, None, 0
        self.is_flushing = False
        self.clear()

    def found(self, view):
        """Take its place in the first view."""
        self.install(view)
        self.installed_by = set(view.uids)

    def clear(self):
        """Forget everything that belongs to an epoch."""
        self.view, self.epoch, self.uid, self.frozen = None, 0, None, False
        self.promised = self.accepted = self.pending = self.decided = self.ballot = None
        self.informants, self.highest_round, self.rotation = set(), 0, 0
        self.suspects, self.change_requested = set(), False
        self.since, self.fetched, self.repeated, self.decided_at = None, 0, 0, 0
        self.previous, self.installed_by = None, set()

    # Links and ticks ------------------------------------------------------------------------------

    def send(self, life, *record):
        """Send to a life, be it its own."""
        if life == self.life:
            self.world.send_local(self, record)
        else:
            self.world.send(self.life, life, record)

    def to_all(self, *record):
        """Send to all members, last to itself."""
        for uid in [*sorted(self.view.uids - {self.uid}), self.uid]:
            self.send(self.view.life[uid], *record)

    def suspect(self, uid):
        """The failure detector."""
        if uid in self.view.uids and uid != self.uid:
            self.suspects.add(uid)

    def trust(self, uid):
        """The failure detector, again."""
        self.suspects.discard(uid)

    def leave_group(self):
        """Leave with the next view."""
        self.leaving = True

    def request_change(self):
        """Ask for another view of the same members."""
        self.change_requested = True

    def handle(self, src, record):
        """A record has arrived."""
        kind = record[0]
        if kind in STATE_RECORDS:
            self.on_state_record(src, record)
            return
        if kind in EPOCHAL and not self.is_current(src, record):
            return
        getattr(self, "on_" + kind.lower())(src, *record[1:])

    def is_current(self, src, record):
        """Sort a record by epoch; True if it is to be handled now."""
        kind, epoch = record[:2]
        if self.role == "left":
            if kind == "INSTALLED":
                self.installed_by.add(record[2])
            elif kind in ANSWERED and self.left_view.epoch == epoch + 1:
                self.send(src, "DECIDED", epoch, self.left_view)
            return False
        if self.role == "joiner" and kind == "DECIDED" and self.life in record[2].by_life:
            self.install(record[2])
            return False
        if self.role not in ("joiner", "member"):
            return False
        if epoch > self.epoch:
            self.early.append((src, record))
            return False
        if epoch < self.epoch:
            if kind in ANSWERED and epoch == self.epoch - 1:
                self.send(src, "DECIDED", epoch, self.view)
            elif kind in ANSWERED:
                is_replaced = self.linked.get(src) in self.view.name.values()
                self.send(src, "EXCLUDED", epoch, is_replaced)
            return False
        self.suspects.discard(self.view.by_life.get(src))
        return True

    def tick(self):
        """Time passes."""
        self.ticks += 1
        self.tick_role()
        self.tick_transfer()

    def tick_role(self):
        """Repeat what was not answered."""
        if self.role == "joiner":
            self.tick_joiner()
        if self.role == "left" and (
            self.installed_by >= self.left_view.uids or self.has_lingered()
        ):
            self.end(has_left=True)
        if self.role != "member":
            return
        if self.ticks - self.began >= INSTALL_TICKS:
            self.suspects |= self.view.uids - self.installed_by
        is_due = self.ticks - max(self.began, self.repeated) >= self.world.patience
        if is_due:
            self.repeated = self.ticks
            for uid in sorted(self.view.uids - self.installed_by):
                self.send(self.view.life[uid], "DECIDED", self.epoch - 1, self.view)
        if not self.restored:
            self.request_state()
        if self.leaving and self.view.voters == {self.uid} and self.lonely_since is None:
            self.lonely_since = self.ticks
        if self.decided is not None:
            if is_due:
                self.finish(again=True)
        elif self.is_last():
            self.world.covered["last_left"] += 1
            self.end(has_left=True)
        else:
            self.tick_coordinator()

    def has_lingered(self):
        """Return whether no process can expect this one to wait any longer."""
        return self.ticks - self.decided_at >= LINGER_TICKS

    def is_last(self):
        """The only voter leaves, and has waited for learners."""
        if self.lonely_since is None or self.frozen or self.view.voters != {self.uid}:
            return False
        is_alone = self.view.uids == {self.uid} and not self.joiners()
        return is_alone or self.ticks - self.lonely_since >= LONELY_TICKS

    def end(self, has_left=False):
        """The process is over."""
        self.alive, self.has_left = False, has_left
        self.world.disown(self)

    # Coordinator ----------------------------------------------------------------------------------

    def tick_coordinator(self):
        """Accept again, propose, start a ballot, or ask for one."""
        patience, ballot = self.world.patience, self.ballot
        if self.pending is not None and self.ticks - self.fetched >= patience:
            self.try_accept(again=True)
        if ballot is not None:
            if ballot.value is None and self.is_prepared():
                self.propose()
            elif self.ticks - ballot.began > patience:
                self.start_ballot()
        elif self.has_reason() or self.frozen:
            if self.since is None:
                self.since = self.ticks
            first = min(u for u in self.view.uids if u == self.uid or u not in self.suspects)
            rank = sum(u < self.uid for u in self.view.uids)
            if first == self.uid or self.ticks - self.since > patience * (2 + rank):
                self.start_ballot()
            else:
                self.send(self.view.life[first], "CHANGE", self.epoch)
        else:
            self.since = None

    def has_reason(self):
        """A reason for another view; leaving is one only if another voter can go on."""
        leaves = self.leaving and self.view.voters != {self.uid}
        is_promoted = self.restored and self.uid not in self.view.voters
        return self.suspects or self.change_requested or leaves or is_promoted or self.joiners()

    def start_ballot(self):
        """Phase 1."""
        self.since = None
        self.highest_round += 1
        self.ballot = Ballot((self.highest_round, self.uid), self.ticks)
        self.world.covered["ballots"] += 1
        self.to_all("PREPARE", self.epoch, self.ballot.number)

    def on_change(self, src, epoch):
        """Another member has a reason."""
        self.change_requested = True

    def on_reject(self, src, epoch, number):
        """A higher ballot is promised."""
        self.see(number)

    def see(self, number):
        """A higher ballot makes that of this member void."""
        self.highest_round = max(self.highest_round, number[0])
        if self.ballot is not None and self.ballot.number < number:
            self.ballot = None

    def on_promise(self, src, epoch, number, promise):
        """Propose when nobody is awaited any more."""
        ballot = self.ballot
        if ballot is None or ballot.number != number or ballot.value is not None:
            return
        ballot.promises[promise["uid"]] = promise
        names = {name for name, _ in self.joiners().values()}
        replaced = {u for u, name in self.view.name.items() if name in names}
        awaited = self.view.uids - set(ballot.promises) - self.suspects - replaced
        if not awaited and self.is_prepared():
            self.propose()

    def is_prepared(self):
        """A quorum of this view's voters has promised."""
        return is_quorum(self.view.voters, frozenset(self.ballot.promises))

    def propose(self):
        """Phase 2."""
        ballot = self.ballot
        accepted = [p["accepted"] for p in ballot.promises.values() if p["accepted"] is not None]
        if accepted:
            value = max(accepted, key=lambda pair: pair[0])[1]
            self.world.covered["reproposed"] += 1
        else:
            value = self.choose()
        ballot.value, ballot.began = value, self.ticks
        holders = {
            q: sorted(
                u for u, p in ballot.promises.items()
                if p["delivered"][q] >= value.cut[q]
                or (p["accepted"] is not None and p["accepted"][1].ident == value.ident)
            )
            for q in range(len(self.view.entries))
        }  # fmt: skip
        self.to_all("ACCEPT", self.epoch, ballot.number, value, holders)

    def choose(self):
        """A new value from the promises of a quorum."""
        view, promises = self.view, self.ballot.promises
        leavers = {u for u, p in promises.items() if p["leaving"]}
        joiners = {}  # name -> life, of two with one name the larger
        for promise in promises.values():
            for life, name in promise["joiners"]:
                if life not in view.by_life:
                    joiners[name] = max(joiners.get(name, 0), life)
        staying = {u for u in promises if u not in leavers and view.name[u] not in joiners}
        self.world.covered["takeover"] += any(view.name[u] in joiners for u in promises)
        while pairs := [
            x for u in staying for x in promises[u]["suspects"] if x in staying and x != u
        ]:
            complaints = Counter(pairs)
            staying.discard(max(complaints, key=lambda u: (complaints[u], u not in view.voters, u)))
            self.world.covered["complaint"] += 1
        able = {u for u, p in promises.items() if u in view.voters or p["restored"]}
        if not staying & able:
            last = min(able & leavers or able)
            staying.add(last)
            leavers.discard(last)
            joiners.pop(view.name[last], None)
        kept = [promises[u] for u in sorted(staying | leavers)]
        cut = [max(column) for column in zip(*(p["delivered"] for p in kept), strict=True)]
        stable = [max(column) for column in zip(*(p["stable"] for p in kept), strict=True)]
        flush = []
        for name in (name for p in kept for name in p["unstable"]):
            if name[1] > stable[name[0]] and name not in flush:
                flush.append(name)
        assert len(flush) == sum(cut) - sum(stable)
        counts = {u: view.bases[u] + cut[p] for u, p in view.position.items()}
        new = [Entry(u, x, joiners[x]) for u, x in enumerate(sorted(joiners), view.next_uid)]
        self.world.covered["excluded_by_view"] += len(view.uids - staying - leavers)
        self.world.covered["admitted"] += len(new)
        self.world.covered["promoted"] += len(staying & able - view.voters)
        old = [(view.position[u], view.entries[view.position[u]]) for u in staying]
        return View(
            epoch=self.epoch + 1,
            entries=place(old, new),
            voters=staying & able,
            cut=cut,
            flush=flush,
            next_uid=view.next_uid + len(new),
            ballot=self.ballot.number,
            left=leavers,
            bases={u: counts[u] for u in staying} | {entry.uid: 0 for entry in new},
            ended={u: n for u, n in counts.items() if u not in staying},
            successors={u: u for u in staying},
        )

    def on_accepted(self, src, epoch, number, uid):
        """Decided when quorums of both views' voters have accepted."""
        ballot = self.ballot
        if ballot is None or ballot.number != number or ballot.value is None:
            return
        ballot.accepted.add(uid)
        value = ballot.value
        continuing = frozenset(value.successors[u] for u in ballot.accepted & set(value.successors))
        old = is_quorum(self.view.voters, frozenset(ballot.accepted))
        if old and is_quorum(value.voters, continuing):
            self.ballot = None
            self.world.checker.decide(value)
            for life in sorted(set(value.by_life) | set(self.view.by_life)):
                self.send(life, "DECIDED", self.epoch, value)

    # Acceptor -------------------------------------------------------------------------------------

    def on_prepare(self, src, epoch, number):
        """Promise."""
        if self.promised is not None and number < self.promised:
            self.send(src, "REJECT", epoch, self.promised)
            return
        self.promise(number)
        self.send(src, "PROMISE", epoch, number, {
            "uid": self.uid, "accepted": self.accepted, "delivered": tuple(self.delivered),
            "stable": tuple(self.stable), "unstable": tuple(self.unstable),
            "suspects": frozenset(self.suspects), "leaving": self.leaving,
            "restored": self.restored,
            "joiners": [(life, name) for life, (name, _) in self.joiners().items()],
        })  # fmt: skip

    def promise(self, number):
        """Freeze the epoch."""
        self.promised = number
        self.see(number)
        if self.pending is not None and self.pending[0] < number:
            self.pending = None
        self.frozen = True

    def on_accept(self, src, epoch, number, value, holders):
        """Accept once all bodies of the flush are here."""
        if self.promised is not None and number < self.promised:
            self.send(src, "REJECT", epoch, self.promised)
            return
        self.promise(number)
        self.pending = number, value, holders, src
        self.try_accept()

    def lacking(self, value):
        """Messages of the flush without a body."""
        return [n for n in value.flush if n[1] > self.delivered[n[0]] and n not in self.bodies]

    def try_accept(self, again=False):
        """Accept the pending value, or fetch."""
        number, value, holders, src = self.pending
        if lacking := self.lacking(value):
            self.rotation, self.fetched = self.rotation + again, self.ticks
            wanted = defaultdict(list)
            for name in lacking:
                if known := [u for u in holders[name[0]] if u != self.uid]:
                    wanted[known[self.rotation % len(known)]].append(name)
            for uid, names in wanted.items():
                self.send(self.view.life[uid], "FETCH", self.epoch, tuple(names))
            return
        self.pending, self.accepted = None, (number, value)
        self.send(src, "ACCEPTED", self.epoch, number, self.uid)

    def on_fetch(self, src, epoch, names):
        """Send bodies of this epoch or the one before."""
        bodies = {}
        if self.role == "member" and self.epoch == epoch:
            bodies = self.bodies if self.frozen else {}
        elif self.previous is not None and self.previous[0] == epoch:
            bodies = self.previous[1]
        if known := tuple((n, bodies[n]) for n in names if n in bodies):
            self.send(src, "BODIES", epoch, known)

    def on_bodies(self, src, epoch, messages):
        """Bodies that were fetched."""
        self.world.covered["bodies"] += len(messages)
        for name, message in messages:
            if self.frozen and name[1] > self.delivered[name[0]]:
                self.bodies.setdefault(name, message)
        self.go_on()

    def body_arrived(self, name, message):
        """A body in DATA, after the promise."""
        self.go_on()

    def go_on(self):
        """Go on with what waited for a body."""
        if self.decided is not None:
            self.finish()
        elif self.pending is not None:
            self.try_accept()

    # The end of an epoch --------------------------------------------------------------------------

    def on_decided(self, src, epoch, value):
        """The next view."""
        self.informants.add(src)
        if self.decided is None:
            self.decided, self.decided_at, self.frozen = value, self.ticks, True
            self.finish()

    def finish(self, again=False):
        """Deliver the flush, then install the view or leave; or be excluded."""
        value, leaves = self.decided, self.uid in self.decided.left
        if not leaves and self.life not in value.by_life:
            self.be_excluded(self.name in value.name.values())
            return
        if any(have > limit for have, limit in zip(self.delivered, value.cut, strict=True)):
            self.world.checker.fail(f"{self.name} has delivered beyond the cut of {value}")
        if lacking := self.lacking(value):
            lives = set(value.by_life) | set(self.view.by_life) | self.informants
            if lives := sorted(lives - {self.life}):
                self.turns += 1
                for life in lives if again else [lives[self.turns % len(lives)]]:
                    self.send(life, "FETCH", self.epoch, tuple(lacking))
            if not leaves or not self.has_lingered():
                return
        else:
            self.is_flushing = True
            for name in value.flush:
                if name[1] > self.delivered[name[0]]:
                    self.deliver(name, self.bodies[name])
            self.is_flushing = False
        if leaves:
            self.leave(value, is_complete=not lacking)
        else:
            self.install(value)

    def leave(self, value, is_complete):
        """Left; stay to answer."""
        if is_complete:
            self.world.checker.leave(self, value)
        for life in sorted(value.by_life):
            self.send(life, "INSTALLED", value.epoch, self.uid)
        self.previous, self.decided_at = (self.epoch, self.bodies), self.ticks
        self.role, self.left_view, self.installed_by = "left", value, set()
        self.frozen, self.decided, self.ballot = False, None, None
        self.world.covered["left"] += 1

    def be_excluded(self, is_replaced):
        """Not in the decided view: join again, unless another process has the name."""
        self.world.checker.excluded(self)
        if is_replaced:
            self.world.covered["replaced"] += 1
            self.role = "replaced"
            self.end()
        else:
            self.world.covered["excluded"] += 1
            self.world.disown(self)
            self.be_joiner()

    def on_excluded(self, src, epoch, is_replaced):
        """It did not learn of a decision."""
        if self.role == "member" and self.epoch == epoch:
            self.be_excluded(is_replaced)

    def install(self, value):
        """Begin the next epoch."""
        is_new = self.view is None and value.epoch > 1
        if is_new:
            self.restored = False
        self.world.checker.install(self, value)
        before, previous, early = self.view, (self.epoch, getattr(self, "bodies", {})), self.early
        suspects = self.suspects
        self.clear()
        self.role, self.view, self.epoch = "member", value, value.epoch
        self.uid, self.began = value.by_life[self.life], self.ticks
        lives = set(value.by_life)
        self.admitted |= lives
        for life in lives:
            self.joins.pop(life, None)
        if before is not None:
            self.suspects, self.previous = suspects & value.uids, previous
            lives |= {before.life[u] for u in value.left}
        self.repeated = self.ticks
        self.start_epoch()
        self.installed_by = {self.uid}
        if is_new:
            self.turn = self.uid
            self.begin_learning(value)
        for life in sorted(lives - {self.life}):
            self.send(life, "INSTALLED", self.epoch, self.uid)
        if not self.restored:
            self.seen.update(value.bases | value.ended)
            self.try_restore()
            self.request_state()
        self.early = []
        for src, record in early:
            if record[1] >= self.epoch:
                self.handle(src, record)

    def on_installed(self, src, epoch, uid):
        """A member has finished the epoch before."""
        self.installed_by.add(uid)
        if self.installed_by >= self.view.uids | self.view.left:
            self.previous = None

    # Joiners, learners, and the state -------------------------------------------------------------

    def link_up(self, life, name):
        """There is a link with another process."""
        self.linked[life] = name

    def link_lost(self, life):
        """There is none any more."""
        del self.linked[life]
        self.joins.pop(life, None)

    def tick_joiner(self):
        """Ask everybody for admission."""
        is_due = self.asked_at is None or self.ticks - self.asked_at >= self.world.patience
        if self.linked and is_due:
            self.asked_at = self.ticks
            for life in sorted(self.linked):
                self.send(life, "JOIN", 0, self.name, frozenset(self.linked))

    def on_join(self, src, epoch, name, lives):
        """A process wants to join."""
        if self.role == "member" and src in self.linked and src not in self.admitted:
            self.joins[src] = name, lives

    def joiners(self):
        """Those with links to all that are not suspected, or have their name."""
        voters = {self.view.name[u] for u in self.view.voters}
        return {
            life: (name, lives) for life, (name, lives) in self.joins.items()
            if life not in self.view.by_life and voters != {name} and lives >= {
                e.life for e in self.view.entries
                if e.uid not in self.suspects | {self.uid} and e.name != name
            }
        }  # fmt: skip

    def request_state(self):
        """Request it from the next voter, once in a while."""
        patience = self.world.patience
        is_soon = self.requested_at is not None and self.ticks - self.requested_at < patience
        others = self.view.voters - {self.uid}
        if not (self.requested or is_soon) and others:
            self.requested, self.requested_at, self.turn = True, self.ticks, self.turn + 1
            voters = sorted(others - self.suspects or others)
            life = self.view.life[voters[self.turn % len(voters)]]
            self.fetch_state(life, self.first_epoch)

    def may_serve(self, life, first_epoch):
        """Only a member with the state that has installed the learner's first view."""
        is_member = self.role == "member" and self.restored
        return is_member and self.epoch >= first_epoch and life in self.view.by_life

    def note_delivered(self, counts):
        """A message is queued."""
        self.seen.update(counts)
        if not self.is_flushing:
            self.try_restore()

    def state_failed(self):
        """The transfer broke or was refused."""
        if self.role == "member":
            self.requested = False
            self.request_state()

    def state_arrived(self, epoch, state):
        """All chunks are there."""
        self.complete = epoch, state
        self.try_restore()
        self.world.covered["gate_waits"] += self.complete is not None

    def try_restore(self):
        """Load the state when deliveries here cover it; discard it if they never will."""
        if self.complete is None or self.role != "member":
            return
        epoch, state = self.complete
        if self.epoch >= epoch:
            if covers(self.seen, {u: n for u, n in state.items() if u in self.seen}):
                self.complete = None
                self.restore(state)
            elif self.epoch > epoch:
                self.world.covered["state_discarded"] += 1
                self.complete = None
                self.state_failed()


def place(old, new):
    """Entries by position: who stays keeps its position if it exists, others fill the gaps."""
    total = len(old) + len(new)
    placed = {p: entry for p, entry in old if p < total}
    rest = [entry for p, entry in sorted(old, reverse=True) if p >= total] + new
    return [placed[p] if p in placed else rest.pop(0) for p in range(total)]
