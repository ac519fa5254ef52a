"""What every part of the package agrees on: event kinds, limits, units, errors and exits."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable
from typing import Final

NANOSECONDS_PER_MS: Final = 1_000_000
NANOSECONDS_PER_S: Final = 1_000_000_000

# A run keeps a few arrays of nodes x nodes int32; at 65,536 nodes one of them takes 17 GB, far
# past the machines this is for. The event queue packs a node into 24 bits.
NODES_MAX: Final = 65_536

# Simulated time is int64 nanoseconds; a year leaves room for every delay added to it.
TIME_NS_MAX: Final = 365 * 24 * 3600 * NANOSECONDS_PER_S

# Nothing that a scenario gives in milliseconds is longer: 12 days, far from the end of time.
DELAY_MS_MAX: Final = 1e9


class EventKind(enum.IntEnum):
    """What happened at a node. The order is the trace format's: only ever append."""

    BROADCAST = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    CRASH = 4
    DISCARD = 5
    COMPLETE = 6
    TAG = 7
    JOIN = 8
    LEAVE = 9


class Exit(enum.IntEnum):
    """How a command ends; docs/results.md explains them."""

    DONE = 0  # of an audit or a cluster: held
    VIOLATED = 1
    MISTAKE = 2  # the caller's, or the surroundings': what was asked cannot be done
    UNKNOWN = 3  # nothing to judge, not judged whole, or our own fault
    INTERRUPTED = 130
    BROKEN_PIPE = 141

    @classmethod
    def of(cls, verdict: str) -> Exit:
        """The status for the verdict of an audit."""
        return {"held": cls.DONE, "violated": cls.VIOLATED}.get(verdict, cls.UNKNOWN)


def printable(text: str) -> str:
    """Text that others wrote, in one line for a terminal: what could steer it is escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


class PrecedesError(Exception):
    """Base of every error raised on purpose."""

    exit_status: Exit = Exit.MISTAKE


class UserError(PrecedesError):
    """The caller's mistake: one line that says what is wrong and what to do."""

    def __init__(self, text: str) -> None:
        # What is quoted, such as the name of a file, may hold anything.
        super().__init__(" ".join(text.splitlines()))


class PeerError(PrecedesError):
    """Another member sent what no correct member would send."""


class InternalError(PrecedesError):
    """Our mistake: a broken promise inside the package or inside a protocol file."""

    exit_status = Exit.UNKNOWN


def meant(word: str, known: Iterable[str]) -> str:
    """What follows a name that is not known: the one that it looks like, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
