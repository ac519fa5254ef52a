"""The way of a learner to the state of its group (R12, R13).

A learner takes part in views and queues what is delivered; it has no vote until it has the state. A
member sends its state together with a label: the epoch, and the messages that the state contains.
The learner loads a state once its own deliveries cover the label, then applies the rest of its
queue. A state that a later view does not cover came from a member that was excluded, with messages
that the group has lost: it is discarded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from precedes.errors import PeerError
from precedes.live.membership.values import View


class Label(NamedTuple):
    """The epoch in which a state was taken, and the messages of each uid that it contains."""

    epoch: int
    counts: Mapping[int, int]


class Learning:
    """Requests of a learner, the state that has arrived, and what the learner has delivered."""

    def __init__(self, view: View, uid: int) -> None:
        self.view, self.uid = view, uid
        self.first_epoch = view.epoch
        self.seen: dict[int, int] = {}  # uid -> messages queued here, or before the first view
        self.label: Label | None = None  # of a complete state
        self.turn = uid  # so that learners of one view do not all choose the same member
        self.is_requested = self.is_loading = False
        self._requested_s: float | None = None
        self.on_view(view)

    @staticmethod
    def has_past(epoch: int, first_epoch: int) -> bool:
        """Return whether states of an epoch contain all that a learner has not queued itself.

        A member that has not installed the learner's first view lacks the end of the epoch before.
        """
        return epoch >= first_epoch

    def on_view(self, view: View) -> None:
        """A view is installed: all messages before it are delivered."""
        self.view = view
        self.on_delivered(view.bases)
        self.on_delivered(view.ended)

    def on_delivered(self, counts: Mapping[int, int]) -> None:
        """Messages by uid that are delivered here."""
        for uid, count in counts.items():
            if count > self.seen.get(uid, -1):
                self.seen[uid] = count

    def request(self, now_s: float, retry_s: float, suspects: Collection[int]) -> bytes | None:
        """Return the life to request the state from, one voter after the other, if it is time."""
        is_soon = self._requested_s is not None and now_s - self._requested_s < retry_s
        if self.is_requested or self.is_loading or is_soon:
            return None
        others = self.view.voters - {self.uid}
        voters = sorted(others.difference(suspects) or others)
        if not voters:
            return None
        self.is_requested, self._requested_s = True, now_s
        self.turn += 1
        return self.view.entry(voters[self.turn % len(voters)]).life

    def on_failed(self) -> None:
        """The transfer broke: its sender may be gone."""
        self.is_requested = self.label is not None

    def on_state(self, label: Label) -> None:
        """A complete state has arrived; PeerError if it cannot be the one requested."""
        if not self.is_requested or self.label is not None:
            return
        if not Learning.has_past(label.epoch, self.first_epoch):
            raise PeerError("a state is older than the view of its receiver", str(label.epoch))
        self.label = label

    def is_covered(self, label: Label) -> bool:
        """Return whether the deliveries here contain the state."""
        counts = label.counts
        is_reached = all(n <= self.seen[uid] for uid, n in counts.items() if uid in self.seen)
        return self.view.epoch >= label.epoch and is_reached

    def is_void(self, label: Label) -> bool:
        """Return whether deliveries here will never contain the state."""
        return self.view.epoch > label.epoch and not self.is_covered(label)

    def discard(self) -> None:
        """Drop the state that has arrived."""
        self.label, self.is_requested = None, False
