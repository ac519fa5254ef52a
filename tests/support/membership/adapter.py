"""The product's state machine in the place of a process of the adversary."""

import marshal

from precedes.live.membership import records
from precedes.live.membership.agreement import Report, Timing
from precedes.live.membership.learning import Label
from precedes.live.membership.machine import Data, Membership, Reason
from tests.support.membership.host import NODE_RECORDS, STATE_RECORDS, Host
from tests.support.membership.reference import INSTALL_TICKS, LINGER_TICKS, LONELY_TICKS
from tests.support.membership.values import Entry, View

GROUP = b"group of a test."
IDS_MAX = 1 << 12


def life_bytes(life):
    """The life of a number."""
    return life.to_bytes(16, "big")


def life_number(life):
    """The number of a life."""
    return int.from_bytes(life, "big")


def seen(view):
    """A view of the product as the checker knows it."""
    entries = [Entry(e.uid, e.name, life_number(e.life)) for e in view.entries]
    return View(
        epoch=view.epoch, entries=entries, voters=view.voters, next_uid=view.next_uid,
        ballot=tuple(view.ballot), cut=view.cut, flush=view.flush, left=view.left,
        bases=dict(view.bases), ended=dict(view.ended), successors=dict(view.successors),
    )  # fmt: skip


def timing_of(world):
    """The times of the reference, in ticks."""
    return Timing(
        gather_s=0, retry_s=world.patience, retry_max_s=world.patience, patience_s=0,
        install_s=INSTALL_TICKS, linger_s=LINGER_TICKS, lost_s=float("inf"), drain_s=LONELY_TICKS,
    )  # fmt: skip


