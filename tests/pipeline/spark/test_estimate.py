"""How far work is, as a function of what was told and when."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.pipeline.spark.estimate import BEGUN_MAX, Estimate, Piece


def pieces(*costs_s, kind="a"):
    return [Piece((kind, number), kind, cost_s) for number, cost_s in enumerate(costs_s)]


def test_shares_are_of_costs_and_begun_work_counts():
    estimate = Estimate(pieces(30, 10))
    assert estimate.share(0) == 0
    estimate.begin(("a", 0), 100)
    assert estimate.share(100) == 0
    assert estimate.share(115) == pytest.approx(15 / 40)
    assert estimate.share(1000) == pytest.approx(BEGUN_MAX * 30 / 40)
    estimate.finish(("a", 0), taken_s=30)
    assert estimate.share(1000) == pytest.approx(30 / 40)
    estimate.finish(("a", 1), taken_s=10)
    assert estimate.share(1001) == 1


def test_what_finished_pieces_took_corrects_the_guess_for_their_kind():
    """Pieces of a kind take twice what was guessed, those of another a tenth."""
    estimate = Estimate([*pieces(10, 10), *pieces(10, 10, kind="b")])
    estimate.finish(("a", 0), taken_s=20)
    assert estimate.share(0) == pytest.approx(20 / 80)  # so far the machine is slow
    estimate.finish(("b", 0), taken_s=1)
    assert estimate.share(0) == pytest.approx(21 / 42)
    estimate.finish(("a", 1))  # not measured
    assert estimate.share(0) == pytest.approx(41 / 42)


def test_a_piece_that_lasts_too_long_speaks_for_its_kind():
    """The others of its kind count as much more; without that, half of the work would be done."""
    estimate = Estimate([*pieces(10, 10), *pieces(10, 10, kind="b")])
    estimate.begin(("b", 0), 0)
    estimate.begin(("b", 1), 0)
    estimate.finish(("a", 0), taken_s=10)
    told = estimate.share(90)
    assert told == pytest.approx((10 + 2 * 90) / (20 + 2 * 100))
    estimate.finish(("b", 0), taken_s=90)
    assert estimate.share(90) == pytest.approx((10 + 90 + 0.9 * 90) / (20 + 2 * 90))


def test_it_never_falls_and_is_whole_only_at_the_end():
    estimate = Estimate(pieces(1, 1))
    estimate.begin(("a", 1), 0)
    before = estimate.share(10)
    assert before == pytest.approx(BEGUN_MAX / 2)
    estimate.finish(("a", 0), taken_s=1e-9)  # so the other one should have ended long ago
    assert before <= estimate.share(11) < 1
    estimate.finish("none")
    estimate.finish(("a", 1))
    estimate.finish(("a", 1))
    assert estimate.share(12) == 1
    assert Estimate([]).share(0) == 1


def simulated(costs_s, guesses_s, cores, start_s):
    """Shares that are told every second of work on some cores, and how much was really done."""
    estimate = Estimate([Piece(number, 0, guess) for number, guess in enumerate(guesses_s)])
    order = sorted(range(len(costs_s)), key=lambda number: -guesses_s[number])
    free_s = [start_s] * cores
    spans = {}
    for number in order:
        core = free_s.index(min(free_s))
        spans[number] = (free_s[core], free_s[core] + costs_s[number])
        free_s[core] += costs_s[number]
    told = []
    for now_s in range(int(max(free_s)) + 2):
        done_s = 0
        for number, (begin_s, end_s) in spans.items():
            done_s += min(max(now_s - begin_s, 0), costs_s[number])
            if begin_s <= now_s:
                estimate.begin(number, now_s)
            if end_s <= now_s:
                estimate.finish(number, taken_s=costs_s[number])
        told.append((estimate.share(now_s), done_s / sum(costs_s)))
    return told


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.3, 1.0, 4.0, 20.0]))
def test_a_constant_error_of_the_guess_is_soon_made_good(seed, wrong):
    """Costs of 5 to 40 s on two cores after half a minute's start; the guess is off by a factor."""
    draw = random.Random(seed)
    costs_s = [draw.uniform(5, 40) for _ in range(30)]
    told = simulated(costs_s, [cost / wrong for cost in costs_s], cores=2, start_s=30)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1
    for share, true in told:
        if 0.25 < true < 1:
            assert abs(share - true) < 0.12, (share, true)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e6), st.booleans()), max_size=30))
def test_whatever_is_told(steps):
    """Clocks that stand still, pieces that cost nothing, or that are told twice."""
    estimate = Estimate([Piece(number, number % 2, float(number)) for number in range(5)])
    before = estimate.share(0)
    for number, value, finishes in steps:
        if finishes:
            estimate.finish(number, taken_s=value)
        else:
            estimate.begin(number, value)
        share = estimate.share(value)
        assert before <= share <= 1
        assert (share == 1) == (not estimate.left)
        before = share
