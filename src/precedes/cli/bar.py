"""A progress bar: on a terminal only, quiet in a pipe, gone when the work is done."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Final

from precedes.console import write_error

WIDTH: Final = 30
FIRST_S: Final = 0.5  # short work needs no bar
EVERY_S: Final = 0.1


class Bar:
    """``with Bar("label") as bar: bar.update(0.3)``."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.shown = False
        self.started_s = time.monotonic()
        self.next_s = self.started_s + FIRST_S

    def __enter__(self) -> Bar:
        return self

    def update(self, share: float) -> None:
        """Draw the bar, at most ten times a second."""
        now_s = time.monotonic()
        if now_s < self.next_s or not sys.stderr.isatty():
            return
        self.next_s = now_s + EVERY_S
        self.shown = True
        full = "#" * round(WIDTH * share)
        left = ""
        if share > 0.02:
            left_s = (now_s - self.started_s) * (1 - share) / share
            left = f" {left_s:.0f} s left"
        write_error(f"\r{self.label} [{full:<{WIDTH}}] {share:4.0%}{left:<12}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.shown:
            write_error(f"\r{' ' * (len(self.label) + WIDTH + 25)}\r")