class Product(Host):
    """A ``Membership`` with a host, whose effects become records of the world."""

    def __init__(self, world, name, founders):
        super().__init__(world, name)
        self.founders = tuple(founders)
        self.be_joiner()

    def be_joiner(self):
        """Outside of the group, under a new life."""
        self.clear_state()
        self.life, self.linked = self.world.next_life(), {}
        self.world.own(self)
        self.role, self.view, self.epoch, self.uid, self.frozen = "joiner", None, 0, None, False
        self.left_view, self.reason = None, None
        self.machine = Membership(
            records.Entry(0, self.name, life_bytes(self.life)), self.founders, group=GROUP,
            timing=timing_of(self.world), has_state=not self.world.stateless,
        )  # fmt: skip

    # What the world reads -------------------------------------------------------------------------

    @property
    def agreement(self):
        """That of the current epoch."""
        return self.machine.agreement

    @property
    def suspects(self):
        """Members that are suspected here."""
        return self.agreement.suspects if self.agreement else set()

    @property
    def ballot(self):
        """A ballot of this member."""
        return self.agreement and self.agreement.attempt

    @property
    def decided(self):
        """The next view, while something of the flush is missing."""
        return self.agreement and self.agreement.decided

    @property
    def accepted(self):
        """Ballot and view."""
        if self.agreement is None or self.agreement.accepted is None:
            return None
        ballot, view = self.agreement.accepted
        return tuple(ballot), seen(view)

    @property
    def pending(self):
        """Ballot and view that wait for bodies."""
        if self.agreement is None or self.agreement.pending is None:
            return None
        return tuple(self.agreement.pending.ballot), seen(self.agreement.pending.view)

    @property
    def installed_by(self):
        """Members that have installed the view."""
        return self.machine.installed_by

    @property
    def leaving(self):
        """Return whether it leaves with the next view."""
        return self.machine.leaving

    # Inputs ---------------------------------------------------------------------------------------

    def send(self, life, *record):
        """A record of the host's own."""
        self.world.send(self.life, life, record)

    def handle(self, src, record):
        """A record has arrived."""
        self.set_times()
        kind = record[0]
        if kind in STATE_RECORDS:
            self.on_state_record(src, record)
            self.carry_out()
            return
        if kind in NODE_RECORDS:
            record = Data(record[1], record)
        else:
            record = self.decoded(record[1])
            if kind == "BODIES":
                self.world.covered["bodies"] += len(record.bodies)
        self.machine.receive(life_bytes(src), record)
        self.carry_out()

    def decoded(self, record):
        """Read a record that was sent as bytes."""
        if isinstance(record, bytes):
            record = records.decode(record, ids_max=IDS_MAX)
            if isinstance(record, records.Bodies):
                bodies = {name: marshal.loads(body) for name, body in record.bodies.items()}
                record = record._replace(bodies=bodies)
        return record

    def encoded(self, record):
        """The record as bytes, in worlds that send them."""
        if not self.world.with_bytes:
            return record
        if isinstance(record, records.Bodies):
            bodies = {name: marshal.dumps(body) for name, body in record.bodies.items()}
            record = record._replace(bodies=bodies)
        return records.encode(record)

    def tick(self):
        """Time passes."""
        self.ticks += 1
        self.set_times()
        self.machine.tick(self.ticks)
        self.carry_out()
        self.tick_transfer()
        self.carry_out()

    def set_times(self):
        """Patience may have changed."""
        vars(self.machine.timing).update(vars(timing_of(self.world)))

    def link_up(self, life, name):
        """There is a link with another process."""
        self.linked[life] = name
        self.machine.link_up(life_bytes(life), name)
        self.carry_out()

    def link_lost(self, life):
        """There is none any more."""
        del self.linked[life]
        self.machine.link_lost(life_bytes(life))

    def may_serve(self, life, first_epoch):
        """Return whether this member sends its state."""
        return self.machine.may_serve(life_bytes(life), first_epoch)

    def note_delivered(self, counts):
        """A learner has queued messages."""
        self.machine.delivered(counts)

    def state_arrived(self, epoch, state):
        """The chunks are complete."""
        self.machine.state(Label(epoch, state))
        if self.machine.learning is not None and not self.machine.learning.is_loading:
            self.world.covered["gate_waits"] += self.machine.learning.label is not None

    def state_failed(self):
        """The transfer broke or was refused."""
        self.machine.state_failed()

    def suspect(self, uid):
        """The failure detector."""
        self.machine.suspect(uid)
        self.carry_out()

    def trust(self, uid):
        """The failure detector, again."""
        self.machine.trust(uid)
        self.carry_out()

    def leave_group(self):
        """Leave with the next view."""
        self.machine.leave()

    def request_change(self):
        """Ask for another view of the same members."""
        self.machine.request_change()

    def start_ballot(self):
        """Start a ballot at once, as written schedules have it."""
        self.agreement.start_ballot()
        self.machine.bodies({})
        self.carry_out()

    def body_arrived(self, name, message):
        """A body in DATA, after the promise."""
        self.machine.bodies({name: message})

    # Effects --------------------------------------------------------------------------------------

    def carry_out(self):
        """Do what the machine asks for, in its order."""
        while effects := self.machine.drain():
            for effect in effects:
                getattr(self, "do_" + type(effect).__name__.lower())(*effect)
        self.frozen = self.machine.is_frozen

    def do_send(self, life, record):
        if isinstance(record, records.Decided):
            self.world.checker.decide(seen(record.view))
        kind = type(record).__name__.upper()
        self.world.send(self.life, life_number(life), (kind, self.encoded(record)))

    def do_freeze(self):
        self.frozen = True
        self.report()

    def report(self):
        """The state of the node that stands still."""
        self.machine.report(
            Report(tuple(self.delivered), tuple(self.stable), tuple(self.unstable), self.bodies)
        )

    def do_receive(self, life, body):
        self.on_node_record(life_number(life), body)

    def do_deliver(self, messages):
        for name, message in messages:
            self.deliver(name, message)

    def do_install(self, view, uid):
        view, is_new = seen(view), self.view is None and view.epoch > 1
        if is_new:
            self.restored = False
        self.world.checker.install(self, view)
        self.role, self.view, self.epoch, self.uid = "member", view, view.epoch, uid
        self.began, self.frozen = self.ticks, False
        self.start_epoch()
        if is_new:
            self.begin_learning(view)

    def do_requeststate(self, life, first_epoch):
        self.fetch_state(life_number(life), first_epoch)

    def do_load(self, label):
        self.restore(self.state_in_chunks())
        self.machine.restored()

    def do_discard(self):
        self.world.covered["state_discarded"] += 1

    def do_leave(self, view, is_complete):
        self.left_view, self.role = seen(view), "left"
        if is_complete:
            self.world.checker.leave(self, self.left_view)
        self.world.covered["left"] += 1

    def do_drop(self, life, error):
        raise error

    def do_notify(self, uid, is_suspected):
        self.world.covered["notified"] += 1

    def do_stop(self, reason):
        self.reason = reason
        if reason is Reason.DIVERGED:
            self.world.checker.fail(f"{self.name} has delivered beyond the cut")
        if reason is Reason.EXCLUDED:
            self.world.checker.excluded(self)
            self.world.covered["excluded"] += 1
        self.world.covered["last_left"] += reason is Reason.LEFT and self.role == "member"
        self.world.disown(self)
        if reason is Reason.EXCLUDED:
            self.be_joiner()
            return
        if reason is Reason.REPLACED:
            self.world.checker.excluded(self)
            self.world.covered["replaced"] += 1
        self.alive, self.has_left = False, reason is Reason.LEFT
        self.role = "left" if self.has_left else "replaced"
