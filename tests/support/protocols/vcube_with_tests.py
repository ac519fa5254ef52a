"""Causal broadcast of `vcube` that finds crashes by tests: two machines in one state.

Not a protocol of the package: it shows how any protocol that listens to ``on_crash`` is joined
to ``parts.tester`` without a change to either. Handlers are found by the class of a state,
so those of `vcube` take the part of the state that is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from precedes import contract
from precedes.contract import (
    MESSAGE,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
    handler,
    tag_of,
    value_of,
)
from precedes.parts import tester
from precedes.protocols import vcube

ITEMS: Final = (*vcube.ITEMS, *tester.ITEMS)
MESSAGE_FIELDS: Final = vcube.MESSAGE_FIELDS
GUARANTEE: Final = vcube.GUARANTEE
ASSUMES: Final = vcube.ASSUMES
ITEM_MAX: Final = max(tag for tag, kind in enumerate(ITEMS) if kind == MESSAGE)


@dataclass(frozen=True)
class Parameters(vcube.Parameters):
    """Those of `vcube`, and the detector's."""

    interval_ms: float = 30.0
    timeout_ms: float = 4.0
    rounds: int = 200


class State(NamedTuple):
    """The two machines; ``stamp`` is the one of `vcube`, where the host looks for it."""

    stamp: Int32s
    vcube: vcube.State
    detector: tester.Detector


def allocate(parameters: Parameters, group: Group, capacity: Capacity) -> State:
    """A state for the hosted processes of a group."""
    inner = vcube.allocate(parameters, group, capacity)
    detector = tester.make_detector(
        group=group,
        interval_ms=parameters.interval_ms,
        timeout_ms=parameters.timeout_ms,
        rounds=parameters.rounds,
        first_tag=len(vcube.ITEMS),
        own_channel=True,
    )
    return State(stamp=inner.stamp, vcube=inner, detector=detector)


def extra(state: State) -> dict[str, float]:
    """What both have counted."""
    return {**vcube.extra(state.vcube), **tester.counters(state.detector)}


@handler(State)
def start(state: State, here: int, host: Host) -> None:
    tester.begin(state.detector, here, host)


@handler(State)
def broadcast(state: State, here: int, slot: int, host: Host) -> None:
    if not tester.is_fenced(state.detector, here):
        contract.broadcast(state.vcube, here, slot, host)


@handler(State)
def receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> None:
    if tester.owns_packet(state.detector, inbox):
        tester.on_packet(state.detector, here, sender, inbox, count, host)
    elif tester.is_fenced(state.detector, here):
        for i in range(count):
            if tag_of(inbox, i) <= ITEM_MAX:
                host.drop(value_of(inbox, i))
    else:
        contract.receive(state.vcube, here, sender, inbox, count, host)


@handler(State)
def on_timer(state: State, here: int, key: int, host: Host) -> None:
    if tester.is_fenced(state.detector, here):
        return
    crashed = tester.crash_of(key)
    if crashed >= 0:
        contract.on_crash(state.vcube, here, crashed, host)
    else:
        tester.on_expiry(state.detector, here, key, host)


@handler(State)
def message_bytes(state: State, slot: int) -> int:
    return contract.message_bytes(state.vcube, slot)
