"""Claims: a published value beside a measured one, and the rules that judge the two.

Every rule takes what is printed (``published``, plain numbers) and what was measured (``Measured``,
read from results) as separate arguments. Only the rules make a claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from precedes.errors import InternalError
from precedes.papers.measured import Measured

HOLDS: Final = "holds"  # the published value lies within the measured interval
EQUAL: Final = "equal"  # every replication gives the published value
SAME_TREND: Final = "same trend"  # order or sign agree; the number is not claimed
DIFFERS: Final = "differs"
IRREPRODUCIBLE: Final = "irreproducible"  # the print contradicts itself
FINDING: Final = "finding"  # measured; nothing is published
VERDICTS: Final = (HOLDS, EQUAL, SAME_TREND, DIFFERS, IRREPRODUCIBLE, FINDING)

NO_INTERVAL: Final = "one replication, so there is no interval"
SLACK: Final = 1e-12  # of the last bits of a mean

_SEAL: Final = object()


class About(NamedTuple):
    """What a claim is about; no two claims of a report share all three."""

    paper: str
    item: str  # "Table 1"
    key: str  # the cell or point within it


@dataclass(frozen=True)
class Claim:
    """One line of claims.csv; low and high bound the mean over seeds with 95 % confidence.

    An order is text, ``3.3 < 7.4 < 12.9``. None is an empty field: nothing published, nothing
    measured, or, of low and high, a single replication.
    """

    paper: str
    item: str
    key: str
    published: float | str | None
    measured: float | str | None
    low: float | None
    high: float | None
    verdict: str
    reason: str
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise InternalError("a Claim is made by one of the rules of precedes.papers.claims")


def within(
    about: About, *, published: float, measured: Measured, rounding: float = 0.0, reason: str = ""
) -> Claim:
    """``holds`` if the published value lies in the interval of the mean, else ``differs``.

    ``rounding`` is half a unit of the last place in print. A single replication has no interval;
    it holds only if it is the published value up to ``rounding``. The reason is for one that
    differs.
    """
    low, high = _checked(measured).interval or (measured.mean, measured.mean)
    slack = rounding + SLACK * abs(published)
    holds = low - slack <= published <= high + slack
    reasons = [] if holds else [_difference(published, measured), reason]
    if measured.interval is None:
        reasons.append(NO_INTERVAL)
    return _claim(about, published, measured, HOLDS if holds else DIFFERS, reasons)


def at_most(about: About, *, published: float, measured: Measured, reason: str = "") -> Claim:
    """``holds`` if the mean stays below a published upper bound, else ``differs``."""
    holds = _checked(measured).mean <= published
    reasons = [] if holds else [_difference(published, measured), reason]
    return _claim(
        about,
        published,
        measured,
        HOLDS if holds else DIFFERS,
        ["published as an upper bound", *reasons],
    )


def equal(
    about: About,
    *,
    published: float,
    measured: Measured,
    places: int | None = None,
    reason: str = "",
) -> Claim:
    """``equal`` if every replication gives exactly the published value, else ``differs``.

    For counts that follow from the algorithm alone. ``places`` is how many decimals are printed:
    values are then rounded to as many before they are compared.
    """
    values = _checked(measured).values
    if places is not None:
        values = tuple(round(value, places) for value in values)
    same = all(math.isclose(value, published, rel_tol=SLACK, abs_tol=SLACK) for value in values)
    reasons = [] if same else [_difference(published, measured), reason]
    return _claim(about, published, measured, EQUAL if same else DIFFERS, reasons)


def same_sign(about: About, *, published: float, measured: Measured, reason: str = "") -> Claim:
    """``same trend`` if the measured interval lies on the published value's side of zero."""
    low, high = _checked(measured).interval or (measured.mean, measured.mean)
    agrees = (low > 0 and published > 0) or (high < 0 and published < 0)
    agrees = agrees or (low <= 0 <= high and published == 0)
    reasons = [] if agrees else [_difference(published, measured)]
    if measured.interval is None:
        reasons.append(NO_INTERVAL)
    return _claim(about, published, measured, SAME_TREND if agrees else DIFFERS, [*reasons, reason])


def same_order(
    about: About, *, published: Sequence[float], measured: Sequence[Measured], reason: str = ""
) -> Claim:
    """``same trend`` if each step from a value to the next goes the same way as in print.

    Means are compared; where the intervals of neighbours overlap, the reason says so.
    """
    if len(published) != len(measured) or len(published) < 2:
        raise InternalError(f"{about}: an order needs two values or more, published and measured")
    means = [_checked(one).mean for one in measured]
    agrees = _steps(published) == _steps(means)
    reasons = [] if agrees else ["differs in order"]
    if any(_overlap(one, other) for one, other in pairwise(measured)):
        reasons.append("the intervals of neighbours overlap")
    return Claim(
        *about,
        published=_order(published),
        measured=_order(means),
        low=None,
        high=None,
        verdict=SAME_TREND if agrees else DIFFERS,
        reason="; ".join(filter(None, [*reasons, reason])),
        seal=_SEAL,
    )


def irreproducible(
    about: About, *, published: float | str, measured: Measured | None = None, reason: str
) -> Claim:
    """``irreproducible``: no run can give this, because the print contradicts itself: how?"""
    if not reason.strip():
        raise InternalError(f"{about}: irreproducible needs a reason")
    return _claim(about, published, measured, IRREPRODUCIBLE, [reason])


def finding(about: About, *, measured: Measured, reason: str = "") -> Claim:
    """``finding``: measured, and nothing is published to set beside it."""
    reasons = [reason]
    if _checked(measured).interval is None:
        reasons.append(NO_INTERVAL)
    return _claim(about, None, measured, FINDING, reasons)


def number(value: float) -> str:
    """A number for reading: whole and large ones without decimals, others with four digits."""
    if abs(value) >= 1000 or value == round(value):
        return str(round(value)) if abs(value) < 1e15 else f"{value:.4g}"
    if abs(value) >= 0.001:
        return f"{value:.4g}"
    digits, _, power = f"{value:.3e}".partition("e")
    return f"{digits}e{int(power)}"


def _claim(
    about: About,
    published: float | str | None,
    measured: Measured | None,
    verdict: str,
    reasons: Sequence[str],
) -> Claim:
    low, high = (measured and measured.interval) or (None, None)
    return Claim(
        *about,
        published=published,
        measured=None if measured is None else measured.mean,
        low=low,
        high=high,
        verdict=verdict,
        reason="; ".join(filter(None, reasons)),
        seal=_SEAL,
    )


def _checked(measured: Measured) -> Measured:
    # The types say so; a module that is not checked by mypy learns it here.
    if not isinstance(measured, Measured):
        raise InternalError(f"measured must come from measure() or pooled(), not {measured!r}")
    return measured


def _difference(published: float, measured: Measured) -> str:
    by = measured.mean - published
    share = f" ({by / abs(published):+.1%})".replace("%", " %") if published else ""
    return f"differs by {'+' if by >= 0 else ''}{number(by)}{share}"


def _steps(values: Sequence[float]) -> list[int]:
    return [(after > before) - (after < before) for before, after in pairwise(values)]


def _order(values: Sequence[float]) -> str:
    text = number(values[0])
    for value, step in zip(values[1:], _steps(values), strict=True):
        text += f" {('=', '<', '>')[step]} {number(value)}"
    return text


def _overlap(one: Measured, other: Measured) -> bool:
    if one.interval is None or other.interval is None:
        return False
    return one.interval[0] <= other.interval[1] and other.interval[0] <= one.interval[1]
