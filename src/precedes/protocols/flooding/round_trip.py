"""How long an end of a connection waits for an acknowledgement: Jacobson's estimate, Karn's rule.

As INET's TCP has it (``TcpBaseAlg``): both gains are 1/8, and the deviation begins where it makes
the first time-out, so that several round trips pass until the estimate has come down.
"""

from __future__ import annotations

from typing import Final

GAIN: Final = 8  # a new sample counts for one part in so many
DEVIATIONS: Final = 4  # of them above the mean lies the time-out


class RoundTrip:
    """The mean round trip and its deviation, and the time-out that follows; integers in ns."""

    __slots__ = ("deviation_ns", "max_ns", "mean_ns", "min_ns", "timeout_ns")

    def __init__(self, *, first_ns: int, min_ns: int, max_ns: int) -> None:
        self.min_ns, self.max_ns = min_ns, max_ns
        self.mean_ns = 0
        self.deviation_ns = first_ns // DEVIATIONS
        self.timeout_ns = first_ns

    def sample(self, trip_ns: int) -> None:
        """A segment that was sent once took so long to be acknowledged: this ends a back-off."""
        error_ns = trip_ns - self.mean_ns
        self.mean_ns += error_ns // GAIN
        self.deviation_ns += (abs(error_ns) - self.deviation_ns) // GAIN
        timeout_ns = self.mean_ns + DEVIATIONS * self.deviation_ns
        self.timeout_ns = min(max(timeout_ns, self.min_ns), self.max_ns)

    def back_off(self) -> None:
        """A time-out: the next is twice as long, until there is a sample again (Karn's rule)."""
        self.timeout_ns = min(2 * self.timeout_ns, self.max_ns)
