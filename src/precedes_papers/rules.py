"""Claims: a published value, a measured one, and the verdict of the rule that compares them.

Every rule takes the published value (plain numbers) and the measured one (``Measured``, read from
results) as separate arguments. Only the rules make a claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass
from itertools import pairwise
from typing import Final

from precedes.errors import InternalError
from precedes.pages.numbers import number
from precedes_papers.measured import Measured, Run, measure, ranged

# An interval whose half is wider than this share of print says little: noise would be agreement.
WIDEST: Final = 0.10
# Sizes that differ by more than this factor are no longer of about the same size.
SIZE_MAX: Final = 2.0

HOLDS: Final = "holds"
EQUAL: Final = "equal"
IN_BOUNDS: Final = "in bounds"
SAME_TREND: Final = "same trend"
INCONCLUSIVE: Final = "inconclusive"
DIFFERS: Final = "differs"
IRREPRODUCIBLE: Final = "irreproducible"
FINDING: Final = "finding"
# What the rules below mean by them; the page shows this.
MEANINGS: Final = {
    HOLDS: "the published value lies in the 95 % interval of what was measured (of the mean over "
    "seeds, widened by print's own interval if it gives one; of one run, where print comes from "
    "one), and half of that interval is at most "
    f"{WIDEST:.0%} of it".replace("%", " %"),
    EQUAL: "every run gives exactly the published value",
    IN_BOUNDS: "print gives a bound or a range, and the whole interval keeps to it",
    SAME_TREND: "sign or order agree; where print has a size too and it differs by more than "
    f"{SIZE_MAX:g} times, the verdict says so",
    INCONCLUSIVE: "neither agreement nor difference is shown: the interval is too wide for that",
    DIFFERS: "the published value was not met; the reason says by how much",
    IRREPRODUCIBLE: "the print contradicts itself here",
    FINDING: "measured here; nothing is published",
}
VERDICTS: Final = tuple(MEANINGS)
FITTED_MEANING: Final = (
    "something that the measured value depends on was chosen by a look at print: agreement shows "
    "that such a choice exists, not that it is the paper's"
)

NO_INTERVAL: Final = "one replication, so there is no interval"
PRINTED_INTERVAL: Final = "print gives an interval with its value, which counts too"
ONE_RUN: Final = "printed of one run: the interval is that of one more"
TOO_WIDE: Final = "print lies in the interval, but half of that is more than a tenth of print"
OVER_THE_BOUND: Final = "the interval reaches over the bound"
BOTH_SIDES: Final = "the interval lies on both sides of zero"
OTHER_WAY: Final = "goes the other way"
ABOVE, BELOW = "above 0", "below 0"  # printed as a direction alone
SLACK: Final = 1e-12  # of the last bits of a mean

# What the audit of a trace counts against a guarantee.
CAUSAL_ORDER: Final = ("violations", "cycles", "unjudged")
AT_MOST_ONCE: Final = ("duplicates", "phantom")
# Of a run that has quiesced: nothing is in flight any more.
EXACTLY_ONCE: Final = (*AT_MOST_ONCE, "lost", "undelivered_at_end")

Interval = tuple[float, float]

_SEAL: Final = object()


# What a claim is about: a published item, a cell or point of it, and the reading of the paper that
# was run, if there are several. No two claims of a paper are about the same.
About = tuple[str, str] | tuple[str, str, str]  # "Table 1", "packets, 16 nodes", "reading A"


@dataclass(frozen=True)
class Claim:
    """One line of claims.csv; low and high bound what was measured with 95 % confidence.

    A range or an order is text, ``3.3 < 7.4 < 12.9``. None is an empty field: nothing published,
    nothing measured, or, of low and high, a single replication. ``size`` is how many times the
    published value was measured, where only the sign was judged; ``fitted`` names what was chosen
    by a look at print. ``difference`` says how far from print it is, of what differs, ``reasons``
    why; ``evidence`` is what was measured, with the runs it comes from.
    """

    item: str
    statement: str
    reading: str
    published: float | str | None
    measured: float | str | None
    low: float | None
    high: float | None
    verdict: str
    size: float | None
    fitted: str
    rule: str
    difference: str
    reasons: tuple[str, ...]
    evidence: tuple[Measured, ...]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise InternalError("a Claim is made by one of the rules of precedes_papers.rules")

    @property
    def key(self) -> str:
        """The statement with its reading: with the item, the name of the claim."""
        return f"{self.statement}, {self.reading}" if self.reading else self.statement

    @property
    def reason(self) -> str:
        """The difference and the reasons in one line."""
        return "; ".join(filter(None, (self.difference, *self.reasons)))

    @property
    def experiments(self) -> str:
        """The experiments whose runs it was read from."""
        found = (origin.experiment for one in self.evidence for origin in one.origins)
        return " ".join(dict.fromkeys(found))

    @property
    def said(self) -> str:
        """The verdict in full."""
        if self.size is None or 1 / SIZE_MAX <= self.size <= SIZE_MAX:
            return self.verdict
        times = f"{self.size:.2g} times" if self.size > 1 else f"1/{1 / self.size:.2g} of"
        return f"same direction, {times} the size"


def within(
    about: About,
    published: float,
    measured: Measured,
    *,
    rounding: float = 0.0,
    span: float | None = None,
    half: float = 0.0,
    reason: str = "",
) -> Claim:
    """``holds`` if the published value lies in the interval of the mean, else ``differs``.

    ``rounding`` is half a unit of the last published place. If the interval is too wide, half of it
    more than a tenth of the published value, it is ``inconclusive`` instead of ``holds``; of a
    small share, ``span`` is the range of the shares that are published with it, and is taken
    instead of the value. ``half`` is half of the interval that is published with the value: then
    the interval of the difference of two means is judged. A single replication has no interval; it
    holds only if it is the published value up to ``rounding``. The reason is for one that differs.
    """
    notes = [PRINTED_INTERVAL] if half else []
    bounds = _checked(measured).interval
    return _contained(
        "within", about, published, measured, bounds, notes, rounding, span, reason, half
    )


def one_run(
    about: About,
    published: float,
    measured: Measured,
    *,
    rounding: float = 0.0,
    span: float | None = None,
    reason: str = "",
) -> Claim:
    """``within`` for the value of a single published run, which need not be close to a mean.

    It is compared with the interval that one more run lies in.
    """
    bounds = _checked(measured).prediction
    return _contained(
        "one_run", about, published, measured, bounds, [ONE_RUN], rounding, span, reason
    )


def _contained(
    rule: str,
    about: About,
    published: float,
    measured: Measured,
    bounds: Interval | None,
    reasons: list[str],
    rounding: float,
    span: float | None,
    reason: str,
    published_half: float = 0.0,
) -> Claim:
    low, high = bounds or (measured.mean, measured.mean)
    low = measured.mean - math.hypot(measured.mean - low, published_half)
    high = measured.mean + math.hypot(high - measured.mean, published_half)
    slack = rounding + SLACK * abs(published)
    verdict, difference = HOLDS, ""
    if not low - slack <= published <= high + slack:
        verdict, difference = DIFFERS, _difference(published, measured)
        reasons.append(reason)
    elif (high - low) / 2 > WIDEST * abs(published if span is None else span) + slack - rounding:
        verdict = INCONCLUSIVE
        reasons.append(TOO_WIDE)
    if bounds is None:
        reasons.append(NO_INTERVAL)
    return _claim(rule, about, published, [measured], verdict, reasons, difference, bounds=bounds)


def at_most(about: About, published: float, measured: Measured, *, reason: str = "") -> Claim:
    """``in bounds`` if the interval stays below a published upper bound, ``differs`` above it."""
    return _bounded("at_most", about, published, (-math.inf, published), measured, reason)


def at_least(about: About, published: float, measured: Measured, *, reason: str = "") -> Claim:
    """``in bounds`` if the interval stays above a published lower bound, ``differs`` below it."""
    return _bounded("at_least", about, published, (published, math.inf), measured, reason)


def in_range(
    about: About, published: Sequence[float], measured: Measured, *, reason: str = ""
) -> Claim:
    """``in bounds`` if the interval lies in a published range, ``differs`` outside of it."""
    low, high = published
    text = f"{number(low)} to {number(high)}"
    return _bounded("in_range", about, text, (low, high), measured, reason)


def _bounded(
    rule: str,
    about: About,
    published: float | str,
    bounds: Interval,
    measured: Measured,
    reason: str,
) -> Claim:
    low, high = _checked(measured).interval or (measured.mean, measured.mean)
    least, most = bounds
    verdict, reasons, difference = IN_BOUNDS, [], ""
    if high < least or low > most:
        verdict = DIFFERS
        difference = _difference(least if high < least else most, measured)
        reasons.append(reason)
    elif low < least or high > most:
        verdict = INCONCLUSIVE
        reasons.append(OVER_THE_BOUND)
    if measured.interval is None:
        reasons.append(NO_INTERVAL)
    return _claim(rule, about, published, [measured], verdict, reasons, difference)


def equal(
    about: About,
    published: float,
    measured: Measured,
    *,
    places: int | None = None,
    reason: str = "",
) -> Claim:
    """``equal`` if every replication gives exactly the published value, else ``differs``.

    For counts that follow from the algorithm alone. ``places`` is how many decimals are published:
    values are then rounded to as many before they are compared.
    """
    values = _checked(measured).values
    if places is not None:
        values = tuple(round(value, places) for value in values)
    if all(math.isclose(value, published, rel_tol=SLACK, abs_tol=SLACK) for value in values):
        return _claim("equal", about, published, [measured], EQUAL, [])
    difference = _difference(published, measured)
    return _claim("equal", about, published, [measured], DIFFERS, [reason], difference)


def kept(about: About, runs: Sequence[Run], against: Sequence[str], *, reason: str = "") -> Claim:
    """``equal`` if the audits of all these runs count nothing of what is ``against`` a guarantee.

    The audit reads broadcasts and deliveries alone and shares no code with the protocol; it is in
    the results of experiments with ``trace=True``.
    """

    @ranged(0)
    def broken(run: Run) -> float:
        audit = run["audit"]
        if audit is None or not audit["deliveries"]:
            raise InternalError(f"{about}: a run without a trace, or without deliveries")
        return float(sum(audit[name] for name in against))

    return equal(about, 0, measure(broken, runs), reason=reason)


def same_sign(
    about: About,
    published: float,
    measured: Measured,
    *,
    is_size: bool = True,
    reason: str = "",
) -> Claim:
    """``same trend`` if the measured interval lies on the published value's side of zero.

    ``inconclusive`` if it lies on both sides. Not ``is_size``: only the direction is published.
    """
    low, high = _checked(measured).interval or (measured.mean, measured.mean)
    agrees = (low > 0 and published > 0) or (high < 0 and published < 0)
    agrees = agrees or (low <= 0 <= high and published == 0)
    reasons, difference, size = [], "", None
    if agrees:
        verdict = SAME_TREND
        size = measured.mean / published if is_size and published else None
    elif low <= 0 <= high and measured.interval is not None:
        verdict = INCONCLUSIVE
        reasons.append(BOTH_SIDES)
    else:
        verdict = DIFFERS
        difference = _difference(published, measured) if is_size else OTHER_WAY
    if measured.interval is None:
        reasons.append(NO_INTERVAL)
    printed: float | str = published
    if not is_size and published:
        printed = ABOVE if published > 0 else BELOW
    reasons.append(reason)
    return _claim("same_sign", about, printed, [measured], verdict, reasons, difference, size=size)


def same_order(
    about: About, published: Sequence[float], measured: Sequence[Measured], *, reason: str = ""
) -> Claim:
    """``same trend`` if each step from a value to the next goes the same way as published.

    Means are compared. A step that goes another way is ``inconclusive`` if the intervals of the
    two overlap; where those of others do, the reason says so.
    """
    if len(published) != len(measured) or len(published) < 2:
        raise InternalError(f"{about}: an order needs two values or more, published and measured")
    means = [_checked(one).mean for one in measured]
    overlaps = [_overlap(one, other) for one, other in pairwise(measured)]
    steps = zip(_steps(published), _steps(means), overlaps, strict=True)
    wrong = [overlap for wanted, found, overlap in steps if wanted != found]
    verdict = SAME_TREND if not wrong else INCONCLUSIVE if all(wrong) else DIFFERS
    reasons = ["the intervals of neighbours overlap"] if any(overlaps) else []
    difference = "differs in order" if verdict == DIFFERS else ""
    return _claim(
        "same_order", about, _order(published), measured, verdict, [*reasons, reason], difference
    )


def irreproducible(
    about: About, published: float | str, measured: Measured | None = None, *, reason: str
) -> Claim:
    """``irreproducible``: no run can give this, because the paper contradicts itself."""
    if not reason.strip():
        raise InternalError(f"{about}: irreproducible needs a reason")
    evidence = [] if measured is None else [measured]
    return _claim("irreproducible", about, published, evidence, IRREPRODUCIBLE, [reason])


def finding(about: About, measured: Measured, *, reason: str = "") -> Claim:
    """``finding``: measured, and nothing is published to compare it with."""
    reasons = [reason]
    if _checked(measured).interval is None:
        reasons.append(NO_INTERVAL)
    return _claim("finding", about, None, [measured], FINDING, reasons)


def _claim(
    rule: str,
    about: About,
    published: float | str | None,
    evidence: Sequence[Measured],
    verdict: str,
    reasons: Sequence[str],
    difference: str = "",
    *,
    bounds: Interval | None = None,
    size: float | None = None,
) -> Claim:
    """The claim; several measured values are an order."""
    measured: float | str | None = None
    if len(evidence) == 1:
        measured, bounds = evidence[0].mean, bounds or evidence[0].interval
    elif evidence:
        measured = _order([one.mean for one in evidence])
    low, high = bounds or (None, None)
    item, statement, *reading = about
    return Claim(
        item=item,
        statement=statement,
        reading="".join(reading),
        published=published,
        measured=measured,
        low=low,
        high=high,
        verdict=verdict,
        size=size,
        fitted="; ".join(dict.fromkeys(mark for one in evidence for mark in one.fitted)),
        rule=rule,
        difference=difference,
        reasons=tuple(filter(None, reasons)),
        evidence=tuple(evidence),
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
    return one.interval[0] < other.interval[1] and other.interval[0] < one.interval[1]
