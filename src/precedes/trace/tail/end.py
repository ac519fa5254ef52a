"""How a log that was followed ends."""

from __future__ import annotations

from typing import NamedTuple


class End(NamedTuple):
    """Whether what was not delivered is lost, and which nodes crashed."""

    complete: bool
    crashed: list[int]
