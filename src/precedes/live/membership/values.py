"""Values of a membership: entries, views, quorums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from precedes.errors import PeerError

MEMBERS_MAX: Final = 1024
LIFE_BYTES: Final = 16

# A message of an epoch: the position of its sender, and its sequence number from 1.
Id = tuple[int, int]


class Ballot(NamedTuple):
    """An attempt to decide the next view. Larger ones win."""

    round: int
    uid: int  # of the coordinator


class Entry(NamedTuple):
    """One member of a view; its index there is its position."""

    uid: int  # assigned by the view that admits it, never reused; smaller is more senior
    name: str  # at most once in a view
    life: bytes  # one start of a process: the end of its links
    address: str = ""
    journal: bytes = b""  # identifier of its journal, empty without one
    version: int = 0  # highest wire version that it speaks


@dataclass(frozen=True, kw_only=True)
class View:
    """The members of an epoch, and how the epoch before it ends."""

    group: bytes
    epoch: int
    entries: tuple[Entry, ...]
    voters: frozenset[int]  # uids that count for quorums; the others are learners
    next_uid: int
    ballot: Ballot  # that created this value: with the epoch its identity
    settings: bytes = b""  # of the group; opaque here
    cut: tuple[int, ...] = ()  # messages of the epoch before that count as delivered, by position
    flush: tuple[Id, ...] = ()  # the unstable ones of them, in causal order
    left: frozenset[int] = frozenset()  # uids that leave with this change
    bases: Mapping[int, int] = field(default_factory=dict)  # uid -> messages before this epoch
    ended: Mapping[int, int] = field(default_factory=dict)  # uid that ends -> its final count
    successors: Mapping[int, int] = field(default_factory=dict)  # uid before -> uid here
    more: bytes = b""  # tagged fields of a later version, preserved

    @cached_property
    def position(self) -> dict[int, int]:
        """Positions by uid."""
        return {entry.uid: at for at, entry in enumerate(self.entries)}

    @cached_property
    def uid_of(self) -> dict[bytes, int]:
        """Uids by life."""
        return {entry.life: entry.uid for entry in self.entries}

    @cached_property
    def uids(self) -> frozenset[int]:
        """All members."""
        return frozenset(self.position)

    def entry(self, uid: int) -> Entry:
        """The entry of a member."""
        return self.entries[self.position[uid]]

    @property
    def identity(self) -> tuple[int, Ballot]:
        """Two views of one epoch with different identities differ."""
        return self.epoch, self.ballot


def is_quorum(voters: frozenset[int], present: frozenset[int]) -> bool:
    """Return whether over half of the voters are present, or half with the most senior."""
    count = len(voters & present)
    return 2 * count > len(voters) or (2 * count == len(voters) and min(voters) in present)


def check_view(view: View) -> None:
    """PeerError for a view that no correct member sends."""
    uids = [entry.uid for entry in view.entries]
    _require(0 < len(uids) <= MEMBERS_MAX, "the number of its members is impossible")
    _require(min(uids) >= 1 and max(uids) < view.next_uid, "a uid is impossible")
    for subject, values in (
        ("uid", uids),
        ("name", [entry.name for entry in view.entries]),
        ("life", [entry.life for entry in view.entries]),
    ):
        _require(len(set(values)) == len(values), f"a {subject} occurs twice")
    _require(bool(view.voters) and view.voters <= view.uids, "its voters are not members")
    _require(view.bases.keys() == view.uids, "its counts are not those of its members")
    _require(view.uids.issuperset(view.successors.values()), "a successor is not a member")
    _require(not view.uids & (view.left | view.ended.keys()), "a member has ended")
    _require(len(set(view.flush)) == len(view.flush), "a message is flushed twice")


def check_successor(view: View, following: View) -> None:
    """PeerError unless ``following`` may come after ``view``."""
    _require(following.group == view.group, "it is of another group")
    _require(following.epoch == view.epoch + 1, "it is of another epoch")
    _require(len(following.cut) == len(view.entries), "its cut has another size")
    _require(following.next_uid >= view.next_uid, "uids are used again")
    _require(following.voters <= following.uids, "its voters are not members")
    new = following.uids - view.uids
    _require(all(uid >= view.next_uid for uid in new), "a new uid is impossible")
    _require(view.uids.issuperset(following.successors), "a member without an entry continues")
    _require(view.uids.issuperset(following.left | following.ended.keys()), "a stranger has ended")
    for position, sequence in following.flush:
        is_within = position < len(view.entries) and 0 < sequence <= following.cut[position]
        _require(is_within, "a flushed message is not within the cut")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise PeerError("a view is impossible", what)
