"""The audit of a log while it grows."""

from precedes.audit.growing.auditor import Auditor, Forgotten, Standing, Violation, Wait
from precedes.audit.growing.following import Follower, Following, follow, prepare

__all__ = [
    "Auditor",
    "Follower",
    "Following",
    "Forgotten",
    "Standing",
    "Violation",
    "Wait",
    "follow",
    "prepare",
]
