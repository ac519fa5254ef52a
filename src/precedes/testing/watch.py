"""The contract's rules, checked between the host and the handlers of a protocol, and kinds of
failures that a test can distinguish.
"""

from __future__ import annotations

import contextlib
import enum
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled, contract
from precedes.contract import Host
from precedes.model import EventKind
from precedes.registry import Protocol


class Kind(enum.StrEnum):
    """Classification of a failure; its text has the details."""

    ORDER = "order"  # a delivery is out of causal order, which the protocol promises
    TWICE = "twice"  # a message was delivered twice
    LOST = "lost"  # a message was never delivered
    PHANTOM = "phantom"  # a message was delivered that nobody had broadcast
    REFERENCE = "reference"  # references to messages are not ended once each
    OWN = "own"  # a node delivers its own message
    FIELDS = "fields"  # the fields of a message changed after it had been sent
    EFFECT = "effect"  # a handler requests what no host can do
    DIFFERENT = "different"  # runs differ that must be the same
    COUNTS = "counts"  # the simulator and the audit count differently
    IDLE = "idle"  # nothing was delivered, so nothing was checked
    RAISED = "raised"  # the protocol, or its host because of it, raised an error


class Breach(AssertionError):
    """A rule of the contract, or a promise of the protocol, is broken."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True)
class Failure:
    """A schedule on which a protocol failed; as text, what to know and how to repeat it."""

    kind: Kind
    seed: int
    text: str
    raised: str = ""  # the class of the error, if ``kind`` is RAISED

    def __str__(self) -> str:
        return self.text


def require(condition: bool, kind: Kind, text: str) -> None:
    """Breach with this text unless the condition holds, also under ``python -O``."""
    if not condition:
        raise Breach(kind, text)


HANDLERS: Final[tuple[Callable[..., None], ...]] = (
    contract.broadcast,
    contract.receive,
    contract.start,
    contract.on_timer,
    contract.on_crash,
)
_ADDING: Final = (contract.KEEP, contract.RETAIN)
_REFERENCES: Final = (contract.DELIVER, contract.DROP, contract.RELEASE, *_ADDING)
EVENT_KINDS: Final = frozenset(int(kind) for kind in EventKind)

Name = tuple[int, int]  # source and sequence of a message


class Watch:
    """A proxy that checks what handlers receive and request.

    Every broken rule raises ``Breach`` at the handler that broke it. References are
    counted by node and message: added by an arrival or by ``keep``, ended by ``deliver`` or
    ``drop``, needed to send.
    """

    def __init__(self, protocol: Protocol, *, nodes: int) -> None:
        self.protocol = protocol
        self.nodes = nodes
        self._sent: dict[Name, list[bytes]] = {}  # the fields of a message when it was sent
        self._held: Counter[tuple[int, Name]] = Counter()
        self._kept: Counter[tuple[int, Name]] = Counter()
        self._own: int | None = None  # the slot being broadcast: the host refers to it

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install between a host and the handlers; for interpreted runs in this process."""
        state = self.protocol.state
        bodies = {}
        for target in HANDLERS:
            if compiled.registered(target, state):
                bodies[target] = target.dispatch.implementation(state)  # type: ignore[attr-defined]
        try:
            for target, body in bodies.items():
                compiled.register(target, state)(self._around(target.__name__, body))
            yield
        finally:
            for target, body in bodies.items():
                compiled.register(target, state)(body)

    def check_end(self) -> None:
        """Check that all references have ended once everything has been delivered."""
        for (node, name), count in self._held.items():
            sentence = f"node {node} neither delivered nor dropped a reference to {_text(name)}"
            require(count <= self._kept[node, name], Kind.REFERENCE, sentence)

    def _around(self, handler: str, body: Callable[..., None]) -> Callable[..., None]:
        def call(state: Any, here: int, *arguments: Any) -> None:
            host: Host = arguments[-1]
            arrived: list[int] = []
            if handler == "receive":
                arrived = self._messages(arguments[1], arguments[2])
            for slot in arrived:
                self._check_fields(handler, state, slot, host)
            start = int(host.registers[contract.LENGTH])
            body(state, here, *arguments)
            self._own = arguments[0] if handler == "broadcast" else None
            for slot in arrived:
                self._held[here, _name(host, slot)] += 1
            self._check_effects(f"{handler} at node {here}", state, here, host, start)

        return call

    def _messages(self, inbox: NDArray[np.int64], count: int) -> list[int]:
        """The slots of the messages in a packet."""
        items = [(int(inbox[2 * i]), int(inbox[2 * i + 1])) for i in range(count)]
        return [value for tag, value in items if self.protocol.items[tag] == contract.MESSAGE]

    def _check_fields(self, label: str, state: Any, slot: int, host: Host) -> None:
        """Rule 2: the fields of a sent message stay unchanged."""
        name = _name(host, slot)
        fields = [getattr(state, field)[slot].tobytes() for field in self.protocol.message_fields]
        same = self._sent.setdefault(name, fields) == fields
        sentence = f"{label}: fields of message {_text(name)} changed after it had been sent"
        require(same, Kind.FIELDS, sentence)

    def _check_effects(self, label: str, state: Any, here: int, host: Host, start: int) -> None:
        for code, arguments in _effects(host, start):
            if code in _REFERENCES:
                self._count_reference(label, code, here, arguments[0], host)
                self._check_fields(label, state, arguments[0], host)
            elif code == contract.SEND_ALL:
                self._check_items(label, state, here, host, arguments)
            elif code in (contract.SEND, contract.SEND_ASIDE):
                target, count = arguments[:2]
                elsewhere = 0 <= target < self.nodes and target != here
                sentence = f"{label} sends to node {target} of {self.nodes}"
                require(elsewhere, Kind.EFFECT, sentence)
                require(count > 0, Kind.EFFECT, f"{label} sends a packet without items")
                self._check_items(label, state, here, host, arguments[2:])
            elif code == contract.NOTE:
                known = arguments[0] in EVENT_KINDS
                require(known, Kind.EFFECT, f"{label} notes an unknown kind {arguments[0]}")

    def _count_reference(self, label: str, code: int, here: int, slot: int, host: Host) -> None:
        """Rules 3 and 4: others' messages only, and one end for each reference."""
        name = _name(host, slot)
        key = here, name
        verb = {contract.DELIVER: "delivers", contract.DROP: "drops"}.get(code, "keeps")
        verb = "releases" if code == contract.RELEASE else verb
        own = code == contract.DELIVER and name[0] == here
        sentence = f"{label} delivers {_text(name)}, which it delivered by broadcasting it"
        require(not own, Kind.OWN, sentence)
        holds = self._held[key] > 0 or (code in _ADDING and slot == self._own)
        sentence = f"{label} {verb} {_text(name)} without holding a reference to it"
        require(holds, Kind.REFERENCE, sentence)
        self._held[key] += 1 if code in _ADDING else -1
        self._kept[key] += code in _ADDING

    def _check_items(
        self, label: str, state: Any, here: int, host: Host, items: Sequence[int]
    ) -> None:
        for tag, value in zip(items[::2], items[1::2], strict=True):
            known = 0 <= tag < len(self.protocol.items)
            sentence = f"{label} sends an item of tag {tag}, which is not in ITEMS"
            require(known, Kind.EFFECT, sentence)
            if self.protocol.items[tag] >= contract.NUMBER:
                continue
            name = _name(host, value)
            alive = value == self._own or self._held[here, name] > 0
            sentence = f"{label} sends {_text(name)} without holding a reference to it"
            require(alive, Kind.REFERENCE, sentence)
            if self.protocol.items[tag] == contract.MESSAGE:
                self._check_fields(label, state, value, host)


def _name(host: Host, slot: int) -> Name:
    return int(host.source_of(slot)), int(host.sequence_of(slot))


def _text(name: Name) -> str:
    return f"message {name[0]}:{name[1]}"


def _effects(host: Host, start: int) -> Iterator[tuple[int, list[int]]]:
    """The effects written from ``start`` on: code and arguments."""
    words = host.effects[start : int(host.registers[contract.LENGTH])].tolist()
    at = 0
    while at < len(words):
        code = words[at]
        length = 2 if code <= contract.RELEASE else 3
        if code in (contract.SEND, contract.SEND_ASIDE):
            length = 3 + 2 * words[at + 2]
        yield code, words[at + 1 : at + length]
        at += length
