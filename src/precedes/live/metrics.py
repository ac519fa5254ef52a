"""Counters of a group outside of its step, its health, and rate limits of its log lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, NamedTuple

from precedes.model import NANOSECONDS_PER_S

if TYPE_CHECKING:
    from precedes.live.driver import Driver

LOG_EVERY_S: Final = 1.0
LOG_EVERY_S_MAX: Final = 60.0
# Maximum number of distinct keys; with more of them all are new again.
LOG_KEYS_MAX: Final = 64


class RateLimiter:
    """Rate-limits log lines per key, with exponential backoff."""

    def __init__(self) -> None:
        self._next_s: dict[Hashable, tuple[float, float]] = {}

    def allows(self, key: Hashable, *, now_s: float) -> bool:
        """Return whether to log now: at once, then after 1 s, 2 s, 4 s, ... up to a minute.

        A key without a line for a minute after that is new again.
        """
        due_s, wait_s = self._next_s.get(key, (now_s, LOG_EVERY_S))
        if now_s < due_s:
            return False
        if now_s - due_s > LOG_EVERY_S_MAX:
            wait_s = LOG_EVERY_S
        if key not in self._next_s and len(self._next_s) >= LOG_KEYS_MAX:
            self._next_s.clear()
        self._next_s[key] = (now_s + wait_s, min(2 * wait_s, LOG_EVERY_S_MAX))
        return True


class Metrics:
    """Counters of the group outside of the compiled step."""

    def __init__(self) -> None:
        self.ready = False
        self.trace_failed = False
        self.delivered = 0
        self.evictions = 0
        self.joins = 0
        self.disconnections = 0
        self.damaged = 0
        self.callback_failures = 0
        self.blocked_since_ns: int | None = None  # when the current wait for credit began
        self._blocked_ns = 0  # in waits that have ended
        self.oldest_s = 0.0
        self.refusals: Counter[str] = Counter()  # by reason, of which there is a fixed set
        self._limiter = RateLimiter()

    @property
    def blocked_s(self) -> float:
        """Time in which some broadcast waited for credit, the current wait included."""
        since_ns, now_ns = self.blocked_since_ns, time.monotonic_ns()
        current_ns = 0 if since_ns is None else now_ns - since_ns
        return (self._blocked_ns + current_ns) / NANOSECONDS_PER_S

    def end_block(self) -> None:
        """No broadcast waits for credit any more."""
        assert self.blocked_since_ns is not None
        self._blocked_ns += time.monotonic_ns() - self.blocked_since_ns
        self.blocked_since_ns = None

    def may_log(self, peer: int | None, where: str) -> bool:
        """Return whether to log a line about this peer: rate-limited for each."""
        key = (peer, "" if peer is None else where)
        return self._limiter.allows(key, now_s=time.monotonic())


class Health(NamedTuple):
    """``ready``, ``degraded`` (it works with a problem) or ``live`` (not ready)."""

    status: str
    wrong: list[str]  # problems, a line each


def health(driver: Driver) -> Health:
    """The health of a member; ready means that it has a vote, all links are up, and none was lost.

    A view that has lost members works, but the next loss may end the group. Members that left, or
    were excluded and came back, are not lost.
    """
    if (error := driver.error) is not None:
        return Health("live", [str(error)])
    is_learner = driver.is_open and not driver.is_over and driver.membership.is_learner
    if is_learner and driver.view is not None:
        return Health("live", ["the state of the group has not arrived"])
    if not driver.metrics.ready:
        return Health("live", ["it is starting, or has ended"])
    if driver.view is not None and driver.member + 1 not in driver.view.voters:
        return Health("live", ["it has no vote yet: the next view gives it one"])
    if missing := driver.membership.blocked:
        return Health("live", [f"no quorum of the view without {', '.join(missing)}"])
    wrong = [f"no connection to member {peer}" for peer in driver.missing_links()]
    wrong += [f"member {member} is out of the view" for member in driver.lost]
    if driver.metrics.trace_failed:
        wrong.append("tracing has stopped")
    if driver.links.credentials.is_late:
        wrong.append("the certificate expires soon")
    if driver.metrics.oldest_s > driver.config.gap_after_s:
        wrong.append(f"a message has waited for {driver.metrics.oldest_s:.1f} s")
    if (stalled_s := driver.stalled_s) > driver.config.gap_after_s:
        node = driver.laggard
        wrong.append(f"broadcasts have waited for {stalled_s:.1f} s: member {node} holds them back")
    return Health("degraded" if wrong else "ready", wrong)
