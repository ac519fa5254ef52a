"""The rules: for each verdict values that must give it, and values that must not."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.errors import InternalError
from precedes.pipeline.sweep import run_experiments
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes_papers import rules
from precedes_papers.measured import Fitted, Measured, measure, pooled, ranged, regardless, select
from precedes_papers.rules import AT_MOST_ONCE, CAUSAL_ORDER, EXACTLY_ONCE, Claim, kept

ABOUT = ("Table 1", "cell")


def of(*values: float) -> Measured:
    """Values as if runs had given them."""
    return measure(lambda run: run["x"], [{"x": value} for value in values])


@pytest.mark.parametrize(
    ("half", "verdict"),
    [
        (0.0, rules.DIFFERS),
        (0.3, rules.DIFFERS),  # half of the measured interval is 0.26: 0.4 together
        (0.5, rules.HOLDS),  # 0.56
        (1.2, rules.INCONCLUSIVE),
    ],
)
def test_print_may_have_an_interval_of_its_own(half, verdict):
    measured = of(9.9, 10.1, 10.05)
    claim = rules.within(ABOUT, published=10.5, measured=measured, half=half)
    assert claim.verdict == verdict
    assert (claim.low, claim.high) == measured.interval


@pytest.mark.parametrize(
    ("published", "measured", "verdict"),
    [
        (10.0, (9.9, 10.1, 10.05), rules.HOLDS),
        (20.0, (9.9, 10.1, 10.05), rules.DIFFERS),
        (10.0, (9.0, 11.0, 10.5), rules.INCONCLUSIVE),
        (20.0, (9.0, 11.0, 10.5), rules.DIFFERS),
        (12.7, (9.0, 11.0, 10.5), rules.INCONCLUSIVE),  # 10.17 + 4.303 * 1.04 / sqrt(3) = 12.75
        (12.8, (9.0, 11.0, 10.5), rules.DIFFERS),
        (0.1, (0.1, 0.1, 0.1), rules.HOLDS),
        (0.1001, (0.1, 0.1, 0.1), rules.DIFFERS),
    ],
)
def test_within(published, measured, verdict):
    claim = rules.within(ABOUT, published=published, measured=of(*measured), reason="because")
    assert claim.verdict == verdict
    assert claim.low <= claim.measured <= claim.high
    assert ("because" in claim.reason) == (verdict == rules.DIFFERS)
    assert claim.reason.startswith("differs by" if verdict == rules.DIFFERS else "")
    assert ("half of that is" in claim.reason) == (verdict == rules.INCONCLUSIVE)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20),
    st.floats(-1e6, 1e6),
    st.sampled_from([None, 1, 30]),
)
def test_nothing_holds_by_noise(values, published, runs):
    """Whatever is measured: what holds has an interval whose half is a tenth of print at most."""
    claim = rules.within(ABOUT, published=published, measured=of(*values), runs=runs)
    half = (claim.high - claim.low) / 2
    if claim.verdict == rules.HOLDS:
        assert half <= 0.1 * abs(published) * (1 + 1e-9)
    if claim.verdict in (rules.INCONCLUSIVE, rules.COMPATIBLE):
        assert half > 0.1 * abs(published)
    outside = published < claim.low or published > claim.high
    slight = 1e-11 * abs(published)
    near = min(abs(published - claim.low), abs(published - claim.high)) <= slight
    assert near or (claim.verdict == rules.DIFFERS) == outside


def test_a_small_share_is_judged_by_the_range_it_is_printed_in():
    measured = of(0.6, 0.7, 0.75)
    assert rules.within(ABOUT, published=0.66, measured=measured).verdict == "inconclusive"
    of_table = rules.within(ABOUT, published=0.66, measured=measured, span=84.59 - 0.66)
    assert of_table.verdict == rules.HOLDS
    wide = rules.within(ABOUT, published=0.66, measured=of(0.0, 9.0), span=84.59 - 0.66)
    assert wide.verdict == rules.INCONCLUSIVE


def test_what_print_took_from_one_run_is_compared_with_one_run():
    """Compared with five runs, one more varies as sqrt(1 + 1/5) and their mean as sqrt(1/5)."""
    measured = of(100.0, 104.0, 100.0, 104.0, 102.0)
    mean = rules.within(ABOUT, published=105.0, measured=measured)
    single = rules.within(ABOUT, published=105.0, measured=measured, runs=1)
    assert (mean.verdict, single.verdict) == (rules.DIFFERS, rules.HOLDS)
    assert (mean.rule, single.rule) == ("within", "one_run")
    assert single.high - single.low == pytest.approx((mean.high - mean.low) * math.sqrt(6))
    assert rules.within(ABOUT, published=110.0, measured=measured, runs=1).verdict == rules.DIFFERS
    assert rules.within(ABOUT, published=5.0, measured=of(5.0), runs=1).low is None


def test_what_is_published_as_a_mean_of_runs_is_compared_with_such_a_mean():
    """A mean of thirty runs varies too: between that of one run and that of any number."""
    measured = of(100.0, 104.0, 100.0, 104.0, 102.0)
    widths = []
    for runs in (1, 30, 10**9, None):
        claim = rules.within(ABOUT, published=102.0, measured=measured, runs=runs)
        widths.append(claim.high - claim.low)
    assert widths[0] == pytest.approx(widths[3] * math.sqrt(6))
    assert widths[1] == pytest.approx(widths[3] * math.sqrt(1 + 5 / 30))
    assert widths[2] == pytest.approx(widths[3], rel=1e-6)


@pytest.mark.parametrize(
    ("values", "runs", "verdict"),
    [
        # Single runs vary by a third: with any number of seeds one of 100 agrees with 60 or 140.
        ((60.0, 100.0, 140.0, 80.0, 120.0), 1, rules.COMPATIBLE),
        ((60.0, 100.0, 140.0, 80.0, 120.0), None, rules.INCONCLUSIVE),
        # They vary by 2 %: it is two seeds that make the interval wide, and more would do.
        ((98.0, 102.0), 1, rules.INCONCLUSIVE),
        ((98.0, 102.0, 100.0, 99.0, 101.0), 1, rules.HOLDS),
        ((200.0, 240.0, 220.0, 210.0), 1, rules.DIFFERS),
        ((104.0,), 1, rules.DIFFERS),  # a single run has no spread to be compatible with
    ],
)
def test_compatible_with_one_run_is_what_more_seeds_cannot_decide(values, runs, verdict):
    claim = rules.within(ABOUT, published=100.0, measured=of(*values), runs=runs)
    assert claim.verdict == verdict
    assert claim.agrees == (verdict == rules.HOLDS)


@pytest.mark.parametrize(
    ("measured", "effect", "said"),
    [
        ((104.0, 104.1), 0.0405, "differs, close"),
        ((96.0, 95.9), -0.0405, "differs, close"),
        ((120.0, 120.1), 0.2005, "differs"),
        ((99.0, 101.0), None, "holds"),
        ((20.0, 180.0), None, "inconclusive"),  # a wide interval is not close to anything
    ],
)
def test_what_differs_has_the_size_of_its_effect(measured, effect, said):
    claim = rules.within(ABOUT, published=100.0, measured=of(*measured), rounding=0.01)
    if said == "holds":
        claim = rules.within(ABOUT, published=100.0, measured=of(99.9, 100.1))
    assert claim.effect == (None if effect is None else pytest.approx(effect))
    assert claim.said == said
    assert claim.is_close == said.endswith("close")
    assert rules.within(ABOUT, published=0.0, measured=of(3.0, 3.0)).effect is None


def test_no_interval_goes_where_the_quantity_cannot_be():
    @ranged(0.0, 1.0)
    def share(run):
        return run["x"]

    runs = [{"x": value} for value in (0.0, 0.0, 0.05, 0.9, 1.0)]
    assert measure(share, runs).interval[0] == 0.0
    assert measure(share, runs).around(1) == (0.0, 1.0)
    assert measure(lambda run: run["x"], runs).interval[0] < 0.0
    with pytest.raises(InternalError, match="lies between"):
        measure(share, [{"x": 1.5}])


def test_differs_says_by_how_much():
    far = rules.within(ABOUT, published=507, measured=of(2437, 2437))
    assert far.reason == "differs by +1930 (+380.7 %)"
    less = rules.within(ABOUT, published=-4, measured=of(-6, -6))
    assert less.reason == "differs by -2 (-50.0 %)"
    assert rules.within(ABOUT, published=0, measured=of(3, 3)).reason == "differs by +3"


def test_one_replication_has_no_interval():
    for published, verdict in ((5.0, rules.HOLDS), (5.04, rules.HOLDS), (5.1, rules.DIFFERS)):
        claim = rules.within(ABOUT, published=published, measured=of(5.0), rounding=0.05)
        assert (claim.verdict, claim.low, claim.high) == (verdict, None, None)
        assert claim.reason.endswith(rules.NO_INTERVAL)
    assert rules.finding(ABOUT, measured=of(5.0)).reason == rules.NO_INTERVAL


def test_at_most():
    for published, verdict in ((0.5, "in bounds"), (0.21, "inconclusive"), (0.1, "differs")):
        claim = rules.at_most(ABOUT, published=published, measured=of(0.2, 0.21, 0.22))
        assert (claim.verdict, claim.rule) == (verdict, "at_most")
    above = rules.at_most(ABOUT, published=0.5, measured=of(0.7, 0.7), reason="why")
    assert above.reason == "differs by +0.2 (+40.0 %); why"
    assert rules.at_most(ABOUT, published=0.5, measured=of(0.2)).verdict == "in bounds"


def test_at_least():
    for published, verdict in ((0.1, "in bounds"), (0.21, "inconclusive"), (0.5, "differs")):
        claim = rules.at_least(ABOUT, published=published, measured=of(0.2, 0.21, 0.22))
        assert (claim.verdict, claim.rule) == (verdict, "at_least")


@pytest.mark.parametrize(
    ("published", "verdict"),
    [
        ((0.1, 0.3), "in bounds"),
        ((0.1, 0.21), "inconclusive"),
        ((0.21, 0.3), "inconclusive"),
        ((0.3, 0.4), "differs"),
        ((0.1, 0.15), "differs"),
    ],
)
def test_in_range(published, verdict):
    claim = rules.in_range(ABOUT, published=published, measured=of(0.2, 0.21, 0.22))
    assert claim.verdict == verdict
    assert claim.published == f"{published[0]} to {published[1]}"


@pytest.mark.parametrize(
    ("published", "measured", "places", "verdict"),
    [
        (507, (507, 507), None, rules.EQUAL),
        (507, (507,), None, rules.EQUAL),
        (507, (507, 508), None, rules.DIFFERS),
        (507, (506.9,), None, rules.DIFFERS),
        (506, (508,), None, rules.DIFFERS),
        (11.2, (11.23,), 1, rules.EQUAL),
        (11.2, (11.23,), None, rules.DIFFERS),
        (11.2, (11.3,), 1, rules.DIFFERS),
        (0, (0,), None, rules.EQUAL),
    ],
)
def test_equal(published, measured, places, verdict):
    claim = rules.equal(ABOUT, published=published, measured=of(*measured), places=places)
    assert claim.verdict == verdict
    assert ("differs by" in claim.reason) == (verdict == rules.DIFFERS)


@pytest.mark.parametrize(
    ("published", "measured", "verdict"),
    [
        (15.0, (3.0, 3.1), rules.SAME_TREND),
        (-15.0, (-3.0, -3.1), rules.SAME_TREND),
        (15.0, (-3.0, -3.1), rules.DIFFERS),
        (15.0, (-3.0, 3.1), rules.INCONCLUSIVE),  # the interval holds 0: no sign to speak of
        (15.0, (-3.0,), rules.DIFFERS),
        (15.0, (0.0,), rules.DIFFERS),
        (0.0, (-3.0, 3.1), rules.INCONCLUSIVE),  # noise around 0 has no sign
        (15.0, (0.0, 0.0), rules.INCONCLUSIVE),  # nothing happened in any run
        (0.0, (3.0, 3.1), rules.DIFFERS),
        (15.0, (3.0,), rules.SAME_TREND),
    ],
)
def test_same_sign(published, measured, verdict):
    claim = rules.same_sign(ABOUT, published=published, measured=of(*measured))
    assert claim.verdict == verdict


@pytest.mark.parametrize(
    ("published", "measured", "said"),
    [
        (15.0, (15.0, 15.1), "same trend"),
        (15.0, (29.0, 29.1), "same trend"),
        (15.0, (8.0, 8.1), "same trend"),
        (15.0, (2.5, 2.5), "same direction, 1/6 of the size"),
        (-15.0, (-2.5, -2.5), "same direction, 1/6 of the size"),
        (15.0, (60.0, 60.0), "same direction, 4 times the size"),
    ],
)
def test_a_verdict_on_the_sign_tells_the_size(published, measured, said):
    claim = rules.same_sign(ABOUT, published=published, measured=of(*measured))
    assert (claim.verdict, claim.said) == ("same trend", said)
    assert claim.size == pytest.approx(of(*measured).mean / published)
    alone = rules.same_sign(ABOUT, published=1, measured=of(60, 60), is_size=False)
    assert (alone.said, alone.size) == ("same trend", None)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        ((2, 4, 8), "same trend"),
        ((2, 8, 4), "differs"),
        ((8, 4, 2), "differs"),
        ((2, 2, 4), "inconclusive"),
        ((2, 2, 2), "inconclusive"),  # three equal quantities are in no order
    ],
)
def test_same_order(measured, verdict):
    values = [of(one, one) for one in measured]
    claim = rules.same_order(ABOUT, published=[3.3, 7.4, 12.9], measured=values, reason="why")
    assert (claim.verdict, claim.published) == (verdict, "3.3 < 7.4 < 12.9")
    assert claim.measured.split()[::2] == [str(one) for one in measured]
    assert "why" in claim.reason
    assert ("differs in order" in claim.reason) == (verdict == "differs")
    assert (claim.low, claim.high) == (None, None)


def test_an_order_of_overlapping_intervals_says_so():
    near = [of(1, 3), of(2, 4)]
    for published in ([1, 2], [2, 1]):
        claim = rules.same_order(ABOUT, published=published, measured=near)
        assert claim.verdict == rules.INCONCLUSIVE
        assert "overlap" in claim.reason
    alone = rules.same_order(ABOUT, published=[1, 2], measured=[of(1), of(2)])
    assert alone.verdict == rules.INCONCLUSIVE
    assert alone.reason == rules.NO_INTERVAL
    one_wide = [of(1, 1.01), of(0, 9), of(5, 5.01)]
    assert rules.same_order(ABOUT, published=[1, 2, 3], measured=one_wide).verdict == (
        rules.INCONCLUSIVE
    )
    other_way = [of(5, 5.01), of(1, 1.01), of(0, 9)]
    assert rules.same_order(ABOUT, published=[1, 2, 3], measured=other_way).verdict == rules.DIFFERS
    apart = [of(1, 1.01), of(2, 2.01)]
    assert rules.same_order(ABOUT, published=[1, 2], measured=apart).reason == ""
    for published, measured in (([1], [of(1)]), ([1, 2], [of(1)])):
        with pytest.raises(InternalError, match="two values or more"):
            rules.same_order(ABOUT, published=published, measured=measured)


@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=9), min_size=2, max_size=5))
def test_no_order_is_agreed_with_by_noise(series):
    """A step that agrees has intervals apart."""
    measured = [of(*values) for values in series]
    claim = rules.same_order(ABOUT, published=range(len(series)), measured=measured)
    if claim.verdict == rules.SAME_TREND:
        for one, other in itertools.pairwise(measured):
            assert one.interval[1] < other.interval[0]


def reading(name, published, *values, statement="cell"):
    """A claim about a statement under a reading."""
    return rules.within(("Table 1", statement, name), published=published, measured=of(*values))


@pytest.mark.parametrize(
    ("readings", "outcome"),
    [
        ([(10.0, 10.0), (9.95, 10.05)], rules.MET),
        ([(10.0, 10.0), (20.0, 20.1)], rules.PARTLY),
        ([(10.0, 10.0), (1.0, 19.0)], rules.PARTLY),
        ([(1.0, 19.0), (20.0, 20.1)], rules.UNDECIDED),
        ([(1.0, 19.0)], rules.UNDECIDED),
        ([(5.0, 5.1), (20.0, 20.1)], rules.UNMET),
    ],
)
def test_a_statement_has_one_outcome_over_its_readings(readings, outcome):
    claims = [reading(f"reading {n}", 10.0, *values) for n, values in enumerate(readings)]
    found = rules.finding(("Table 1", "cell, found"), measured=of(1.0))
    other = reading("", 10.0, 10.0, 10.0, statement="another cell")
    assert rules.statements([*claims, found, other]) == [claims, [other]]
    assert rules.outcome_of(claims) == outcome
    contradicts = rules.irreproducible(ABOUT, published=9.0, reason="Table 3")
    assert rules.outcome_of([contradicts]) == rules.IRREPRODUCIBLE


def test_how_many_differ_by_chance():
    """A bound is judged by a whole interval, and a single run has none."""
    claims = [reading(f"{n}", 10.0, 9.0, 11.0) for n in range(40)]
    claims += [reading("alone", 10.0, 10.0), rules.at_most(ABOUT, 5.0, of(1.0, 2.0))]
    assert rules.expected_false(claims) == (40, pytest.approx(2.0))


WINDOW = Fitted("workload", "window:500", "Table 1")
SPAN = Fitted("span", 5, "Section 2", items=(("Section 2", "delay"),))


def fitted(*marks):
    """Two runs of a value of 10 that depend on these parameters."""
    runs = [{"x": value, "fitted": list(marks), "seed": 1} for value in (10.0, 10.1)]
    return measure(lambda run: run["x"], runs)


def test_what_is_fitted_has_one_of_two_marks():
    claims = {
        (item, statement): rules.within((item, statement), published=10.0, measured=fitted(mark))
        for mark in (WINDOW, SPAN)
        for item, statement in (("Table 1", "cell"), ("Section 2", "delay in s"))
    }
    here = rules.within(("Table 1", "cell"), published=10.0, measured=fitted(WINDOW))
    assert (here.mark, here.fitted) == (rules.FITTED_HERE, "workload window:500, by Table 1")
    elsewhere = rules.within(("Table 2", "cell"), published=10.0, measured=fitted(WINDOW))
    assert elsewhere.mark == rules.FITTED_ELSEWHERE
    assert claims["Section 2", "delay in s"].mark == rules.FITTED_HERE
    loss = rules.within(("Section 2", "loss"), published=10.0, measured=fitted(SPAN))
    assert loss.mark == rules.FITTED_ELSEWHERE
    both = rules.within(("Section 2", "loss"), published=10.0, measured=fitted(SPAN, WINDOW))
    assert both.fitted == "span 5, by Section 2; workload window:500, by Table 1"
    assert rules.within(ABOUT, published=10.0, measured=regardless(fitted(SPAN))).mark == ""


@pytest.mark.parametrize(
    ("second", "kept_marks"),
    [
        ((10.0, 10.1), [(SPAN,), (SPAN,)]),  # both agree: what only one has does not matter
        ((30.0, 30.1), [(SPAN, WINDOW), (SPAN,)]),  # the parameter decides
        ((1.0, 19.0), [(SPAN, WINDOW), (SPAN,)]),  # nobody knows yet
    ],
)
def test_a_parameter_that_decides_nothing_leaves_no_mark(second, kept_marks):
    other = [{"x": value, "fitted": [SPAN], "seed": 1} for value in second]
    claims = [
        rules.within((*ABOUT, "A"), published=10.05, measured=fitted(SPAN, WINDOW)),
        rules.within((*ABOUT, "B"), published=10.05, measured=measure(lambda r: r["x"], other)),
    ]
    assert [claim.marks for claim in rules.settled(claims)] == kept_marks
    (alone,) = rules.settled(claims[:1])
    assert alone.marks == (SPAN, WINDOW)
    assert [claim.verdict for claim in rules.settled(claims)] == [one.verdict for one in claims]


def test_a_guarantee_has_no_mark():
    counts = dict.fromkeys({*CAUSAL_ORDER, *EXACTLY_ONCE}, 0)
    runs = [{"audit": {"deliveries": 9, **counts}, "fitted": [WINDOW], "seed": 1}]
    assert kept(ABOUT, runs, CAUSAL_ORDER).mark == ""


def test_irreproducible_needs_a_reason():
    claim = rules.irreproducible(ABOUT, published=9.0, measured=of(8.0, 8.2), reason="Table 3")
    assert (claim.verdict, claim.reason) == (rules.IRREPRODUCIBLE, "Table 3")
    assert rules.irreproducible(ABOUT, published=9.0, reason="Table 3").measured is None
    with pytest.raises(InternalError, match="needs a reason"):
        rules.irreproducible(ABOUT, published=9.0, reason=" ")


def test_a_finding_publishes_nothing():
    claim = rules.finding(ABOUT, measured=of(1.0, 2.0))
    assert (claim.verdict, claim.published, claim.measured) == (rules.FINDING, None, 1.5)


def test_only_the_rules_and_results_make_claims_and_measurements():
    with pytest.raises(InternalError, match="made by one of the rules"):
        Claim(*ABOUT, "", 1, 1, None, None, "holds", None, None, (), "", "", (), (), seal=None)
    with pytest.raises(InternalError, match="from results"):
        Measured((1.0,), seal=None)
    with pytest.raises(InternalError, match="must come from"):
        rules.within(ABOUT, published=507, measured=507)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, "7", True])
def test_a_measured_value_is_a_finite_number(value):
    with pytest.raises(InternalError, match="finite number"):
        of(1.0, value)


def test_reading_runs():
    runs = [{"x": 1, "scenario": {"rate": 5.0, "parameters": {"entries": n}}} for n in (7, 8, 7)]
    assert select(runs, rate=5.0, entries=7) == [runs[0], runs[2]]
    with pytest.raises(InternalError, match="no run of 3 has"):
        select(runs, entries=9)
    assert measure(lambda one, other: one["x"] - other["x"], runs, runs).values == (0, 0, 0)
    with pytest.raises(InternalError, match="equally many"):
        measure(lambda one, other: 0.0, runs, runs[1:])
    with pytest.raises(InternalError, match="equally many"):
        measure(lambda run: 0.0, [])
    together = pooled(lambda found: sum(run["x"] for run in found), runs)
    assert (together.values, together.interval) == ((3.0,), None)


def test_an_interval_of_many_replications():
    """32 values have 31 degrees of freedom: the quantile is 2.0395, not that of a normal law."""
    low, high = of(*([-1.0, 1.0] * 16)).interval
    assert high == -low == pytest.approx(2.03951 * math.sqrt(32 / 31) / math.sqrt(32), rel=1e-5)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=40), st.integers(-1000, 1000))
def test_the_interval_moves_with_the_values(values, shift):
    """Adding a number to every replication adds it to the mean and to both bounds."""
    low, high = of(*values).interval
    moved = of(*(value + shift for value in values))
    assert moved.interval == pytest.approx((low + shift, high + shift), abs=1e-6)
    assert low <= of(*values).mean <= high


@pytest.mark.gate
def test_the_audit_of_traced_runs_judges_order(tmp_path):
    """Messages overtake one another, which one of the two does not mind."""
    base = Scenario(protocol="vector", nodes=8, messages=200, rate=200.0, delay="exponential:50")
    experiments = [
        Experiment(protocol, (base.replace(protocol=protocol),), trace=True)
        for protocol in ("vector", "unordered")
    ]
    results = run_experiments(experiments, tmp_path)
    assert kept(ABOUT, results["vector"], CAUSAL_ORDER).verdict == rules.EQUAL
    broken = kept(ABOUT, results["unordered"], CAUSAL_ORDER)
    assert broken.verdict == rules.DIFFERS
    assert broken.measured > 0


@pytest.mark.parametrize("against", [CAUSAL_ORDER, AT_MOST_ONCE, EXACTLY_ONCE])
def test_one_of_anything_against_it_in_one_run_breaks_it(against):
    names = {*CAUSAL_ORDER, *EXACTLY_ONCE}
    for broken in (None, *sorted(names)):
        counts = {name: int(name == broken) for name in names}
        fine = {"audit": {"deliveries": 9, **dict.fromkeys(names, 0)}}
        found = kept(ABOUT, [fine, {"audit": {"deliveries": 9, **counts}}], against)
        assert found.verdict == (rules.DIFFERS if broken in against else rules.EQUAL)


@pytest.mark.parametrize("audit", [None, {"deliveries": 0, **dict.fromkeys(EXACTLY_ONCE, 0)}])
def test_nothing_is_said_of_runs_that_nobody_audited(audit):
    with pytest.raises(InternalError, match="without a trace, or without deliveries"):
        kept(ABOUT, [{"audit": audit}], EXACTLY_ONCE)
