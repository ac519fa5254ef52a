"""Exceptions of live groups."""

from __future__ import annotations

from precedes.errors import PrecedesError, UserError


class WouldBlock(PrecedesError):
    """``broadcast_nowait`` without credit: some member has not consumed enough messages yet."""


class SlowMember(PrecedesError):
    """A member has consumed nothing for longer than ``slow_after_s``, and ``slow`` is "raise"."""

    def __init__(self, member: int, waited_s: float) -> None:
        super().__init__(f"member {member} has consumed no message for {waited_s:.1f} s")
        self.member = member


class GroupClosed(UserError):
    """The group was used after it was closed or after ``finish``."""


class GroupLost(PrecedesError):
    """This member cannot continue: too few others are left, or they never arrived."""


class Excluded(GroupLost):
    """The others have agreed to go on without this member."""


class Replaced(GroupLost):
    """Another process has this member's name in the group."""


class StateError(GroupLost):
    """The application's state raised an exception, or cannot be loaded."""
