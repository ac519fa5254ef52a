"""Claims: a published value, a measured one, and the verdict of the rule that compares them.

Every rule takes the published value (plain numbers) and the measured one (``Measured``, read from
results) as separate arguments. Only the rules make a claim. What several readings of a paper say
of one published statement are several claims, and the statement has one outcome.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import InitVar, dataclass
from itertools import pairwise
from typing import Final

from precedes.errors import InternalError
from precedes.pages.numbers import number
from precedes_papers.measured import Fitted, Measured, Run, measure, ranged, regardless

# An interval with a half-width above this share of the published value would let noise agree.
WIDEST: Final = 0.10
# Sizes that differ by more than this factor are no longer of about the same size.
SIZE_MAX: Final = 2.0
# A value that differs by at most this share of what is published is close to it.
CLOSE: Final = 0.05
NORMAL: Final = 1.96  # of a normal law, 95 %: what is left of Student's quantile with many runs
LEVEL: Final = 0.95  # of all intervals

HOLDS: Final = "holds"
EQUAL: Final = "equal"
IN_BOUNDS: Final = "in bounds"
SAME_TREND: Final = "same trend"
COMPATIBLE: Final = "compatible with one run"
INCONCLUSIVE: Final = "inconclusive"
DIFFERS: Final = "differs"
IRREPRODUCIBLE: Final = "irreproducible"
FINDING: Final = "finding"
# The meanings of the verdicts; the page shows this.
MEANINGS: Final = {
    HOLDS: "the published value lies in the 95 % interval of the difference from it (of the mean "
    "over seeds; widened by the paper's own interval, or by the number of its runs, where it gives "
    "them), and half of that interval is at most "
    f"{WIDEST:.0%} of the value".replace("%", " %"),
    EQUAL: "every run gives exactly the published value",
    IN_BOUNDS: "the paper gives a bound or a range, and the whole interval keeps to it",
    SAME_TREND: "sign or order agree, with intervals that exclude the opposite; where the paper "
    f"gives a size too and it differs by more than {SIZE_MAX:g} times, the verdict says so",
    COMPATIBLE: "published from one run, and single runs vary too much to agree or to differ: more "
    "seeds cannot decide it",
    INCONCLUSIVE: "the interval is too wide to show agreement or difference: more seeds can",
    DIFFERS: "the published value was not met; the reason says by how much, and the verdict "
    f"whether that is close (within {CLOSE:.0%})".replace("%", " %"),
    IRREPRODUCIBLE: "the paper contradicts itself here",
    FINDING: "measured here; nothing is published",
}
VERDICTS: Final = tuple(MEANINGS)
AGREEING: Final = frozenset({HOLDS, EQUAL, IN_BOUNDS, SAME_TREND})

MET: Final = "met in all readings"
PARTLY: Final = "met in some"
UNDECIDED: Final = "undecided"
UNMET: Final = "met in none"
# The outcomes of published statements over the readings that they were judged under.
OUTCOMES: Final = {
    MET: "every reading agrees (holds, equal, in bounds or same trend)",
    PARTLY: "some readings agree and others do not",
    UNDECIDED: "no reading agrees, and at least one is inconclusive or compatible with one run",
    UNMET: "the measured value differs in every reading",
    IRREPRODUCIBLE: MEANINGS[IRREPRODUCIBLE],
}

FITTED_HERE: Final = "fitted to this item"
FITTED_ELSEWHERE: Final = "predicted with a parameter fitted elsewhere"
MARKS: Final = {
    FITTED_HERE: "a parameter was chosen to match this published item: agreement shows that such "
    "a choice exists, not that it is the paper's",
    FITTED_ELSEWHERE: "a parameter that the paper leaves open was chosen, or fitted to another "
    "item of it",
}

NO_INTERVAL: Final = "one replication, so there is no interval"
PUBLISHED_INTERVAL: Final = "the paper gives an interval with its value, which counts too"
ONE_RUN: Final = "published for one run: the interval is that of one more"
MEAN_OF_RUNS: Final = "published as the mean of {} runs: the interval is that of another such mean"
TOO_WIDE: Final = "in the interval, but half of that is more than a tenth of the published value"
OVER_THE_BOUND: Final = "the interval reaches over the bound"
BOTH_SIDES: Final = "the interval lies on both sides of zero"
OVERLAP: Final = "the intervals of neighbours overlap"
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


# What a claim is about: a published item, a statement of it (a cell, a point, a sentence), and the
# reading of the paper that was run, if there are several. No two claims of a paper are about the
# same.
About = tuple[str, str] | tuple[str, str, str]  # "Table 1", "packets, 16 nodes", "reading A"


@dataclass(frozen=True)
class Claim:
    """One line of claims.csv; low and high bound what was measured with 95 % confidence.

    A range or an order is text, ``3.3 < 7.4 < 12.9``. None is an empty field: nothing published,
    nothing measured, or, of low and high, a single replication. ``size`` is how many times the
    published value was measured, where only the sign was judged; ``effect`` the difference as a
    share of the published value, of what differs, ``difference`` the same in words and ``reasons``
    why; ``marks`` are the fitted parameters that it depends on. ``evidence`` is what was measured,
    with the runs it comes from.
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
    effect: float | None
    marks: tuple[Fitted, ...]
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
        names = (origin.experiment for one in self.evidence for origin in one.origins)
        return " ".join(dict.fromkeys(names))

    @property
    def agrees(self) -> bool:
        """Return whether the published value was met."""
        return self.verdict in AGREEING

    @property
    def fitted(self) -> str:
        """The fitted parameters in one line."""
        return "; ".join(dict.fromkeys(map(str, self.marks)))

    @property
    def mark(self) -> str:
        """The mark of what depends on fitted parameters."""
        if any(one.is_fitted_to(self.item, self.statement) for one in self.marks):
            return FITTED_HERE
        return FITTED_ELSEWHERE if self.marks else ""

    @property
    def is_close(self) -> bool:
        """Return whether the difference is small."""
        return self.effect is not None and abs(self.effect) <= CLOSE

    @property
    def said(self) -> str:
        """The verdict in full."""
        if self.is_close:
            return f"{self.verdict}, close"
        if self.size is None or 1 / SIZE_MAX <= self.size <= SIZE_MAX:
            return self.verdict
        times = f"{self.size:.2g} times" if self.size > 1 else f"1/{1 / self.size:.2g} of"
        return f"same direction, {times} the size"


