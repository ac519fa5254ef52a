"""What can be wrong with a protocol, by kinds that a test can tell apart."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.StrEnum):
    """What a failure is about; its text says the rest."""

    ORDER = "order"  # a delivery is out of causal order, which the protocol promises
    TWICE = "twice"  # a message was delivered twice
    LOST = "lost"  # a message was never delivered
    PHANTOM = "phantom"  # a message was delivered that nobody had broadcast
    REFERENCE = "reference"  # references to messages are not ended once each
    OWN = "own"  # a node delivers its own message
    FIELDS = "fields"  # what travels with a message changed after it had been sent
    EFFECT = "effect"  # a handler asks for what no host can do
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
