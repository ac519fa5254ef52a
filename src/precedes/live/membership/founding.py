"""Founding of a group: epoch 0 (R15).

One founder creates the group, when all founders were fresh (in no group) and have then confirmed
that they enter no other group. Without the second phase a founder that was fresh could enter an
older group through a late record, while another member of that group is restarted and is fresh,
too: both groups would go on.

A founder that has confirmed enters only the group of that ballot, until it confirms a higher one or
the coordinator gives its ballot up: it announces another group, or answers a higher ballot of this
founder. If it was restarted since, it does not create that group either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from precedes.errors import PeerError
from precedes.live.membership.records import (
    Confirm,
    Confirmed,
    Founded,
    Fresh,
    Invite,
    Record,
)
from precedes.live.membership.values import LIFE_BYTES, Ballot, Entry, View, check_view

NOBODY = bytes(LIFE_BYTES)


class _Ballot(NamedTuple):
    """An attempt to create the group. There are no uids yet."""

    round: int
    life: bytes


class Founding:
    """A process that is in no group.

    ``group`` and ``settings`` are those of the group that it creates.
    """

    def __init__(
        self,
        me: Entry,
        founders: tuple[str, ...],
        group: bytes,
        settings: bytes,
        retry_s: float,
        send: Callable[[bytes, Record], None],
    ) -> None:
        self.me, self.founders = me, founders
        self.group, self.settings = group, settings
        self.retry_s, self.send = retry_s, send
        self.tried_seeds = False  # a group that it would find has been looked for
        self.lives: dict[str, bytes] = {}  # of other founders that this process has links with
        self.promised = _Ballot(0, NOBODY)
        self.ballot: _Ballot | None = None  # of this process
        self.fresh: dict[str, Entry] = {}
        self.confirmed: set[bytes] = set()
        self.bound: _Ballot | None = None  # confirmed to another coordinator
        self._bound_name = ""
        self._due_s: float | None = None

    def on_link(self, life: bytes, name: str) -> None:
        """There is a link with a process; ballots go to the newest of each founder."""
        if name in self.founders and name != self.me.name:
            self.lives[name] = life
            if self.ballot is not None:
                self.send(life, Invite(0, *self.ballot))

    def tick(self, now_s: float) -> Founded | None:
        """Start a ballot, the first founders sooner; return the group if this creates it."""
        if self.me.name not in self.founders or not self.tried_seeds:
            return None
        if self._due_s is None:
            self._due_s = now_s + self.retry_s * self.founders.index(self.me.name)
        if now_s < self._due_s:
            return None
        self._due_s = now_s + self.retry_s * (1 + len(self.founders))
        self.ballot = self.promised = _Ballot(self.promised.round + 1, self.me.life)
        self.fresh, self.confirmed = {self.me.name: self.me}, {self.me.life}
        for name in self.founders:
            if name in self.lives:
                self.send(self.lives[name], Invite(0, *self.ballot))
        return self._confirm()

    def on_invite(self, life: bytes, record: Invite) -> None:
        """Answer a higher ballot; a lower one of this process is void."""
        ballot = _Ballot(record.round, record.life)
        if record.life != life:
            raise PeerError("a ballot is not its sender's")
        if self.me.name in self.founders and ballot > self.promised:
            self.promised = ballot
            self.ballot = None
            self.send(life, Fresh(0, *ballot, self.me))

    def on_fresh(self, life: bytes, record: Fresh) -> Founded | None:
        """Ask for confirmation when all founders are fresh."""
        name = record.entry.name
        if record.entry.life != life or name not in self.founders:
            raise PeerError("a founder answers for another one", record.entry.name)
        ballot = _Ballot(record.round, record.life)
        if ballot != self.ballot:
            return None
        if self.bound is not None and name == self._bound_name and self.bound < ballot:
            self.bound = None
        self.fresh[name] = record.entry
        return self._confirm()

    def _confirm(self) -> Founded | None:
        if self.ballot is None or not self.is_everybody(self.fresh.keys()):
            return None
        for entry in self.fresh.values():
            if entry.life != self.me.life:
                self.send(entry.life, Confirm(0, *self.ballot))
        return self._create()

    def is_everybody(self, names: object) -> bool:
        """Return whether these are all founders."""
        return names == set(self.founders)

    def on_confirm(self, life: bytes, record: Confirm) -> None:
        """Confirm the ballot that was promised last."""
        ballot = _Ballot(record.round, record.life)
        if ballot == self.promised and life == record.life:
            self.bound = ballot
            self._bound_name = next((n for n, other in self.lives.items() if other == life), "")
            self.send(life, Confirmed(0, *ballot))

    def on_confirmed(self, life: bytes, record: Confirmed) -> Founded | None:
        """Create the group when all founders have confirmed."""
        if _Ballot(record.round, record.life) != self.ballot:
            return None
        self.confirmed.add(life)
        return self._create()

    def _create(self) -> Founded | None:
        ballot = self.ballot
        if ballot is None or not self.is_confirmed():
            return None
        entries = tuple(
            self.fresh[name]._replace(uid=uid)
            for uid, name in enumerate((x for x in self.founders if x in self.fresh), 1)
        )
        creator = next(entry.uid for entry in entries if entry.life == self.me.life)
        uids = frozenset(entry.uid for entry in entries)
        view = View(
            group=self.group,
            epoch=1,
            entries=entries,
            voters=uids,
            next_uid=len(entries) + 1,
            ballot=Ballot(ballot.round, creator),
            settings=self.settings,
            bases=dict.fromkeys(uids, 0),
        )
        return Founded(0, *ballot, view)

    def is_confirmed(self) -> bool:
        """Return whether all founders that were fresh have confirmed."""
        return self.confirmed >= {entry.life for entry in self.fresh.values()}

    def may_enter(self, life: bytes, record: Founded) -> bool:
        """Return whether this process takes its place in a group that exists."""
        check_view(record.view)
        if record.view.epoch != 1:
            raise PeerError("a view is impossible", "a group is founded in another epoch")
        if self.me.life not in record.view.uid_of:
            return False
        ballot = _Ballot(record.round, record.life)
        return self.bound is None or ballot == self.bound or life == self.bound.life
