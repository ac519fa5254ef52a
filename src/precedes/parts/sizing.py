"""Error rate of a probabilistic clock: a formula, and the size of a clock for a load."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from precedes import delays
from precedes.errors import UserError
from precedes.model import NODES_MAX

PER_PROCESS: Final = 2
DELAY: Final = "normal:100:20"
DELAY_HELP: Final = "normal:MEAN:SD in ms, with 0 < SD <= MEAN / 2"

# Where simulated error rates have been compared with the formula (docs/sizing.md): Poisson senders,
# delays normal:100:20.
CHECKED_NODES: Final = (200, 2000)
CHECKED_RATES: Final = (25.0, 200.0)
CHECKED_ENTRIES: Final = (20, 160)
CHECKED_PER_PROCESS: Final = (1, 4)
CHECKED: Final = (
    "checked by simulation for 200 to 2,000 nodes, 25 to 200 broadcasts/s, 20 to 160 entries, 1 "
    "to 4 a process and delays normal:100:20: errors were 0.75 to 1.3 times the formula's"
)

NAME_BYTES: Final = 8
ENTRY_BYTES: Final = 4
HASH_BYTES: Final = 8

RATE_MAX: Final = 1e6  # broadcasts per second that ``largest_rate`` searches
LOAD_MAX: Final = 1e9  # as in a scenario
RATE_STEPS: Final = 48


def error_rate(
    *,
    rate: float,
    entries: int,
    per_process: int,
    nodes: int,
    delay_mean_ms: float = 100.0,
    delay_deviation_ms: float = 20.0,
    alike: int | None = None,
) -> float:
    """The expected share of deliveries out of causal order.

    ``rate`` is broadcasts per second of the whole group, a Poisson process; delays are normal.
    A reception finds something of the message's past missing in two ways: the message was caused
    by one that is still in flight, or its sender had broadcast shortly before. It goes wrong if
    concurrent messages cover the entries of what is missing. The formula of "Improving accuracy"
    counts more of them as concurrent than are, and leaves out processes with the same entries: one
    in ``alike`` has those of a given one, by default as if all ways to choose them were equally
    likely.
    """
    if alike is None:
        alike = math.comb(entries, per_process)
    chained, repeated = _missing(rate, nodes, delay_mean_ms, delay_deviation_ms)
    concurrent = rate * delay_mean_ms / 1000
    # Of the messages broadcast within a delay, 0.73 are concurrent to a chain of two.
    return chained * _coverage(0.73 * concurrent, entries, per_process, alike) + (
        repeated * _coverage(concurrent, entries, per_process, alike)
    )


def largest_rate(
    *, error: float, entries: int, per_process: int, nodes: int, delay: str = DELAY, alike: int
) -> float:
    """The load, up to RATE_MAX, at which a clock with this number of entries errs this often."""
    mean_ms, deviation_ms = delay_ms(delay)
    low, high = 0.0, RATE_MAX
    for _ in range(RATE_STEPS):
        rate = (low + high) / 2
        expected = error_rate(
            rate=rate,
            entries=entries,
            per_process=per_process,
            nodes=nodes,
            delay_mean_ms=mean_ms,
            delay_deviation_ms=deviation_ms,
            alike=alike,
        )
        low, high = (rate, high) if expected <= error else (low, rate)
    return low


def _missing(
    rate: float, nodes: int, delay_mean_ms: float, delay_deviation_ms: float
) -> tuple[float, float]:
    """The expected share of receptions that find something of the message's past missing.

    By its two causes: a chain of messages, and one sender in quick succession.
    """
    mean_s, deviation_s = delay_mean_ms / 1000, delay_deviation_ms / 1000
    chain = deviation_s * math.sqrt(3)  # of one delay less the sum of two
    chained = rate * chain * _normal_loss(mean_s / chain)
    # 1 / sqrt(pi): the mean of the positive part of the difference of two standard normals.
    repeated = rate / nodes * deviation_s / math.sqrt(math.pi)
    return chained, repeated


def _normal_loss(z: float) -> float:
    """The mean of the part of a standard normal above z."""
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return density - z * math.erfc(z / math.sqrt(2)) / 2


def _coverage(concurrent: float, entries: int, per_process: int, alike: int) -> float:
    """The probability that this number of concurrent messages hits all entries of one process."""
    one = 1 - math.exp(-per_process * concurrent / entries)
    # With a single entry it is the same chance, counted already.
    same = concurrent / alike if per_process > 1 else 0.0
    return min(1.0, one**per_process + same)


@dataclass(frozen=True)
class Size:
    """A clock for a load, and its expected behaviour."""

    rate: float
    nodes: int
    delay: str
    entries: int
    per_process: int
    error: float  # share of deliveries out of causal order, with `probabilistic`
    held: float  # share of receptions that have to wait
    probabilistic_bytes: int  # added to a message
    hashed_bytes: int
    vector_bytes: int
    checked: bool  # whether the formula was checked around this point

    def as_dict(self) -> dict[str, Any]:
        """The object that ``precedes size --json`` prints."""
        return {**asdict(self), "accuracy": CHECKED}

    def __str__(self) -> str:
        beyond = "" if self.checked else "; this is outside"
        wide = " (less than this clock: use vector)" if self.entries >= self.nodes else ""
        return "\n".join(
            [
                f"a clock for {self.nodes:,} nodes, {self.rate:,g} broadcasts/s of the group, "
                f"delays {self.delay} ms",
                f"entries     {self.entries:>9,}  of which a process owns {self.per_process}",
                f"errors      {self.error:>9.1e}  of deliveries with probabilistic, none "
                "with hashed",
                f"held        {self.held:>9.1e}  of receptions have to wait",
                f"bytes       {self.probabilistic_bytes:>9,}  a message with probabilistic",
                f"            {self.hashed_bytes:>9,}  with hashed",
                f"            {self.vector_bytes:>9,}  with vector{wide}",
                f"formula     {CHECKED}{beyond}",
            ]
        )


def size(
    *,
    rate: float,
    nodes: int,
    error: float | None = None,
    entries: int | None = None,
    per_process: int = PER_PROCESS,
    delay: str = DELAY,
) -> Size:
    """The clock for a load and an error rate, or with ``entries`` the error rate of that size."""
    mean_ms, deviation_ms = delay_ms(delay)
    _check(rate=rate, nodes=nodes, error=error, entries=entries, per_process=per_process)

    def expected(m: int) -> float:
        return error_rate(
            rate=rate,
            entries=m,
            per_process=per_process,
            nodes=nodes,
            delay_mean_ms=mean_ms,
            delay_deviation_ms=deviation_ms,
        )

    if entries is None:
        assert error is not None
        entries = _smallest(per_process, NODES_MAX, lambda m: expected(m) <= error)
        if entries is None:
            raise UserError(
                f"no clock of up to {NODES_MAX} entries keeps errors below {error:g} at "
                f"{rate:g} broadcasts/s: use hashed or vector, which make none"
            )
    inside = (
        CHECKED_NODES[0] <= nodes <= CHECKED_NODES[1]
        and CHECKED_RATES[0] <= rate <= CHECKED_RATES[1]
        and CHECKED_ENTRIES[0] <= entries <= CHECKED_ENTRIES[1]
        and CHECKED_PER_PROCESS[0] <= per_process <= CHECKED_PER_PROCESS[1]
        and (mean_ms, deviation_ms) == delay_ms(DELAY)
    )
    wrong = expected(entries)
    missing = sum(_missing(rate, nodes, mean_ms, deviation_ms))
    return Size(
        rate=rate,
        nodes=nodes,
        delay=delay,
        entries=entries,
        per_process=per_process,
        error=wrong,
        held=min(1.0, missing) - min(1.0, wrong),
        probabilistic_bytes=NAME_BYTES + ENTRY_BYTES * entries,
        hashed_bytes=NAME_BYTES + HASH_BYTES + ENTRY_BYTES * entries,
        vector_bytes=NAME_BYTES + ENTRY_BYTES * nodes,
        checked=inside,
    )


def _smallest(low: int, high: int, good: Callable[[int], bool]) -> int | None:
    """The smallest number of a range that is good, if all above it are; None if none is."""
    if not good(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle + 1, high)
    return low


def delay_ms(text: str) -> tuple[float, float]:
    """Mean and standard deviation of delays for the formula."""
    with contextlib.suppress(UserError):
        law = delays.read(text)
        # Delays cut off at 0 are not normal; two deviations are enough for the formula.
        if isinstance(law, delays.Normal) and 0 < law.deviation_ms <= law.mean_ms / 2:
            return law.mean_ms, law.deviation_ms
    raise UserError(f"delay {text!r} is not understood: the formula takes {DELAY_HELP}")


def _check(
    *, rate: float, nodes: int, error: float | None, entries: int | None, per_process: int
) -> None:
    if not 0 < rate <= LOAD_MAX:
        raise UserError(
            f"rate must be above 0 and at most {LOAD_MAX:g} (broadcasts per second of the group), "
            f"not {rate:g}"
        )
    if not 2 <= nodes <= NODES_MAX:
        raise UserError(f"nodes must be between 2 and {NODES_MAX}, not {nodes}")
    if (error is None) == (entries is None):
        raise UserError("give `error` for a size, or `entries` for an error")
    if error is not None and not 0 < error < 1:
        raise UserError(f"error must be a share between 0 and 1, such as 1e-4, not {error:g}")
    if not 1 <= per_process <= NODES_MAX:
        raise UserError(f"per_process must be between 1 and {NODES_MAX}, not {per_process}")
    if entries is not None and not per_process <= entries <= NODES_MAX:
        raise UserError(f"entries must be between {per_process} and {NODES_MAX}, not {entries}")
