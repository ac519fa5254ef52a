"""Membership of one process: a state machine without sockets, clock or files.

Its inputs are methods; what they ask of the driver are effects, which ``drain`` returns. A process
founds a group or is admitted to one that exists (epoch 0), is a member through epochs, at first one
without a vote if it was admitted (a learner), and ends when it leaves or is excluded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from precedes.errors import PeerError
from precedes.live.membership.agreement import Agreement, Report, Timing
from precedes.live.membership.founding import Founding
from precedes.live.membership.joining import Joiners
from precedes.live.membership.learning import Label, Learning
from precedes.live.membership.records import (
    Accept,
    Accepted,
    Bodies,
    Change,
    Confirm,
    Confirmed,
    Decided,
    Excluded,
    Fetch,
    Founded,
    Fresh,
    Installed,
    Invite,
    Join,
    Prepare,
    Promise,
    Record,
    Reject,
)
from precedes.live.membership.values import Entry, Id, View, check_view, is_quorum


class Data(NamedTuple):
    """A DATA frame: records of the epoch's node, opaque here."""

    epoch: int
    body: bytes


# A BODIES record ends with the body that reaches this size.
BODIES_BYTES: Final = 1 << 20
# Records whose sender lacks the current view: answered with DECIDED or EXCLUDED.
ANSWERED: Final = (Data, Change, Prepare, Accept)
FOUNDING: Final = (Invite, Fresh, Confirm, Confirmed, Founded)


class Role(Enum):
    """State of a process."""

    JOINER = "joiner"  # in no group yet: it founds one, or is admitted to one that exists
    MEMBER = "member"
    LEFT = "left"
    OUT = "out"


class Reason(Enum):
    """Reason for the end of a process."""

    LEFT = "it has left the group"
    DIVERGED = "it has delivered messages that the others do not have"
    EXCLUDED = "the others have excluded it"
    REPLACED = "another process has its name"
    LOST = "too many members were restarted: the group cannot go on"


class Send(NamedTuple):
    """Send a record over the link with a life."""

    life: bytes
    record: Record


class Freeze(NamedTuple):
    """Stop the epoch's node between two turns, and answer with ``report``."""


class Receive(NamedTuple):
    """Hand DATA of this epoch to the node; once it is frozen, answer with ``bodies`` instead."""

    life: bytes
    body: bytes


class Deliver(NamedTuple):
    """Deliver messages in this order: the end of the epoch."""

    messages: tuple[tuple[Id, bytes], ...]


class Leave(NamedTuple):
    """This process is not in this view, as it wanted; it goes on answering others for a while."""

    view: View
    is_complete: bool  # False if nobody had the last messages of the epoch any more


class Install(NamedTuple):
    """Begin the epoch of a view, with a fresh node."""

    view: View
    uid: int


class Drop(NamedTuple):
    """Close the link with a life: a record that was kept is one that no correct member sends."""

    life: bytes
    error: PeerError


class Notify(NamedTuple):
    """Member that is suspected, or is trusted again."""

    uid: int
    is_suspected: bool


class Stop(NamedTuple):
    """End this process's part in the group."""

    reason: Reason


class RequestState(NamedTuple):
    """Fetch the state from this member, for the first view of this process.

    An earlier request is void. Answered with ``state`` or ``state_failed``.
    """

    life: bytes
    first_epoch: int


class Load(NamedTuple):
    """Load the state that has arrived, apply what is queued beyond it, then call ``restored``."""

    label: Label


class Discard(NamedTuple):
    """Drop the state that has arrived: it has messages that the group has lost."""


Effect = (
    Send | Freeze | Receive | Deliver | Leave | Install | Drop | Notify | Stop
    | RequestState | Load | Discard
)  # fmt: skip


