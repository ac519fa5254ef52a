"""Values of the reference: views and quorums."""

from typing import NamedTuple


class Violation(Exception):
    """A property that the checker found broken."""


class Entry(NamedTuple):
    """One member of a view; its index in the view is its position."""

    uid: int
    name: str
    life: int


class View:
    """A decided view, together with how the epoch before it ends."""

    def __init__(
        self, *, epoch, entries, voters, next_uid, ballot, cut=(), flush=(), left=(),
        bases=None, ended=None, successors=None,
    ):  # fmt: skip
        self.epoch = epoch
        self.entries = tuple(entries)
        self.voters = frozenset(voters)
        self.next_uid = next_uid
        self.ballot = ballot
        self.cut = tuple(cut)
        self.flush = tuple(flush)
        self.left = frozenset(left)
        self.bases = bases or {entry.uid: 0 for entry in entries}
        self.ended = ended or {}
        self.successors = successors or {}
        self.position = {entry.uid: p for p, entry in enumerate(self.entries)}
        self.by_life = {entry.life: entry.uid for entry in self.entries}
        self.life = {entry.uid: entry.life for entry in self.entries}
        self.name = {entry.uid: entry.name for entry in self.entries}
        self.uids = frozenset(self.position)

    @property
    def ident(self):
        """Two views of an epoch with different idents differ."""
        return self.epoch, self.ballot

    @property
    def contents(self):
        """Everything that members have to agree on."""
        return (
            self.epoch, self.entries, self.voters, self.next_uid, self.ballot, self.cut,
            self.flush, self.left, self.bases, self.ended, self.successors,
        )  # fmt: skip

    def __repr__(self):
        marks = (f"{e.name}/{e.uid}{'' if e.uid in self.voters else '?'}" for e in self.entries)
        return f"View({self.epoch}: {' '.join(marks)})"


def is_quorum(voters, present):
    """More than half of the voters, or exactly half including the most senior one."""
    count = len(voters & present)
    return 2 * count > len(voters) or (2 * count == len(voters) and min(voters) in present)


def covers(big, small):
    """Return whether every count in ``small`` is reached in ``big``."""
    return all(big.get(uid, 0) >= n for uid, n in small.items())
