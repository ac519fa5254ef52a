"""Errors, by who is responsible, and the exit status that a command then ends with."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Iterable


class Exit(enum.IntEnum):
    """Exit status of a command; docs/results.md explains them."""

    DONE = 0  # of an audit or a cluster: held
    VIOLATED = 1
    MISTAKE = 2  # the caller's mistake, or an unmet requirement: the command could not run
    UNKNOWN = 3  # nothing to audit, an incomplete audit, late members, or an internal error
    INTERRUPTED = 130
    BROKEN_PIPE = 141

    @classmethod
    def of(cls, verdict: str) -> Exit:
        """The status for the verdict of an audit or a cluster."""
        return {"held": cls.DONE, "violated": cls.VIOLATED}.get(verdict, cls.UNKNOWN)


class PrecedesError(Exception):
    """Base of every error raised on purpose."""

    exit_status: Exit = Exit.MISTAKE


class UserError(PrecedesError):
    """The caller's mistake: one line that says what is wrong and what to do.

    An argument is written in backticks; a command writes it as its option.
    """

    def __init__(self, text: str) -> None:
        # Quoted text, such as the name of a file, may contain anything.
        super().__init__(" ".join(text.splitlines()))


class PeerError(PrecedesError):
    """Another member sent what no correct member would send.

    ``reason`` is one of a fixed set, for counters; ``detail`` may quote what was sent.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


class InternalError(PrecedesError):
    """A defect of this package: a broken promise inside it or inside a protocol file."""

    exit_status = Exit.UNKNOWN


def meant(word: str, known: Iterable[str]) -> str:
    """Suggestion after an unknown name: the most similar known name, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