def within(
    about: About,
    published: float,
    measured: Measured,
    *,
    runs: int | None = None,
    rounding: float = 0.0,
    span: float | None = None,
    half: float = 0.0,
    reason: str = "",
) -> Claim:
    """``holds`` if the published value lies in the interval of the mean, else ``differs``.

    ``rounding`` is half a unit of the last published place. If the interval is too wide, half of it
    more than a tenth of the published value, it is ``inconclusive`` instead of ``holds``; of a
    small share, ``span`` is the range of the shares that are published with it, and is taken
    instead of the value. ``runs`` is the number of runs that the published value is a mean of:
    then the interval of the difference of two such means is judged. ``half`` is half of the
    interval that is published with the value, which is judged likewise. A single replication has
    no interval; it holds only if it is the published value up to ``rounding``. The reason is for
    one that differs.
    """
    value = _checked(measured)
    bounds = value.interval if runs is None else value.around(runs)
    low, high = bounds or (value.mean, value.mean)
    low = value.mean - math.hypot(value.mean - low, half)
    high = value.mean + math.hypot(high - value.mean, half)
    slack = rounding + SLACK * abs(published)
    widest = WIDEST * abs(published if span is None else span) + slack
    reasons = [PUBLISHED_INTERVAL] if half else []
    if runs is not None:
        reasons.append(ONE_RUN if runs == 1 else MEAN_OF_RUNS.format(runs))
    verdict, by = HOLDS, None
    if not low - slack <= published <= high + slack:
        verdict, by = DIFFERS, published
        reasons.append(reason)
    elif (high - low) / 2 > widest - rounding:
        # With any number of seeds, one more run varies as single runs do.
        verdict = COMPATIBLE if runs == 1 and NORMAL * value.deviation > widest else INCONCLUSIVE
        reasons.append(TOO_WIDE)
    if bounds is None:
        reasons.append(NO_INTERVAL)
    rule = "one_run" if runs == 1 else "within"
    return _claim(rule, about, published, [value], verdict, reasons, by, bounds=bounds)


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
    verdict, reasons, by = IN_BOUNDS, [], None
    if high < least or low > most:
        verdict, by = DIFFERS, least if high < least else most
        reasons.append(reason)
    elif low < least or high > most:
        verdict = INCONCLUSIVE
        reasons.append(OVER_THE_BOUND)
    if measured.interval is None:
        reasons.append(NO_INTERVAL)
    return _claim(rule, about, published, [measured], verdict, reasons, by)


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
    return _claim("equal", about, published, [measured], DIFFERS, [reason], published)


