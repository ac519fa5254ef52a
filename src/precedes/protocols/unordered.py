"""Broadcast without any order: the negative control.

Every message is sent directly to all nodes and delivered when it arrives. On any network whose
delays vary, causal order is broken; an audit that does not report this is itself broken.

Source: none; the minimum of a broadcast.

Assumes that every packet arrives exactly once, for exactly-once delivery.

Guarantee: none. Cost: nothing is added to a message but its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from precedes.contract import MESSAGE, Capacity, Group, Host, Int64s, handler, value_of

DATA: Final = 0
ITEMS: Final = (MESSAGE,)
MESSAGE_FIELDS: Final[tuple[str, ...]] = ()
GUARANTEE: Final = "none"
ASSUMES: Final = frozenset({"reliable", "unique"})
ROUTE: Final = "direct"
ON_LOSS: Final = "view"


@dataclass(frozen=True)
class Parameters:
    """A protocol without parameters."""


class State(NamedTuple):
    """No state; an array represents the hosted processes."""

    hosted: Int64s


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    return State(hosted=np.array(group.hosted, np.int64))


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    host.send_all(DATA, slot)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    for i in range(count):
        host.deliver(value_of(inbox, i))


@handler(State)
def admits(state: State, here: int, sender: int, tag: int, value: int, host: Host) -> bool:
    return True


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return 8
