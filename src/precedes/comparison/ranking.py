"""The rule that ranks protocols under a load, and the sentences that explain the result.

1. A protocol serves the load if it delivers everything and keeps order. Order: it promises causal
   order and the audit finds no violation; or, if the user allows a share of errors, it promises
   order with high probability and the upper end of the interval of its errors is within that share.
2. Protocols that serve come before those that do not. Among the former lower cost ranks higher. The
   cost of a delivery is the product of its bytes, its packets and the 99th percentile of its
   latency: equal in two and half in the third is half the cost. So the order of two protocols
   depends on these two alone, and a protocol that is worse in one and better in none is never
   first. Numbers count in their first three digits: the others vary from run to run.
3. Costs that are equal are a tie: exact order goes before probable
   order, then fewer bytes, lower latency, fewer packets, the name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from precedes.comparison.rows import COSTS, Row, percent

GUARANTEES: Final = ("causal", "probable", "none")
WORDS: Final = {
    "bytes_per_delivery": "the bytes",
    "packets_per_delivery": "the packets",
    "latency_p99_ms": "the p99 latency",
}
DIGITS: Final = 3
# A ratio within this of 1 is not mentioned.
ALIKE: Final = 0.05
# An exponent up to which a cost does not grow with the group.
FLAT: Final = 0.1
ALTERNATIVES_SHOWN: Final = 2


@dataclass(frozen=True)
class Standing:
    """The standing of a row, with the reason."""

    label: str
    rank: int | None  # None: it does not serve the load
    cost: float | None  # of a delivery, over that of the first
    front: bool  # no other that serves is as good in all three costs and better in one
    why: str


@dataclass(frozen=True)
class Alternative:
    """A better protocol for another need."""

    label: str
    need: str
    how: str


@dataclass(frozen=True)
class Recommendation:
    """The recommendation from the results; None: no protocol serves the load."""

    label: str | None
    sentence: str
    alternatives: tuple[Alternative, ...]


def ranked(rows: Sequence[Row], *, error: float | None) -> list[tuple[Row, Standing]]:
    """Rows in their order, each with its standing."""
    reasons = {row.label: _why_not(row, error) for row in rows}
    serving = sorted((row for row in rows if reasons[row.label] is None), key=_place)
    failing = sorted((row for row in rows if reasons[row.label] is not None), key=_low_place)
    pairs = []
    for number, row in enumerate(serving, start=1):
        first = serving[0]
        why = "the first by the rule" if row is first else _against(row, first)
        front = not any(_dominates(other, row) for other in serving)
        standing = Standing(row.label, number, _cost(row) / _cost(first), front, why)
        pairs.append((row, standing))
    for row in failing:
        pairs.append((row, Standing(row.label, None, None, False, reasons[row.label] or "")))
    return pairs


def _why_not(row: Row, error: float | None) -> str | None:
    """The reason why a row does not serve the load; None: it does."""
    seen = row.errors
    costs = [getattr(row, name) for name in COSTS]
    if row.deliveries == 0 or seen.share is None or None in costs:
        return "nothing was delivered, so there is nothing to judge"
    if row.lost:
        return f"{percent(row.lost / (row.lost + row.deliveries))} of deliveries are missing"
    verb = "is" if seen.violations == 1 else "are"
    wrong = f"{seen.violations:,} of {seen.deliveries:,} deliveries {verb} out of order"
    if row.guarantee == "none":
        return f"it promises no order: {wrong}"
    if row.guarantee == "causal":
        return None if seen.verdict == "held" else f"{wrong}, though it promises none"
    if error is None:
        return f"it promises order with high probability alone: {wrong}"
    if seen.verdict == "unknown":
        return "the audit could not judge it"
    assert seen.high is not None
    if seen.high > error:
        return f"{wrong}, and up to {percent(seen.high)} is more than {percent(error)}"
    return None


def _cost(row: Row) -> float:
    """The cost of a delivery, the product of its three parts, in its first digits."""
    return _rounded(math.prod(getattr(row, name) or 1.0 for name in COSTS))


def _rounded(value: float) -> float:
    """A number in about the digits that two runs of one protocol agree in."""
    return float(f"{value:.{DIGITS}g}")


def _dominates(one: Row, other: Row) -> bool:
    """Return whether one row is as good in all three costs and better in one, in first digits."""
    pairs = [(_rounded(getattr(one, name)), _rounded(getattr(other, name))) for name in COSTS]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _place(row: Row) -> tuple[Any, ...]:
    size, packets, latency = (getattr(row, name) for name in COSTS)
    return _cost(row), GUARANTEES.index(row.guarantee), size, latency, packets, row.label


def _low_place(row: Row) -> tuple[Any, ...]:
    share = row.errors.share
    return (
        GUARANTEES.index(row.guarantee),
        row.lost,
        1.0 if share is None else share,
        _cost(row),
        row.label,
    )


def _ratios(row: Row, other: Row) -> list[str]:
    """The differences, as ``1.9x the bytes``, the largest first."""
    ratios = []
    for name in COSTS:
        ratio = getattr(row, name) / getattr(other, name)
        if abs(ratio - 1) > ALIKE:
            ratios.append((-ratio, f"{ratio:.3g}x {WORDS[name]}"))
    return [text for _, text in sorted(ratios)]


def _against(row: Row, other: Row) -> str:
    different = _ratios(row, other)
    if not different:
        return f"within 5 % of {other.label} in bytes, packets and p99 latency"
    return f"{_listed(different)} of {other.label}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def recommend(standing: Sequence[tuple[Row, Standing]]) -> Recommendation:
    """One sentence about ranked rows, with numbers from them."""
    serving = [row for row, place in standing if place.rank is not None]
    if not serving:
        reasons = [f"{row.label} ({place.why})" for row, place in standing[:2]]
        nearest = f"; nearest: {'; '.join(reasons)}" if reasons else ""
        return Recommendation(None, f"none serves this load{nearest}", ())
    first = serving[0]
    words = [f"{first.label}: {_order_of(first)}, {_cost_of(first)}"]
    if len(serving) > 1:
        words.append(f", {_against(first, serving[1])}")
    elif len(standing) > 1:
        words.append(", the only one of those run that serves the load")
    alternatives = _alternatives(first, serving)
    for one in alternatives[:ALTERNATIVES_SHOWN]:
        words.append(f"; {one.label} if {one.need} ({one.how})")
    return Recommendation(first.label, "".join(words), tuple(alternatives))


def _order_of(row: Row) -> str:
    seen = row.errors
    if row.guarantee == "causal":
        return f"exact order (0 of {seen.deliveries:,} deliveries out of order)"
    assert seen.share is not None
    assert seen.high is not None
    return f"{percent(seen.share)} of deliveries out of order (at most {percent(seen.high)})"


def _cost_of(row: Row) -> str:
    return (
        f"{row.bytes_per_delivery:,.0f} bytes and {row.packets_per_delivery:.2f} packets a "
        f"delivery, p99 latency {row.latency_p99_ms:,.1f} ms"
    )


def _alternatives(first: Row, serving: Sequence[Row]) -> list[Alternative]:
    """For each other need the best protocol, if it is clearly better than the first."""
    others = []
    if first.crash is not None and first.crash.lost:
        safe = [row for row in serving if row.crash is not None and row.crash.is_harmless]
        if safe:
            how = f"none of the survivors' deliveries lost, {first.crash.lost:,} of {first.label}"
            others.append(Alternative(safe[0].label, "nodes crash", how))
    growth = first.exponents.get("bytes_per_delivery")
    if growth is not None and growth > FLAT:
        flat = [row for row in serving if row.exponents.get("bytes_per_delivery", growth) <= FLAT]
        if flat:
            own = flat[0].exponents["bytes_per_delivery"]
            how = f"bytes as N^{own:.2f}, not N^{growth:.2f}"
            others.append(Alternative(flat[0].label, "a message must not grow with the group", how))
    needs = {
        "latency_p99_ms": ("latency counts most", "{:,.1f} ms at p99"),
        "packets_per_delivery": ("packets count most", "{:.2f} a delivery"),
        "bytes_per_delivery": ("bytes count most", "{:,.0f} a delivery"),
    }
    for name, (need, form) in needs.items():
        best = min(serving, key=lambda row: getattr(row, name))
        if getattr(best, name) < (1 - ALIKE) * getattr(first, name):
            others.append(Alternative(best.label, need, form.format(getattr(best, name))))
    return others
