"""Agreement on the next view and the end of the epoch: one Paxos decision per epoch (R1-R6).

Acceptors hold every body of the flush before they accept, and a decision needs a quorum of the
voters of both views: whoever can go on can deliver the flush.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from precedes.errors import PeerError
from precedes.live.membership.choose import choose
from precedes.live.membership.joining import Joiners
from precedes.live.membership.records import (
    Accept,
    Accepted,
    Bodies,
    Change,
    Decided,
    Fetch,
    Prepare,
    Promise,
    Record,
    Reject,
)
from precedes.live.membership.values import (
    MEMBERS_MAX,
    Ballot,
    Entry,
    Id,
    View,
    check_successor,
    check_view,
    is_quorum,
)

NO_BALLOT = Ballot(0, 0)


@dataclass
class Timing:
    """Times of a membership, in seconds, which may change at any time: they decide nothing."""

    gather_s: float = 0.02  # between the first reason for a change and the ballot
    retry_s: float = 0.25  # before something is repeated; doubled with each ballot
    retry_max_s: float = 5.0
    patience_s: float = 5.0  # before a ballot goes on without a member that is not suspected
    install_s: float = 5.0  # before a member that has not installed the view is suspected
    linger_s: float = 5.0  # for others that need a member that has left
    lost_s: float = 5.0  # without a quorum, before members that were restarted end a group
    drain_s: float = 30.0  # for a learner that gets its vote, before the only voter leaves


class Report(NamedTuple):
    """State of the epoch's node when it stopped."""

    delivered: tuple[int, ...]  # by position
    stable: tuple[int, ...]
    unstable: tuple[Id, ...]  # delivered above the stable prefix, in order of delivery
    bodies: dict[Id, bytes]  # that have arrived and are not stable


class _Attempt:
    """A ballot of this member."""

    def __init__(self, ballot: Ballot, now_s: float) -> None:
        self.ballot = ballot
        self.since_s = now_s
        self.promises: dict[int, Promise] = {}
        self.accepted: set[int] = set()
        self.view: View | None = None  # proposed, in phase 2


