"""Live groups: the protocols over real sockets, causes before effects.

>>> from precedes.live import Config, Group
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.live.config import Config, from_toml
    from precedes.live.driver import Missing
    from precedes.live.errors import (
        Excluded,
        GroupClosed,
        GroupLost,
        Replaced,
        SlowMember,
        StateError,
        WouldBlock,
    )
    from precedes.live.group import Group
    from precedes.live.inbox import Event, ViewChange
    from precedes.live.member.output import Batch, Message
    from precedes.live.net.security import Security, make_keys
    from precedes.live.transfer import State

# Loaded on first use: the command line answers before Numba has been imported.
_HOMES = {
    "Batch": ".member.output",
    "Config": ".config",
    "Event": ".inbox",
    "Excluded": ".errors",
    "Group": ".group",
    "GroupClosed": ".errors",
    "GroupLost": ".errors",
    "Message": ".member.output",
    "Missing": ".driver",
    "Replaced": ".errors",
    "Security": ".net.security",
    "SlowMember": ".errors",
    "State": ".transfer",
    "StateError": ".errors",
    "ViewChange": ".inbox",
    "WouldBlock": ".errors",
    "from_toml": ".config",
    "make_keys": ".net.security",
}

__all__ = [
    "Batch",
    "Config",
    "Event",
    "Excluded",
    "Group",
    "GroupClosed",
    "GroupLost",
    "Message",
    "Missing",
    "Replaced",
    "Security",
    "SlowMember",
    "State",
    "StateError",
    "ViewChange",
    "WouldBlock",
    "from_toml",
    "make_keys",
]

__getattr__, __dir__ = exports(__name__, _HOMES)
