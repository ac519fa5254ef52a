"""How often the log hears of what goes on and on, such as a member with a wrong key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

EVERY_S: Final = 1.0
EVERY_S_MAX: Final = 60.0
# Subjects that are told apart; with more of them all are new again.
SUBJECTS_MAX: Final = 64


class Seldom:
    """Lets a line about each subject through at once, the next ones ever more seldom."""

    def __init__(self) -> None:
        self._next_s: dict[Hashable, tuple[float, float]] = {}

    def lets(self, subject: Hashable, *, now_s: float) -> bool:
        """Whether to log now: after 1 s, 2 s, 4 s, ... up to a minute; quiet for two, as new."""
        due_s, wait_s = self._next_s.get(subject, (now_s, EVERY_S))
        if now_s < due_s:
            return False
        if now_s - due_s > EVERY_S_MAX:
            wait_s = EVERY_S
        if subject not in self._next_s and len(self._next_s) >= SUBJECTS_MAX:
            self._next_s.clear()
        self._next_s[subject] = (now_s + wait_s, min(2 * wait_s, EVERY_S_MAX))
        return True
