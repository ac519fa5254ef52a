"""The claims about Wilhelm et al. 2023, on results made by hand and on a small run."""

import copy
import functools
import math

import pytest

from precedes.sim import simulate
from precedes_papers.p002 import experiments, metrics
from precedes_papers.p002.experiments import LOADS, SIZES, TARGETS
from precedes_papers.p002.items import claims
from precedes_papers.rules import COMPATIBLE, DIFFERS, EQUAL, IN_BOUNDS, SAME_TREND
from tests.support.synthetic import results as made_up


@functools.cache
def drawn():
    """Results of all experiments, drawn; some are replaced in each test."""
    return made_up(experiments.experiments("quick"), seed=1)


def judged(**replaced):
    """Claims by item and key; the runs of some experiments are the given ones."""
    results = {**drawn(), **{name.replace("_", "-"): runs for name, runs in replaced.items()}}
    return {(claim.item, claim.key): claim for claim in claims(results)}


def sized(share):
    """Runs of Figure 5 in which so large a share is out of order: of load and entries."""
    runs = []
    for scenario in experiments.size_experiment("quick").scenarios:
        wrong = round(share(scenario.rate, scenario.parameters["entries"]) * 10**9)
        runs.append(
            {
                "scenario": {"rate": scenario.rate, "parameters": scenario.parameters},
                "deliveries": 10**9,
                "violations": {"deliveries": wrong, "messages": wrong},
            }
        )
    return runs


def unnoticed(load, entries):
    """The formula of section II with two entries a process and delays of 0.1 s."""
    hit = 1 - math.exp(0.2 * load * math.log1p(-1 / entries))
    return hit * hit


def test_the_least_clock_is_where_shares_meet_the_target():
    """Something is missing in one of a hundred deliveries; beyond the sizes too."""
    runs = sized(lambda load, entries: 0.01 * unnoticed(load, entries))
    for load in LOADS:
        some = [same[0] for same in metrics.by_size(runs, load)]
        for target in TARGETS:
            least = metrics.least_entries(target)(*some)
            assert 0.01 * unnoticed(load, least) == pytest.approx(target, rel=0.02)


@pytest.mark.parametrize(("odd", "same"), [(None, True), (32, True), (512, False)])
def test_the_least_clock_is_read_from_sizes_around_it(odd, same):
    """One size errs nine times as often as the others let expect: does it have a say?"""
    runs = sized(lambda load, size: 0.01 * unnoticed(load, size) * (9 if size == odd else 1))
    least = metrics.least_entries(1e-6)(*(one[0] for one in metrics.by_size(runs, 100.0)))
    assert (0.01 * unnoticed(100, least) == pytest.approx(1e-6, rel=0.01)) == same


def test_the_least_clock_without_errors():
    """Sizes without an error count; without any the least size is enough."""
    runs = sized(lambda load, entries: 1e-3 if entries == 16 else 0)
    some = [same[0] for same in metrics.by_size(runs, 50.0)]
    assert metrics.least_entries(1e-4)(*some) < 55 < metrics.least_entries(1e-4)(*some[:1])
    none = [same[0] for same in metrics.by_size(sized(lambda load, entries: 0), 50.0)]
    assert metrics.least_entries(1e-6)(*none) == SIZES[50.0][0]


@pytest.mark.parametrize(
    ("power", "verdict"), [(1.5, IN_BOUNDS), (1.1, IN_BOUNDS), (0.9, DIFFERS), (0.5, DIFFERS)]
)
def test_growth_beyond_linear_is_judged_by_the_least_clocks(power, verdict):
    """Entries grow with this power of the load: by how often something is missing."""

    def share(load, entries):
        return 0.002 * (load / 50) ** (2 * power - 2) * unnoticed(load, entries)

    found = judged(figure_5=sized(share))
    for target in TARGETS[2:]:
        for load in LOADS[1:]:
            key = f"growth of the least clock at {target:g}, to {load:g}/s"
            assert found["Figure 5", key].verdict == verdict
    for load in LOADS:
        claim = found["Figure 5", f"least entries by accuracy at {load:g}/s"]
        assert claim.verdict == SAME_TREND


def over_time(name, *, load, entries, violations, wrong=100):
    """Runs of an experiment whose series are given."""
    runs = copy.deepcopy([dict(run) for run in drawn()[name]])
    for n, run in enumerate(runs):
        run["series"] = {
            "broadcasts": [10.0 * one for one in load],
            "entries": [float(one) for one in entries],
            "violations": [float(one) for one in violations],
        }
        run["violations"] = {"messages": wrong + n, "deliveries": 10 * wrong + n}
    return runs


# Three peaks in 300 s.
RATES = [20, 20, 30, 150, 160, 30, 20, 20, 20, 150, 20, 20, 20, 20, 30] * 2
RATES[24] = 20
SIZES_THEN = [3 * rate for rate in RATES]


