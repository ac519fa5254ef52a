"""Causal broadcast of `vcube` that finds crashes by tests: two machines in one state.

Not a protocol of the package: it shows how any protocol that listens to ``on_crash`` is joined
to ``parts.tester`` without a change to either. Handlers are found by the class of a state,
so those of `vcube` take the part of the state that is theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from precedes import compiled
from precedes.contract import (
    DONE,
    MESSAGE,
    Capacity,
    Group,
    Host,
    Int32s,
    Int64s,
    broadcast,
    drop,
    message_bytes,
    on_crash,
    on_timer,
    receive,
    start,
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


def effects_words(capacity: Capacity, nodes: int) -> int:
    """The larger need is that of `vcube`; a round of tests takes 5 words a node."""
    return max(vcube.effects_words(capacity, nodes), 64 + 5 * nodes)


def extra(state: State) -> dict[str, float]:
    """What both have counted."""
    return {**vcube.extra(state.vcube), **tester.counters(state.detector)}


@compiled.register(start, State)
def _start(state: State, here: int, host: Host) -> int:
    tester.begin(state.detector, here, host)
    return DONE


@compiled.register(broadcast, State)
def _broadcast(state: State, here: int, slot: int, host: Host) -> int:
    if tester.is_fenced(state.detector, here):
        return DONE
    return broadcast(state.vcube, here, slot, host)


@compiled.register(receive, State)
def _receive(state: State, here: int, sender: int, inbox: Int64s, count: int, host: Host) -> int:
    if tester.owns_packet(state.detector, inbox):
        tester.on_packet(state.detector, here, sender, inbox, count, host)
        return DONE
    if tester.is_fenced(state.detector, here):
        for i in range(count):
            if tag_of(inbox, i) <= ITEM_MAX:
                drop(host, value_of(inbox, i))
        return DONE
    return receive(state.vcube, here, sender, inbox, count, host)


@compiled.register(on_timer, State)
def _on_timer(state: State, here: int, key: int, host: Host) -> int:
    if tester.is_fenced(state.detector, here):
        return DONE
    crashed = tester.crash_of(key)
    if crashed >= 0:
        return on_crash(state.vcube, here, crashed, host)
    tester.on_expiry(state.detector, here, key, host)
    return DONE


@compiled.register(message_bytes, State)
def _message_bytes(state: State, slot: int) -> int:
    return message_bytes(state.vcube, slot)