class Agreement:
    """Coordinator and acceptor of one epoch.

    ``freeze`` asks for the report of the epoch's node, which stops; ``send`` sends to a life.
    """

    def __init__(
        self,
        view: View,
        uid: int,
        timing: Timing,
        send: Callable[[bytes, Record], None],
        freeze: Callable[[], None],
        joiners: Joiners,
    ) -> None:
        self.view, self.uid, self.timing = view, uid, timing
        self.send, self._freeze, self._joiners = send, freeze, joiners
        self.now_s = 0.0
        self.suspects: set[int] = set()
        self.leaving = self.change_requested = False
        self.restored = True  # has the state of the group
        self.is_frozen = False
        self.report: Report | None = None
        self.promised: Ballot | None = None
        self.accepted: tuple[Ballot, View] | None = None
        self.pending: Accept | None = None  # waits for bodies of its flush
        self.decided: View | None = None
        self.attempt: _Attempt | None = None
        self._pending_life = b""
        self._owed: bytes | None = None  # the life that waits for a promise
        self._round = self._attempts = self._turns = 0
        self._fetched_s = 0.0
        self._since_s: float | None = None  # a change is wanted, and this member has no ballot

    # Coordinator ----------------------------------------------------------------------------------

    @property
    def coordinator(self) -> int:
        """The most senior member that is not suspected here."""
        return min(uid for uid in self.view.uids if uid == self.uid or uid not in self.suspects)

    @property
    def wants_change(self) -> bool:
        """Return whether this member has a reason for another view (R2)."""
        is_promoted = self.restored and self.uid not in self.view.voters
        return bool(
            self.suspects
            or self.change_requested
            or is_promoted
            or (self.leaving and self.has_heir)
            or self.joiners
        )

    @property
    def has_heir(self) -> bool:
        """Return whether another voter can go on without this member."""
        return bool(self.view.voters - {self.uid})

    @property
    def joiners(self) -> tuple[Entry, ...]:
        """Processes that this member proposes to admit (R10)."""
        return self._joiners.admissible(self.view, self.suspects, self.uid)

    @property
    def replaced(self) -> frozenset[int]:
        """Members whose name a joiner has: nobody waits for their promises."""
        names = {entry.name for entry in self.joiners}
        return frozenset(entry.uid for entry in self.view.entries if entry.name in names)

    def tick(self, now_s: float) -> None:
        """Ask for a change, start a ballot, go on without members that do not answer."""
        if self.pending is not None and now_s - self._fetched_s >= self.timing.retry_s:
            self.try_accept(again=True)
        attempt = self.attempt
        if attempt is not None:
            waited_s = now_s - attempt.since_s
            if attempt.view is None and self.is_prepared():
                if not self._awaited() or waited_s >= self.timing.patience_s:
                    self.propose()
            elif waited_s > min(
                self.timing.retry_s * 2 ** min(self._attempts - 1, 30), self.timing.retry_max_s
            ):
                self.start_ballot()
        elif self.wants_change or self.is_frozen:
            if self._since_s is None:
                self._since_s = now_s
            self._coordinate(now_s - self._since_s)
        else:
            self._since_s = None

    def _coordinate(self, waited_s: float) -> None:
        rank = sum(uid < self.uid for uid in self.view.uids)
        first = self.coordinator
        if first == self.uid:
            if waited_s >= self.timing.gather_s:
                self.start_ballot()
        elif waited_s > self.timing.retry_s * (2 + rank):
            self.start_ballot()
        else:
            self.send(self.view.entry(first).life, Change(self.view.epoch))

    def start_ballot(self) -> None:
        """Begin phase 1 with a round above all that were seen (R3)."""
        self._since_s = None
        self._round += 1
        self._attempts += 1
        self.attempt = _Attempt(Ballot(self._round, self.uid), self.now_s)
        self._to_all(Prepare(self.view.epoch, self.attempt.ballot))

    def _to_all(self, record: Record) -> None:
        """Send to all members, last to this one."""
        for uid in sorted(self.view.uids - {self.uid}):
            self.send(self.view.entry(uid).life, record)
        self.send(self.view.entry(self.uid).life, record)

    def on_change(self) -> None:
        """Another member has a reason for a change."""
        self.change_requested = True

    def on_reject(self, record: Reject) -> None:
        """Another coordinator has a higher ballot."""
        self._see(record.ballot)

    def _see(self, ballot: Ballot) -> None:
        """Note a ballot: a lower one of this member is void."""
        self._round = max(self._round, ballot.round)
        if self.attempt is not None and self.attempt.ballot < ballot:
            self.attempt = None

    def on_promise(self, record: Promise) -> None:
        """A member has promised; propose when nobody is awaited any more (R4)."""
        attempt = self.attempt
        if attempt is None or attempt.ballot != record.ballot or attempt.view is not None:
            return
        attempt.promises[record.uid] = record
        if not self._awaited() and self.is_prepared():
            self.propose()

    def _awaited(self) -> set[int]:
        assert self.attempt is not None
        return set(self.view.uids) - self.attempt.promises.keys() - self.suspects - self.replaced

    def is_prepared(self) -> bool:
        """Return whether a quorum of this view's voters has promised."""
        return self.attempt is not None and self.is_old_quorum(self.attempt.promises)

    def is_old_quorum(self, present: Iterable[int]) -> bool:
        """Return whether these members are a quorum of this view's voters."""
        return is_quorum(self.view.voters, frozenset(present))

    def propose(self) -> None:
        """Phase 2: the view accepted under the highest ballot, unchanged, else a new one."""
        attempt = self.attempt
        assert attempt is not None
        view = attempt.view = self.value_of(attempt.ballot, attempt.promises)
        attempt.since_s = self.now_s
        holders = tuple(
            frozenset(
                uid
                for uid, promise in attempt.promises.items()
                if promise.delivered[at] >= view.cut[at]
                or (promise.accepted is not None and promise.accepted.identity == view.identity)
            )
            for at in range(len(self.view.entries))
        )
        self._to_all(Accept(self.view.epoch, attempt.ballot, view, holders))

    def value_of(self, ballot: Ballot, promises: Mapping[int, Promise]) -> View:
        """Return the view to propose."""
        best, view = NO_BALLOT, None
        for promise in promises.values():
            if promise.accepted is not None and promise.accepted_ballot > best:
                best, view = promise.accepted_ballot, promise.accepted
        return view or choose(self.view, ballot, promises)

    def on_accepted(self, record: Accepted) -> View | None:
        """A member has accepted; return the view once it is decided (R6)."""
        attempt = self.attempt
        if attempt is None or attempt.ballot != record.ballot or attempt.view is None:
            return None
        attempt.accepted.add(record.uid)
        if not self.is_accepted(attempt.view, attempt.accepted):
            return None
        self.attempt = None
        return attempt.view

    def is_accepted(self, view: View, accepted: Iterable[int]) -> bool:
        """Return whether these are a quorum of this view's voters, and of the next view's."""
        present = frozenset(accepted)
        continuing = frozenset(view.successors[u] for u in present if u in view.successors)
        return self.is_old_quorum(present) and is_quorum(view.voters, continuing)

    def announce(self, view: View) -> None:
        """Send the decision to members of both views."""
        lives = view.uid_of.keys() | self.view.uid_of.keys()
        for life in sorted(lives):
            self.send(life, Decided(self.view.epoch, view))

    # Acceptor -------------------------------------------------------------------------------------

    def on_prepare(self, life: bytes, record: Prepare) -> None:
        """Promise, and send the state of the epoch once its node has stopped."""
        if self.is_outdated(record.ballot):
            return self._reject(life)
        self._promise(record.ballot)
        self._owed = life
        self._send_promise()

    def is_outdated(self, ballot: Ballot) -> bool:
        """Return whether a higher ballot is promised."""
        return self.promised is not None and ballot < self.promised

    def _reject(self, life: bytes) -> None:
        assert self.promised is not None
        self.send(life, Reject(self.view.epoch, self.promised))

    def _promise(self, ballot: Ballot) -> None:
        self.promised = ballot
        self._see(ballot)
        self.drop_pending(ballot)
        self.freeze()

    def drop_pending(self, ballot: Ballot) -> None:
        """Drop a proposal of a lower ballot: its missing body may arrive later."""
        if self.pending is not None and self.pending.ballot < ballot:
            self.pending = None

    def freeze(self) -> None:
        """Stop the epoch's node, for good (R1)."""
        if not self.is_frozen:
            self.is_frozen = True
            self._freeze()

    def on_report(self, report: Report) -> None:
        """The node has stopped."""
        self.report = report
        self._send_promise()
        if self.pending is not None:
            self.try_accept()

    def _send_promise(self) -> None:
        report, life, ballot = self.report, self._owed, self.promised
        if report is None or life is None or ballot is None:
            return
        self._owed = None
        accepted_ballot, accepted = self.accepted or (NO_BALLOT, None)
        promise = Promise(
            self.view.epoch,
            ballot,
            self.uid,
            accepted_ballot,
            accepted,
            report.delivered,
            report.stable,
            report.unstable,
            frozenset(self.suspects),
            self.leaving,
            restored=self.restored,
            recovering=b"",
            joiners=self.joiners,
        )
        self.send(life, promise)

    def on_accept(self, life: bytes, record: Accept) -> None:
        """Accept a proposal once all bodies of its flush are here (R5)."""
        if self.is_outdated(record.ballot):
            return self._reject(life)
        self._promise(record.ballot)
        self.pending, self._pending_life = record, life
        self.try_accept()

    def lacking(self, view: View) -> list[Id]:
        """Messages of the flush that are neither delivered nor here."""
        assert self.report is not None
        delivered, bodies = self.report.delivered, self.report.bodies
        return [name for name in view.flush if name[1] > delivered[name[0]] and name not in bodies]

    def try_accept(self, *, again: bool = False) -> None:
        """Accept the pending proposal, or fetch what it lacks."""
        record = self.pending
        if record is None or self.report is None:
            return
        if lacking := self.lacking(record.view):
            self._fetch(lacking, record.holders, again=again)
            return
        self.pending = None
        self.accepted = record.ballot, record.view
        self.send(self._pending_life, Accepted(self.view.epoch, record.ballot, self.uid))

    def _fetch(
        self, lacking: list[Id], holders: tuple[frozenset[int], ...], *, again: bool
    ) -> None:
        """Ask the most senior holders, later one after the other."""
        self._turns += again
        self._fetched_s = self.now_s
        wanted: defaultdict[int, list[Id]] = defaultdict(list)
        for name in lacking:
            if known := sorted(holders[name[0]] - {self.uid}):
                wanted[known[self._turns % len(known)]].append(name)
        for uid, ids in wanted.items():
            self.send(self.view.entry(uid).life, Fetch(self.view.epoch, tuple(ids)))

    def on_bodies(self, bodies: Mapping[Id, bytes]) -> None:
        """Bodies of this epoch have arrived: keep those that were not delivered."""
        if self.report is None:
            return
        for name, body in bodies.items():
            if name[1] > self.report.delivered[name[0]]:
                self.report.bodies.setdefault(name, body)
        if self.decided is None:
            self.try_accept()

    # What no correct member sends -----------------------------------------------------------------

    def check(self, life: bytes, record: Record) -> None:
        """PeerError for a record of this epoch that no correct member sends."""
        n = len(self.view.entries)
        sender = self.view.uid_of.get(life)
        match record:
            case Promise() | Accepted() if record.uid != sender:
                raise PeerError("a member votes for another one", f"uid {record.uid}")
            case Prepare() | Accept() if record.ballot.uid != sender:
                raise PeerError("a ballot is not its sender's", f"uid {record.ballot.uid}")
        match record:
            case Promise():
                self._check_promise(record, n)
            case Accept(view=view):
                self.check_next(view)
                if len(record.holders) != n or not self.view.uids.issuperset(
                    frozenset().union(*record.holders)
                ):
                    raise PeerError("a proposal names holders that are not members")
            case Decided(view=view):
                self.check_next(view)
            case Fetch(ids=ids) | Bodies(bodies=ids):
                if any(position >= n for position, _ in ids):
                    raise PeerError("a message names no member")

    def check_next(self, view: View) -> None:
        """PeerError for a view that cannot come after this one."""
        check_view(view)
        check_successor(self.view, view)

    def _check_promise(self, record: Promise, n: int) -> None:
        delivered, stable, unstable = record.delivered, record.stable, record.unstable
        if not (len(delivered) == len(stable) == n):
            raise PeerError("a promise counts messages of other members")
        sizes = [have - below for have, below in zip(delivered, stable, strict=True)]
        is_listed = min(sizes) >= 0 and len(unstable) == sum(sizes) == len(set(unstable))
        if not is_listed or any(
            at >= n or not stable[at] < sequence <= delivered[at] for at, sequence in unstable
        ):
            raise PeerError("a promise does not list what is unstable")
        if not self.view.uids >= record.suspects:
            raise PeerError("a promise suspects a stranger")
        lives = {entry.life for entry in record.joiners}
        if len(lives) < len(record.joiners) or any(entry.uid for entry in record.joiners):
            raise PeerError("a promise admits a joiner twice, or as a member")
        if len(lives) > MEMBERS_MAX:
            raise PeerError("a promise has too many joiners", str(len(lives)))
        if record.accepted is not None:
            self.check_next(record.accepted)
