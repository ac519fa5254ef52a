"""The rule that ranks, against a brute force that shares no code with it; and its sentences."""

import itertools
import math
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.comparison import tables
from precedes.comparison.ranking import ranked, recommend
from precedes.comparison.rows import Crash, Errors, percent
from precedes.comparison.tables import _interval
from tests.support.rows import row

LEVELS = st.sampled_from([10.0, 20.0, 20.001, 40.0, 79.0])
ROWS = st.lists(
    st.builds(
        dict,
        size=LEVELS,
        packets=st.sampled_from([0.5, 1.0, 2.0]),
        latency=LEVELS,
        guarantee=st.sampled_from(["causal", "probable", "none"]),
        violations=st.sampled_from([0, 0, 3, 400]),
        lost=st.sampled_from([0, 0, 0, 7]),
    ),
    min_size=1,
    max_size=7,
)
ALLOWED = st.sampled_from([None, 1e-5, 1e-2])


def make(drawn):
    return [row(f"p{number}", **values) for number, values in enumerate(drawn)]


def is_good(one, error):
    """The first point of the rule, said again."""
    if one.lost > 0:
        return False
    if one.guarantee == "causal":
        return one.errors.violations == 0
    return one.guarantee == "probable" and error is not None and one.errors.high <= error


def beats(one, other, error):
    """Return whether the rule puts one row before another, by these two alone."""
    good, bad = is_good(one, error), is_good(other, error)
    if good != bad:
        return good

    def product(it):
        found = it.bytes_per_delivery * it.packets_per_delivery * it.latency_p99_ms
        digits = 2 - math.floor(math.log10(found))
        return round(found * 10.0**digits) / 10.0**digits

    keys = [
        (
            product(it),
            it.guarantee != "causal",
            it.bytes_per_delivery,
            it.latency_p99_ms,
            it.packets_per_delivery,
            it.label,
        )
        for it in (one, other)
    ]
    if not math.isclose(keys[0][0], keys[1][0]):
        return keys[0][0] < keys[1][0]
    return keys[0][1:] < keys[1][1:]


@given(ROWS, ALLOWED)
def test_the_first_is_beaten_by_nobody(drawn, error):
    rows = make(drawn)
    order = ranked(rows, error=error)
    assert sorted(one.label for one, _ in order) == sorted(one.label for one in rows)
    found = recommend(order)
    good = [one for one in rows if is_good(one, error)]
    if not good:
        assert found.label is None
        assert all(place.rank is None for _, place in order)
        return
    first = order[0][0]
    assert found.label == first.label
    assert all(beats(first, other, error) for other in rows if other is not first)
    ranks = [place.rank for _, place in order if place.rank is not None]
    assert ranks == list(range(1, len(good) + 1))
    # The order of all that serve is that of pairs.
    for (one, _), (other, _) in itertools.pairwise(order[: len(good)]):
        assert beats(one, other, error)


@given(ROWS, ALLOWED, st.randoms())
def test_the_order_of_rows_does_not_matter(drawn, error, random):
    rows = make(drawn)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert ranked(rows, error=error) == ranked(shuffled, error=error)


@given(ROWS, ALLOWED)
def test_the_front_is_what_nobody_dominates(drawn, error):
    order = ranked(make(drawn), error=error)
    serving = [one for one, place in order if place.rank is not None]

    def costs_of(it):
        costs = (it.bytes_per_delivery, it.packets_per_delivery, it.latency_p99_ms)
        return tuple(round(cost, 1) for cost in costs)  # of two digits before the point: three

    for one, place in order:
        costs = costs_of(one)
        dominated = any(
            all(a <= b for a, b in zip(theirs, costs, strict=True)) and theirs != costs
            for theirs in map(costs_of, serving)
        )
        assert place.front == (one in serving and not dominated)


def test_noise_puts_nobody_on_the_front():
    order = ranked([row("a", latency=146.49), row("b", size=200, latency=146.48)], error=None)
    assert [place.front for _, place in order] == [True, False]


def test_the_sentence_has_the_numbers_of_the_rows():
    first = row(
        "one",
        size=258.3,
        latency=134.4,
        crash=Crash(lost=71, due=1000, violations=0),
        exponents={"bytes_per_delivery": 0.83},
    )
    second = row("two", size=478, latency=134.6, exponents={"bytes_per_delivery": 0.01})
    wrong = row("wrong", size=700, latency=134.4, crash=Crash(lost=0, due=1000, violations=5))
    third = row("three", size=800, latency=90.0, crash=Crash(lost=3, due=1000, violations=0))
    order = ranked([second, wrong, third, first], error=None)
    found = recommend(order)
    assert found.sentence == (
        "one: exact order (0 of 1,000,000 deliveries out of order), 258 bytes and 1.00 packets a "
        "delivery, p99 latency 134.4 ms, 0.54x the bytes of two; two if nodes crash (none of the "
        "survivors' deliveries lost, 71 of one); two if a message must not grow with the group "
        "(bytes as N^0.01, not N^0.83)"
    )
    assert [(one.label, one.need) for one in found.alternatives] == [
        ("two", "nodes crash"),
        ("two", "a message must not grow with the group"),
        ("three", "latency counts most"),
    ]
    assert [place.why for _, place in order] == [
        "the first by the rule",
        "1.85x the bytes of one",
        "3.1x the bytes and 0.67x the p99 latency of one",
        "2.71x the bytes of one",
    ]


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"deliveries": 0}, None, "nothing was delivered"),
        ({"lost": 250_000}, None, "20 % of deliveries are missing"),
        ({"guarantee": "none", "violations": 5}, 0.5, "it promises no order: 5 of 1,000,000"),
        ({"violations": 5}, 0.5, "5 of 1,000,000 deliveries are out of order, though"),
        ({"guarantee": "probable"}, None, "with high probability alone"),
        ({"guarantee": "probable", "violations": 9}, 1e-5, "up to 0.0018 % is more than 0.0010 %"),
    ],
)
def test_why_a_row_does_not_serve(changes, error, why):
    order = ranked([row("a", **changes)], error=error)
    assert why in order[0][1].why
    found = recommend(order)
    assert found.label is None
    assert re.match(r"none serves this load; nearest: a \(", found.sentence)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0"),
        (1.0, "100 %"),
        (0.118, "12 %"),
        (0.0996, "10.0 %"),
        (0.0059, "0.59 %"),
        (2.7e-5, "0.0027 %"),
        (3.8e-6, "0.00038 %"),
    ],
)
def test_percent(share, text):
    assert percent(share) == text


def test_an_interval_is_no_point():
    seen = Errors("violated", 9, 9, 99, 0.1184, 0.1179, 0.1191)
    shown = _interval(seen)
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == "11.8 % to 11.9 %"


def test_cpu_time_is_shown_only_if_all_runs_were_compiled():
    """Interpreted, a run takes hundreds of times as long."""

    def titles(*found):
        return {one.title for one in tables.shown(SimpleNamespace(rows=found))}

    assert tables.CPU in titles(row("a"), row("b"))
    assert tables.CPU not in titles(*(row(name, cpu_us_per_delivery=None) for name in "ab"))