def kept(about: About, runs: Sequence[Run], against: Sequence[str], *, reason: str = "") -> Claim:
    """``equal`` if the audits of all these runs count nothing of what is ``against`` a guarantee.

    The audit reads broadcasts and deliveries alone and shares no code with the protocol; it is in
    the results of experiments with ``trace=True``. A guarantee holds whatever the parameters, so
    the claim has no mark.
    """

    @ranged(0)
    def broken(run: Run) -> float:
        audit = run["audit"]
        if audit is None or not audit["deliveries"]:
            raise InternalError(f"{about}: a run without a trace, or without deliveries")
        return float(sum(audit[name] for name in against))

    return equal(about, 0, regardless(measure(broken, runs)), reason=reason)


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
    reasons, size, by = [], None, None
    if agrees:
        verdict = SAME_TREND
        size = measured.mean / published if is_size else None
    elif low <= 0 <= high and measured.interval is not None:
        verdict = INCONCLUSIVE
        reasons.append(BOTH_SIDES)
    else:
        verdict, by = DIFFERS, published
    if measured.interval is None:
        reasons.append(NO_INTERVAL)
    listed: float | str = published
    if not is_size and published:
        listed = ABOVE if published > 0 else BELOW
    reasons.append(reason)
    return _claim("same_sign", about, listed, [measured], verdict, reasons, by, size=size)


def same_order(
    about: About, published: Sequence[float], measured: Sequence[Measured], *, reason: str = ""
) -> Claim:
    """``same trend`` if each step from a value to the next goes the same way as published.

    Intervals are compared, not means: a step counts if they do not overlap. ``differs`` if one
    goes the other way, ``inconclusive`` if some do overlap. A single replication has no interval,
    and no step is made to it or from it.
    """
    if len(published) != len(measured) or len(published) < 2:
        raise InternalError(f"{about}: an order needs two values or more, published and measured")
    steps = [_step(*pair) for pair in pairwise(map(_checked, measured))]
    wanted = _steps(published)
    verdict, reasons, by = SAME_TREND, [], None
    if any(step and step == -other for step, other in zip(steps, wanted, strict=True)):
        verdict, by = DIFFERS, math.nan
    elif steps != wanted or 0 in steps:
        verdict = INCONCLUSIVE
    if 0 in steps:
        alone = any(one.interval is None for one in measured)
        reasons.append(NO_INTERVAL if alone else OVERLAP)
    reasons.append(reason)
    return _claim("same_order", about, _order(published), measured, verdict, reasons, by)


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
    by: float | None = None,
    *,
    bounds: Interval | None = None,
    size: float | None = None,
) -> Claim:
    """The claim; several measured values are an order. ``by`` is what it differs from, if so."""
    measured: float | str | None = None
    effect, difference = None, ""
    if len(evidence) == 1:
        measured, bounds = evidence[0].mean, bounds or evidence[0].interval
    elif evidence:
        measured = _order([one.mean for one in evidence])
    low, high = bounds or (None, None)
    if by is not None and not isinstance(measured, float):
        difference = "differs in order"
    elif by is not None and isinstance(published, str) and published in (ABOVE, BELOW):
        difference = OTHER_WAY
    elif by is not None and isinstance(measured, float):
        effect = (measured - by) / abs(by) if by else None
        share = "" if effect is None else f" ({effect:+.1%})".replace("%", " %")
        difference = f"differs by {'+' if measured >= by else ''}{number(measured - by)}{share}"
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
        effect=effect,
        marks=tuple(dict.fromkeys(mark for one in evidence for mark in one.fitted)),
        rule=rule,
        difference=difference,
        reasons=tuple(filter(None, reasons)),
        evidence=tuple(evidence),
        seal=_SEAL,
    )