def test_clocks_and_errors_that_follow_the_peaks():
    found = judged(
        random=over_time(
            "random", load=RATES, entries=SIZES_THEN, violations=[one > 100 for one in RATES]
        ),
        random_fixed=over_time(
            "random-fixed", load=RATES, entries=SIZES_THEN, violations=[1] * 30, wrong=700
        ),
    )
    text = "Section V-B2"
    for key, verdict in {
        ("Figure 9", "clocks adapt to the load: correlation, random load"): SAME_TREND,
        ("Figure 9", "share of the time below the mean size, small most of it"): IN_BOUNDS,
        (text, "share of errors at the peaks, dcs, random load"): IN_BOUNDS,
        (text, "errors less load at peaks, dcs, random load"): SAME_TREND,
        # As many errors at any time: a fifth of them at the peaks, fewer than of the broadcasts.
        (text, "share of errors at the peaks, fixed, random load"): DIFFERS,
        (text, "errors less load at peaks, fixed, random load"): DIFFERS,
        (text, "out of order, fixed less dcs, messages, random load"): SAME_TREND,
    }.items():
        assert found[key].verdict == verdict, key
    times = found[text, "times fewer out of order, messages, random load"]
    assert times.published == 6
    assert times.measured == pytest.approx(7, rel=0.02)


def test_clocks_that_do_not_follow_differ():
    flat = [100 - one / 10 for one in RATES]
    found = judged(
        random=over_time("random", load=[50.0] * 15 + RATES[15:], entries=flat, violations=[])
    )
    claim = found["Figure 9", "clocks adapt to the load: correlation, random load"]
    assert claim.verdict != SAME_TREND


def shifted(*, before, after, moved, end):
    """Runs of Figure 10 with these numbers of errors in 10 s."""
    series = [before] * 5 + [after] * 2 + [moved] * 2 + [end] * 4
    runs = copy.deepcopy([dict(run) for run in drawn()["balanced"]])  # looks at 70 and 90 s
    for n, run in enumerate(runs):
        run["series"] = {"violations": [float(one + n) for one in series]}
    return runs


def test_figure_10_tells_its_three_changes():
    keys = [
        f"change {at}, errors per second, looks at 70 and 90 s"
        for at in ("as senders shift", "at the first look", "at the second look")
    ]
    found = judged(balanced=shifted(before=10, after=90, moved=40, end=20))
    assert [found["Figure 10", key].verdict for key in keys] == [SAME_TREND] * 3
    found = judged(balanced=shifted(before=90, after=10, moved=40, end=80))
    assert [found["Figure 10", key].verdict for key in keys] == [DIFFERS] * 3


def test_rounds_take_three_messages_for_each_process():
    runs = copy.deepcopy([dict(run) for run in drawn()["rounds"]])
    for run in runs:
        for kind in metrics.ROUNDS:
            run["extra"] |= {f"{kind}_rounds": 2, f"{kind}_packets": 6 * (run["nodes"] - 1)}
    item = "Rounds", "messages of a remove round for each other process, 500 processes"
    assert judged(rounds=runs)[item].verdict == EQUAL
    for run in runs:
        run["extra"]["remove_packets"] += 1
    assert judged(rounds=runs)[item].verdict == DIFFERS


def test_a_message_that_is_lost_breaks_the_promise():
    runs = copy.deepcopy([dict(run) for run in drawn()["guarantees"]])
    for run in runs:
        run["audit"] = dict.fromkeys(run["audit"], 0) | {"deliveries": 100}
    key = "Theorem 3", "everything is delivered once, components of 50"
    assert judged(guarantees=runs)[key].verdict == EQUAL
    runs[0]["audit"]["undelivered_at_end"] = 1
    assert judged(guarantees=runs)[key].verdict == DIFFERS


@pytest.mark.usefixtures("engine")
def test_a_small_group_under_two_bells():
    """Readers of a run: the load is that of the workload, and the clock follows it."""
    load = experiments.over_time("two-bells", 1).replace(nodes=12)
    dcs = simulate(load).as_dict()
    assert sum(dcs["series"]["broadcasts"]) == dcs["broadcasts"]
    assert metrics.per_second("broadcasts", 90, 110)(dcs) == pytest.approx(197, rel=0.1)
    assert metrics.follows(dcs) > 0.5
    assert dcs["lost"] == dcs["duplicates"] == 0
    few = {"entries": 20}
    fixed = simulate(experiments.fixed("two-bells", 1).replace(nodes=12, parameters=few)).as_dict()
    assert fixed["broadcasts"] == dcs["broadcasts"], "both meet the same load"
    assert metrics.errors_at_peaks(fixed, dcs) > 0.5


@pytest.mark.parametrize(("wrong", "verdict"), [(90, SAME_TREND), (20, DIFFERS)])
def test_a_larger_clock_that_errs_less_often_differs(wrong, verdict):
    """Less memory is a gain only if the larger clock still has more errors."""
    load, entries = RATES[:20], SIZES_THEN[:20]
    series = {"load": load, "entries": entries, "violations": [1] * 20}
    name = experiments.LARGER
    found = judged(
        bell=over_time("bell", **series, wrong=50),
        **{name: over_time(name, **series, wrong=wrong)},
    )
    claims_of = [claim for (item, _), claim in found.items() if item == "Section VII"]
    assert [claim.verdict for claim in claims_of] == [verdict] * 2


def test_few_seeds_decide_nothing_about_counts_of_one_run():
    """The paper has one run of each load: two runs that differ by a half say little about it."""
    runs = over_time(
        "bell", load=RATES[:20], entries=SIZES_THEN[:20], violations=[1] * 20, wrong=50
    )
    runs[1]["violations"] = {"messages": 75, "deliveries": 900}
    claim = judged(bell=runs)["Section V-B1", "out of order, dcs, messages, one bell"]
    assert claim.verdict == COMPATIBLE
    assert claim.rule == "one_run"