class Membership:
    """One life of one process.

    ``group`` and ``settings`` are those of a group that it founds, with all ``founders``; one with
    another name only joins. ``has_state``: the group has a state that a newcomer has to load.

    ``early_max`` bounds what is kept of epochs that are not installed here yet; beyond it the
    record is refused with a PeerError, which closes the link.
    """

    def __init__(
        self,
        me: Entry,
        founders: tuple[str, ...],
        *,
        group: bytes,
        settings: bytes = b"",
        timing: Timing,
        early_max: int = 1 << 16,
        has_state: bool = False,
    ) -> None:
        self.me, self.timing, self.has_state = me, timing, has_state
        self.role = Role.JOINER
        self.view: View | None = None
        self.uid = 0
        self.agreement: Agreement | None = None
        self.installed_by: set[int] = set()
        self.leaving = False
        self.learning: Learning | None = None  # until the state of the group is loaded
        self._joiners = Joiners()
        self._left_view: View | None = None
        self._previous: tuple[int, Mapping[Id, bytes]] | None = None
        self._founded: Founded | None = None
        self._early: list[tuple[bytes, Record | Data]] = []
        self._early_max = early_max
        self._replayed: deque[tuple[bytes, Record | Data]] = deque()  # early ones, now due
        self._names: dict[bytes, str] = {}
        self._others: dict[str, bytes] = {}  # name -> life that is not the one in the view
        self._foreign: set[bytes] = set()  # lives of members of another group
        self._informants: set[bytes] = set()
        self._turns = 0
        self._now_s = self._began_s = self._repeated_s = self._decided_s = 0.0
        self._blocked_s: float | None = None
        self._joined_s: float | None = None
        self._lonely_s: float | None = None  # when the only voter, it wanted to leave
        self._effects: list[Effect] = []
        self._own: deque[Record] = deque()
        self._founding = Founding(me, founders, group, settings, timing.retry_s, self._send)

    # Outputs --------------------------------------------------------------------------------------

    def drain(self) -> list[Effect]:
        """Return what is to be done, in this order; call it until nothing is left.

        Records that came before their epoch are handled in between, each when the effects of the
        one before have been carried out.
        """
        while not self._effects and self._replayed:
            life, record = self._replayed.popleft()
            if record.epoch >= self.epoch:
                try:
                    self.receive(life, record)
                except PeerError as error:
                    self._effects.append(Drop(life, error))
        effects, self._effects = self._effects, []
        return effects

    @property
    def epoch(self) -> int:
        """The epoch that is installed, 0 outside of a group."""
        return 0 if self.view is None else self.view.epoch

    @property
    def is_frozen(self) -> bool:
        """Return whether the epoch's node has to stand still."""
        return self.agreement is not None and self.agreement.is_frozen

    @property
    def has_all_installed(self) -> bool:
        """Return whether nobody needs this process for the change before, or to leave with it."""
        view = self._left_view or self.view
        return view is not None and self.installed_by >= self._concerned(view)

    def _concerned(self, view: View) -> frozenset[int]:
        return view.uids if self.role is Role.LEFT else view.uids | view.left

    @property
    def is_last(self) -> bool:
        """Return whether the only voter leaves, and no learner will get a vote (R9)."""
        agreement = self.agreement
        if agreement is None or agreement.is_frozen or agreement.has_heir:
            return False
        if self._lonely_s is None:
            return False
        has_learners = bool(agreement.view.uids - {self.uid} or agreement.joiners)
        return not has_learners or self._now_s - self._lonely_s >= self.timing.drain_s

    @property
    def is_learner(self) -> bool:
        """Return whether this is a member without the state of its group (R12)."""
        return self.role is Role.MEMBER and self.learning is not None

    def may_serve(self, life: bytes, first_epoch: int) -> bool:
        """Return whether this member sends its state to a learner (R13)."""
        return (
            self.role is Role.MEMBER
            and self.view is not None
            and not self.is_learner
            and Learning.has_past(self.epoch, first_epoch)
            and life in self.view.uid_of
        )

    @property
    def blocked(self) -> tuple[str, ...]:
        """Names of the voters that are missing for a quorum, empty if it is there."""
        if self.role is not Role.MEMBER or self.view is None or self.agreement is None:
            return ()
        voters, missing = self.view.voters, self.agreement.suspects
        if is_quorum(voters, voters - missing):
            return ()
        return tuple(self.view.entry(uid).name for uid in sorted(voters & missing))

    # Inputs ---------------------------------------------------------------------------------------

    def link_up(self, life: bytes, name: str) -> None:
        """There is a link with a process, whose handshake says its name."""
        self._names[life] = name
        if self.view is not None and any(e.name == name for e in self.view.entries):
            self._others[name] = life
        if self.role is Role.JOINER:
            self._founding.on_link(life, name)
        self._settle()

    def link_lost(self, life: bytes) -> None:
        """The link with a process is gone for good."""
        self._names.pop(life, None)
        self._foreign.discard(life)
        self._joiners.forget(life)

    def tried_seeds(self) -> None:
        """No seed belongs to a group: one may be founded."""
        self._founding.tried_seeds = True

    def suspect(self, uid: int) -> None:
        """Sign that a member is lost: withdrawn by its next record of this epoch."""
        agreement = self.agreement
        if agreement is not None and uid in agreement.view.uids and uid != self.uid:
            if uid not in agreement.suspects:
                self._effects.append(Notify(uid, True))
            agreement.suspects.add(uid)

    def trust(self, uid: int) -> None:
        """Sign of life of a member."""
        agreement = self.agreement
        if agreement is not None and uid in agreement.suspects:
            agreement.suspects.discard(uid)
            self._effects.append(Notify(uid, False))

    def leave(self) -> None:
        """Leave with the next view; the only voter ends at a tick, the group with it."""
        self.leaving = True
        if self.agreement is not None:
            self.agreement.leaving = True

    def request_change(self) -> None:
        """Ask for a view of the same members, so that sequence numbers begin again."""
        if self.agreement is not None:
            self.agreement.change_requested = True

    def state(self, label: Label) -> None:
        """A complete state has arrived. PeerError for one that no correct member sends."""
        if self.learning is not None:
            self.learning.on_state(label)
            self._try_load(self.learning)

    def state_failed(self) -> None:
        """The transfer broke or was refused: request from the next member, once in ``retry_s``."""
        if self.learning is not None:
            self.learning.on_failed()
            self._request_state(self.learning)

    def delivered(self, counts: Mapping[int, int]) -> None:
        """Messages by uid that are delivered here, those before the first view among them."""
        if self.learning is not None:
            self.learning.on_delivered(counts)
            self._try_load(self.learning)

    def restored(self) -> None:
        """The state is loaded: this member asks for its vote (R2)."""
        self.learning = None
        if self.agreement is not None:
            self.agreement.restored = True

    def report(self, report: Report) -> None:
        """Answer to ``Freeze``."""
        if self.agreement is not None:
            self.agreement.on_report(report)
            self._go_on()
        self._settle()

    def bodies(self, bodies: Mapping[Id, bytes]) -> None:
        """Messages in DATA that arrived while the node was frozen."""
        if self.agreement is not None:
            self.agreement.on_bodies(bodies)
            self._go_on()
        self._settle()

    def _go_on(self) -> None:
        """Finish the epoch if that waited for a body."""
        if self.agreement is not None and self.agreement.decided is not None:
            self._finish()

    def receive(self, life: bytes, record: Record | Data) -> None:
        """A record has arrived. PeerError for what no correct member sends."""
        self._handle(life, record)
        self._settle()

    def advance(self, now_s: float) -> None:
        """Set the clock: waits that begin with the next input count from this time."""
        self._now_s = now_s
        if self.agreement is not None:
            self.agreement.now_s = now_s

    def tick(self, now_s: float) -> None:
        """Repeat what was not answered, and start what is due."""
        self.advance(now_s)
        if self.role is Role.JOINER:
            self._tick_joiner(now_s)
        elif self.role is Role.LEFT:
            if self.has_all_installed or now_s - self._decided_s >= self.timing.linger_s:
                self._stop(Reason.LEFT)
        elif self.role is Role.MEMBER and self.agreement is not None:
            self._tick_member(self.agreement, now_s)
        self._settle()

    def _tick_joiner(self, now_s: float) -> None:
        """Found a group, or ask everybody for admission to one (R10, R15)."""
        self._create(self._founding.tick(now_s))
        is_due = self._joined_s is None or now_s - self._joined_s >= self.timing.retry_s
        if self.role is Role.JOINER and self._names and is_due:
            self._joined_s = now_s
            for life in sorted(self._names):
                self._send(life, Join(0, self.me, frozenset(self._names)))

    def _tick_member(self, agreement: Agreement, now_s: float) -> None:
        view = agreement.view
        is_due = now_s - max(self._began_s, self._repeated_s) >= self.timing.retry_s
        if now_s - self._began_s >= self.timing.install_s:
            for uid in sorted(view.uids - self.installed_by):
                self.suspect(uid)
        if is_due:
            self._repeated_s = now_s
            self._repeat(view)
        if self.learning is not None:
            self._request_state(self.learning)
        if agreement.leaving and not agreement.has_heir and self._lonely_s is None:
            self._lonely_s = now_s
        if self._is_lost(view, now_s):
            self._stop(Reason.LOST)
        elif agreement.decided is not None:
            if is_due:
                self._finish(again=True)
        elif self.is_last:
            self._stop(Reason.LEFT)
        else:
            agreement.tick(now_s)

    def _repeat(self, view: View) -> None:
        """Send the decision to members that have not installed it, whoever was to do so."""
        for uid in sorted(view.uids - self.installed_by):
            life = view.entry(uid).life
            if view.epoch > 1:
                self._send(life, Decided(view.epoch - 1, view))
            elif self._founded is not None:
                self._send(life, self._founded)

    # Records --------------------------------------------------------------------------------------

    def _send(self, life: bytes, record: Record) -> None:
        if life == self.me.life:
            self._own.append(record)
        else:
            self._effects.append(Send(life, record))

    def _settle(self) -> None:
        """Handle what this process has sent to itself."""
        while self._own:
            self._handle(self.me.life, self._own.popleft())

    def _handle(self, life: bytes, record: Record | Data) -> None:
        if isinstance(record, FOUNDING):
            self._handle_founding(life, record)
        elif self._is_foreign(life, record):
            if self.view is not None and life in self.view.uid_of:
                self.suspect(self.view.uid_of[life])
        elif isinstance(record, Join):
            if self.role is Role.MEMBER and life in self._names:
                self._joiners.on_join(life, self._names[life], record)
        elif isinstance(record, Excluded):
            if self.role is Role.MEMBER and record.epoch == self.epoch:
                self._be_excluded(replaced=record.replaced)
        elif isinstance(record, Fetch):
            self._on_fetch(life, record)
        elif self.is_current(life, record) and self.agreement is not None:
            if not isinstance(record, Data) and life != self.me.life:
                self.agreement.check(life, record)
            self._handle_current(self.agreement, life, record)

    def _is_foreign(self, life: bytes, record: Record | Data) -> bool:
        """Return whether a record comes from a member of another group."""
        if isinstance(record, Installed) and self.view and record.group != self.view.group:
            self._foreign.add(life)
        return life in self._foreign

    def is_current(self, life: bytes, record: Record | Data) -> bool:
        """Sort a record by epoch: True if it is to be handled now."""
        if self.role is Role.LEFT:
            if isinstance(record, Installed):
                self.installed_by.add(record.uid)
            elif isinstance(record, ANSWERED):
                self._repeat_decision(life, record.epoch)
            return False
        if self.role is Role.OUT:
            return False
        if self.role is Role.JOINER and isinstance(record, Decided) and self.is_admitted(record):
            self.install(record.view)
            return False
        if record.epoch > self.epoch:
            self.keep_early(life, record)
            return False
        if record.epoch < self.epoch:
            if isinstance(record, ANSWERED):
                self._answer_old(life, record.epoch)
            return False
        if self.view is not None and life in self.view.uid_of:
            self.trust(self.view.uid_of[life])
        return True

    def is_admitted(self, record: Decided) -> bool:
        """Return whether a view admits this process; PeerError if it is impossible."""
        view = record.view
        check_view(view)
        if view.epoch != record.epoch + 1 or view.epoch < 2:
            raise PeerError("a view is impossible", "it is of another epoch")
        uid = view.uid_of.get(self.me.life)
        if uid is not None and view.entry(uid).name != self.me.name:
            raise PeerError("a view is impossible", "it has this process under another name")
        return uid is not None

    def keep_early(self, life: bytes, record: Record | Data) -> None:
        """Keep a record of an epoch that is not installed here yet."""
        if isinstance(record, Data) or (life, record) not in self._early:
            if len(self._early) >= self._early_max:
                raise PeerError("too many records of an epoch to come")
            self._early.append((life, record))

    def _answer_old(self, life: bytes, epoch: int) -> None:
        """The sender lacks the current view, or is not in it any more."""
        assert self.view is not None
        if epoch == self.epoch - 1:
            self._send(life, Decided(epoch, self.view))
        else:
            names = {entry.name for entry in self.view.entries}
            self._send(life, Excluded(epoch, self._names.get(life) in names))

    def _repeat_decision(self, life: bytes, epoch: int) -> None:
        if self._left_view is not None and self._left_view.epoch == epoch + 1:
            self._send(life, Decided(epoch, self._left_view))

    def _handle_current(self, agreement: Agreement, life: bytes, record: Record | Data) -> None:
        match record:
            case Data():
                self._effects.append(Receive(life, record.body))
            case Change():
                agreement.on_change()
            case Prepare():
                agreement.on_prepare(life, record)
            case Reject():
                agreement.on_reject(record)
            case Promise():
                agreement.on_promise(record)
            case Accept():
                agreement.on_accept(life, record)
            case Accepted():
                if (view := agreement.on_accepted(record)) is not None:
                    agreement.announce(view)
            case Decided():
                self._on_decided(agreement, life, record.view)
            case Bodies():
                agreement.on_bodies(record.bodies)
                self._go_on()
            case Installed():
                self.on_installed(record.uid)

    def _on_fetch(self, life: bytes, record: Fetch) -> None:
        """Send what is here of the bodies of this epoch or the one before."""
        bodies: Mapping[Id, bytes] = {}
        agreement = self.agreement
        if agreement is not None and agreement.view.epoch == record.epoch:
            bodies = agreement.report.bodies if agreement.report is not None else {}
        elif self._previous is not None and self._previous[0] == record.epoch:
            bodies = self._previous[1]
        known: dict[Id, bytes] = {}
        size_bytes = 0
        for name in record.ids:
            if name in bodies and name not in known:
                known[name] = bodies[name]
                size_bytes += len(bodies[name])
            if size_bytes >= BODIES_BYTES:
                self._send(life, Bodies(record.epoch, known))
                known, size_bytes = {}, 0
        if known:
            self._send(life, Bodies(record.epoch, known))

    # The end of an epoch --------------------------------------------------------------------------

    def _on_decided(self, agreement: Agreement, life: bytes, view: View) -> None:
        self._informants.add(life)
        if agreement.decided is None:
            agreement.decided = view
            self._decided_s = self._now_s
            agreement.freeze()
            self._finish()

    def _finish(self, *, again: bool = False) -> None:
        """Deliver the flush, then install the view or leave; or be excluded (R7)."""
        agreement = self.agreement
        if agreement is None or agreement.decided is None or agreement.report is None:
            return
        view, report = agreement.decided, agreement.report
        leaves = self.uid in view.left
        is_ahead = any(have > end for have, end in zip(report.delivered, view.cut, strict=True))
        if not (leaves or self.me.life in view.uid_of):
            self._be_excluded(replaced=self.me.name in {entry.name for entry in view.entries})
            return
        if is_ahead:
            self._stop(Reason.DIVERGED)
            return
        if lacking := agreement.lacking(view):
            self._fetch_from_anybody(view, lacking, again=again)
            if not leaves or self._now_s - self._decided_s < self.timing.linger_s:
                return
            # No copy is left, and no member waits for this one.
        elif flush := tuple(
            (name, report.bodies[name])
            for name in view.flush
            if name[1] > report.delivered[name[0]]
        ):
            self._effects.append(Deliver(flush))
        if leaves:
            self._leave(view, is_complete=not lacking)
        else:
            self.install(view)

    def _fetch_from_anybody(self, view: View, lacking: Iterable[Id], *, again: bool) -> None:
        """Ask members of both views, and whoever announced the decision, one after the other."""
        assert self.agreement is not None
        known = view.uid_of.keys() | self.agreement.view.uid_of.keys() | self._informants
        lives = sorted(known - {self.me.life})
        if lives:
            self._turns += 1
            for life in lives if again else [lives[self._turns % len(lives)]]:
                self._send(life, Fetch(self.epoch, tuple(lacking)))

    def install(self, view: View) -> None:
        """Begin the next epoch, or the first (R8)."""
        before, agreement = self.view, self.agreement
        self.role, self.view, self.uid = Role.MEMBER, view, view.uid_of[self.me.life]
        self._joiners.on_view(view)
        self.agreement = Agreement(
            view, self.uid, self.timing, self._send, self._freeze, self._joiners
        )
        self.agreement.now_s = self._began_s = self._repeated_s = self._now_s
        self.agreement.leaving = self.leaving
        lives = set(view.uid_of)
        if before is not None and agreement is not None and agreement.report is not None:
            self.keep_previous(before.epoch, agreement.report.bodies)
            self.agreement.suspects = agreement.suspects & view.uids
            lives |= {before.entry(uid).life for uid in view.left}
        names = {entry.name for entry in view.entries}
        self._others = {name: life for life, name in self._names.items() if name in names}
        self._informants = set()
        self.installed_by = {self.uid}
        self._effects.append(Install(view, self.uid))
        for life in sorted(lives - {self.me.life}):
            self._send(life, Installed(view.epoch, self.uid, view.group))
        self._learn(view, is_new=before is None)
        self._replayed.extendleft(reversed(self._early))
        self._early = []

    def _learn(self, view: View, *, is_new: bool) -> None:
        """Begin or go on as a learner, or have the state: founders do (R12)."""
        assert self.agreement is not None
        if is_new and view.epoch > 1 and self.has_state:
            self.learning = Learning(view, self.uid)
        elif self.learning is not None:
            self.learning.on_view(view)
        self.agreement.restored = self.learning is None
        if self.learning is not None:
            self._try_load(self.learning)
            self._request_state(self.learning)

    def _try_load(self, learning: Learning) -> None:
        """Load the state that has arrived once it is covered, or discard it (R13)."""
        label = learning.label
        if label is None or learning.is_loading:
            return
        if learning.is_covered(label):
            learning.is_loading = True
            self._effects.append(Load(label))
        elif learning.is_void(label):
            learning.discard()
            self._effects.append(Discard())
            self._request_state(learning)

    def _request_state(self, learning: Learning) -> None:
        suspects = self.agreement.suspects if self.agreement is not None else ()
        life = learning.request(self._now_s, self.timing.retry_s, suspects)
        if life is not None:
            self._effects.append(RequestState(life, learning.first_epoch))

    def keep_previous(self, epoch: int, bodies: Mapping[Id, bytes]) -> None:
        """Keep the bodies of the epoch before, from which slow members finish it."""
        self._previous = epoch, bodies

    def on_installed(self, uid: int) -> None:
        """A member has finished the epoch before; when all have, its bodies are not needed."""
        self.installed_by.add(uid)
        if self.has_all_installed:
            self._previous = None

    def _freeze(self) -> None:
        self._effects.append(Freeze())

    def _leave(self, view: View, *, is_complete: bool) -> None:
        """Left; stay to answer until all of the new view have installed it (R9)."""
        assert self.agreement is not None
        assert self.agreement.report is not None
        self._effects.append(Leave(view, is_complete))
        for life in sorted(view.uid_of):
            self._send(life, Installed(view.epoch, self.uid, view.group))
        self.keep_previous(self.epoch, self.agreement.report.bodies)
        self.role, self._left_view = Role.LEFT, view
        self.agreement, self.learning, self._decided_s = None, None, self._now_s
        self.installed_by = set()

    def _be_excluded(self, *, replaced: bool) -> None:
        self._stop(Reason.REPLACED if replaced else Reason.EXCLUDED)

    def _stop(self, reason: Reason) -> None:
        self.role, self.agreement, self.learning = Role.OUT, None, None
        self._own.clear()
        self._effects.append(Stop(reason))

    # Founding, and its end ------------------------------------------------------------------------

    def _handle_founding(self, life: bytes, record: Record) -> None:
        if self.role is not Role.JOINER:
            return
        match record:
            case Invite():
                self._founding.on_invite(life, record)
            case Fresh():
                self._create(self._founding.on_fresh(life, record))
            case Confirm():
                self._founding.on_confirm(life, record)
            case Confirmed():
                self._create(self._founding.on_confirmed(life, record))
            case Founded():
                if self._founding.may_enter(life, record):
                    self._founded = record
                    self.install(record.view)

    def _create(self, founded: Founded | None) -> None:
        if founded is not None:
            self._founded = founded
            self.install(founded.view)
            for entry in founded.view.entries:
                if entry.life != self.me.life:
                    self._send(entry.life, founded)

    def _is_lost(self, view: View, now_s: float) -> bool:
        """Return whether no quorum can return: too many names run under other lives (R16)."""
        if not self.blocked:
            self._blocked_s = None
            return False
        if self._blocked_s is None:
            self._blocked_s = now_s
        gone = {
            entry.uid
            for entry in view.entries
            if entry.life in self._foreign or self._others.get(entry.name, entry.life) != entry.life
        }
        waited_s = now_s - self._blocked_s
        return waited_s >= self.timing.lost_s and not is_quorum(view.voters, view.voters - gone)