def statements(claims: Iterable[Claim]) -> list[list[Claim]]:
    """The published statements, each with its claims by reading; findings publish nothing."""
    groups: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        if claim.verdict != FINDING:
            groups.setdefault((claim.item, claim.statement), []).append(claim)
    return list(groups.values())


def outcome_of(readings: Sequence[Claim]) -> str:
    """The outcome of a statement, from its claims by reading."""
    verdicts = {claim.verdict for claim in readings}
    if verdicts == {IRREPRODUCIBLE}:
        return IRREPRODUCIBLE
    agreeing = sum(claim.agrees for claim in readings)
    if agreeing:
        return MET if agreeing == len(readings) else PARTLY
    return UNDECIDED if verdicts & {INCONCLUSIVE, COMPATIBLE} else UNMET


def settled(claims: Iterable[Claim]) -> list[Claim]:
    """The claims without marks of parameters that do not matter.

    Where all readings of a statement agree with it, or all differ, a parameter that only some of
    them have has decided nothing.
    """
    all_claims = list(claims)
    common: dict[tuple[str, str], set[Fitted]] = {}
    for readings in statements(all_claims):
        is_same = outcome_of(readings) == MET or {one.verdict for one in readings} == {DIFFERS}
        if is_same and len(readings) > 1:
            shared = set.intersection(*(set(claim.marks) for claim in readings))
            common[readings[0].item, readings[0].statement] = shared
    for place, claim in enumerate(all_claims):
        if (kept_marks := common.get((claim.item, claim.statement))) is not None:
            marks = tuple(one for one in claim.marks if one in kept_marks)
            all_claims[place] = dataclasses.replace(claim, marks=marks, seal=_SEAL)
    return all_claims


def expected_false(claims: Iterable[Claim]) -> tuple[int, float]:
    """The values judged by a 95 % interval, and how many of them differ by chance alone."""
    judged = sum(claim.rule in ("within", "one_run") and claim.low is not None for claim in claims)
    return judged, (1 - LEVEL) * judged


def _checked(measured: Measured) -> Measured:
    # The types say so; a module that is not checked by mypy learns it here.
    if not isinstance(measured, Measured):
        raise InternalError(f"measured must come from measure() or pooled(), not {measured!r}")
    return measured


def _steps(values: Sequence[float]) -> list[int]:
    return [(after > before) - (after < before) for before, after in pairwise(values)]


def _order(values: Sequence[float]) -> str:
    text = number(values[0])
    for value, step in zip(values[1:], _steps(values), strict=True):
        text += f" {('=', '<', '>')[step]} {number(value)}"
    return text


def _step(one: Measured, other: Measured) -> int:
    """1 or -1 if the second value is larger or smaller beyond doubt, else 0."""
    if one.interval is None or other.interval is None:
        return 0
    return (other.interval[0] > one.interval[1]) - (other.interval[1] < one.interval[0])
