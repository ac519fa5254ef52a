"""What can go wrong in a live group, by whose doing."""

from __future__ import annotations

from precedes.errors import PrecedesError, UserError


class WouldBlock(PrecedesError):
    """``broadcast_nowait`` without credit: some member has not taken enough messages yet."""


class SlowMember(PrecedesError):
    """A member has taken nothing for longer than ``slow_after_s``, and the policy is to raise."""

    def __init__(self, member: int, waited_s: float) -> None:
        super().__init__(f"member {member} has taken no message for {waited_s:.1f} s")
        self.member = member


class GroupClosed(UserError):
    """The group was used after it was closed or after ``finish``."""


class GroupLost(PrecedesError):
    """This member cannot go on with the group: too few others are left, or they never came."""


class Evicted(GroupLost):
    """The others have taken this member out of the view and go on without it."""
