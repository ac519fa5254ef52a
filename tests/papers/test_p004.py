"""Wilhelm et al. 2020 against another implementation of the radio, and what its claims judge."""

import random
import statistics

import pytest

from precedes.audit import audit
from precedes.pipeline.execute import counts_and_findings
from precedes.sim import simulate
from precedes.trace import read_trace
from precedes_papers.measured import marked, select
from precedes_papers.p004 import items
from precedes_papers.p004.experiments import (
    FITTED,
    HIGH,
    LOW,
    RADIOS,
    REPEATS,
    TCPS,
    WALKING,
    experiments,
    scenario,
)
from precedes_papers.p004.items import claims
from precedes_papers.p004.metrics import delay_s, extra, growth, peak, recovery_s
from precedes_papers.shown import Claims, Table
from tests.support.synthetic import results as made_up

ALOHA, SENSE, RETRIES = RADIOS.values()
# Experiments of what does not hang on the radio, or of readings that are judged on one.
ONE_RADIO = ("size", "spacing", "repeats", "gone", "coverage", "lives")
# What an independent implementation of protocol and radio gives, as means over its placements.
MODEL = {
    LOW: {"delay_s": 0.13, "early_mean": 0.22, "messages_per_delivery": 0.46},
    HIGH: {"delay_s": 0.32, "early_mean": 6.3, "stored_mean": 44.0, "sent_per_s": 645.0},
}
SEEDS = range(1, 13)  # placements differ much
TOLERANCE = 0.2


def runs_of(rate, seeds, *, duration_s=30.0, **parameters):
    base = scenario("mobile", rate, duration_s, **ALOHA, **parameters).replace(oracle=True)
    found = [simulate(base.replace(seed=seed)).as_dict() for seed in seeds]
    for run in found:
        assert run["complete"]
        assert run["lost"] == run["duplicates"] == run["violations"]["deliveries"] == 0
    return found


def mean_of(runs, name):
    read = delay_s if name == "delay_s" else extra(name)
    return statistics.fmean(map(read, runs))


@pytest.mark.parametrize("rate", [LOW, pytest.param(HIGH, marks=pytest.mark.swarm)])
def test_the_radio_gives_what_the_model_gives(rate):
    runs = runs_of(rate, SEEDS, duration_s=20.0)
    found = {name: mean_of(runs, name) for name in MODEL[rate]}
    print(f"{rate} per s, seeds {SEEDS}: {found}")
    for name, value in MODEL[rate].items():
        assert found[name] == pytest.approx(value, rel=TOLERANCE), name


def test_the_comparison_can_fail():
    """The twin: with independent losses of a tenth the delay is another."""
    base = scenario("mobile", LOW, 30.0, **{**ALOHA, "spacing_m": 400.0}).replace(loss=0.1)
    runs = [simulate(base.replace(seed=seed)).as_dict() for seed in (1, 2)]
    assert mean_of(runs, "delay_s") > 2 * MODEL[LOW]["delay_s"]


def test_walking_costs_little():
    """0.31 s and 0.05 s more than standing, in the other implementation."""
    standing = runs_of(WALKING, range(1, 5), duration_s=20.0)
    walking = runs_of(WALKING, range(1, 5), duration_s=20.0, mobility="waypoint")
    assert sum(run["extra"]["moves"] for run in walking) > 20
    delay = mean_of(walking, "delay_s")
    assert delay == pytest.approx(0.31, rel=TOLERANCE)
    assert 0 < delay - mean_of(standing, "delay_s") < 0.1


def test_faults_fill_the_station_and_pass():
    """The longer a fault the more is stored; seconds later all is as before."""
    (run,) = runs_of(WALKING, [1], duration_s=75.0, mobility="waypoint", fault_station=3)
    assert run["extra"]["faults"] == 2
    before = statistics.fmean(run["series"]["stored_at_fault"][7:14])
    assert peak(run, 1) > peak(run, 0) > before + 2 * WALKING
    assert recovery_s(run, 0) <= 6


def test_tcp_on_a_busy_radio_is_slow_and_at_the_high_load_fails():
    """The headline: an independent implementation has 1.3 s instead of 0.22 s, and a collapse."""

    def runs(protocol, rate):
        base = scenario(protocol, rate, 20.0, drain_s=30.0, **SENSE)
        return [simulate(base.replace(seed=seed)).as_dict() for seed in (1, 2)]

    mobile, flooding = runs("mobile", LOW), runs("flooding", LOW)
    assert mean_of(mobile, "delay_s") < 0.4
    assert mean_of(flooding, "delay_s") > 3 * mean_of(mobile, "delay_s")
    high = runs("flooding", HIGH)
    assert all(growth("stored")(run) > 200 for run in high)
    assert mean_of(high, "delay_s") > 2 * mean_of(flooding, "delay_s")


def test_every_mean_has_three_seeds_or_more():
    for scale in ("quick", "full"):
        by_name = {one.name: one.scenarios for one in experiments(scale)}
        for name in ("static", "load", "walking", "bandwidth"):
            groups = {}
            for one in by_name[name]:
                key = (one.protocol, one.rate, tuple(sorted(one.parameters.items())))
                groups.setdefault(key, []).append(one.seed)
            assert all(len(set(seeds)) >= 3 for seeds in groups.values()), (scale, name)


def test_every_run_is_on_one_of_the_radios():
    for scale in ("quick", "full"):
        for experiment in experiments(scale):
            macs = {one.parameters["mac"] for one in experiment.scenarios}
            assert macs == ({"aloha"} if experiment.name in ONE_RADIO else {"aloha", "csma"})


# What claims judge: results made up, with what is planted in them.


@pytest.fixture
def results():
    return made_up(experiments("quick"), seed=5)


def claim_of(results, item, *words):
    """The one claim of an item whose key has all these words."""
    found = [
        claim
        for claim in claims(results)
        if claim.item.startswith(item) and all(word in claim.key for word in words)
    ]
    assert len(found) == 1, [claim.key for claim in found]
    return found[0]


def set_extra(runs, **values):
    for run in runs:
        for name, value in values.items():
            run["extra"][name] = value + run["seed"] / 1000


def test_everything_is_judged_on_both_radios_and_what_speaks_of_tcp_with_both_tcps(results):
    found = {(claim.item, claim.key) for claim in claims(results)}
    for names in (RADIOS, TCPS):
        for item, key in found:
            for name in names:
                if name in key:
                    assert {(item, key.replace(name, other)) for other in names} <= found, key
    without = {item for item, key in found if not any(radio in key for radio in RADIOS)}
    lives = {"Section IV-E", "Section V-B", "Guarantees"}
    assert without == {"Section V-D", "Bandwidth", "Spacing", "Section V-A, 5.6 per s", *lives}
    spoken = [key for item, key in found if "flooding" in key and item != "Bandwidth"]
    assert all(any(tcp in key for tcp in TCPS) for key in spoken)


@pytest.mark.parametrize(
    ("flooding_ms", "verdict", "said"),
    [(2000, "same trend", "same trend"), (300, "same trend", "1/18 of"), (100, "differs", "")],
)
def test_the_headline_is_judged_by_sign_and_size(results, flooding_ms, verdict, said):
    for protocol, delay_ms in (("mobile", 200), ("flooding", flooding_ms)):
        runs = select(results["static"], protocol=protocol, mac="csma")
        set_extra(runs, delay_ms=delay_ms)
    claim = claim_of(results, "Section V-A, 5.6", "less mobile: delay", "INET", "carrier")
    assert claim.verdict == verdict
    assert said in claim.said


@pytest.mark.parametrize(("step", "verdict"), [(10.0, "same trend"), (-10.0, "differs")])
def test_a_collapse_is_growth(results, step, verdict):
    for run in select(results["load"], protocol="flooding", mac="csma"):
        values = [1000.0 + step * second + run["seed"] for second in range(300)]
        run["series"]["stored"] = values
    words = ("growth of SBuffer", "flooding", "INET", "carrier")
    assert claim_of(results, "Section V-A, 35", *words).verdict == verdict


@pytest.mark.parametrize(
    ("item", "words", "experiment", "name", "good", "bad"),
    [
        ("Section V-B", "discarded, most, ALOHA", "walking", "discarded_max", 150, 250),
        ("Section V-B", "own messages not", "walking", "unacknowledged_mean", 0.2, 0.02),
        ("Section V-B", "own messages not", "walking", "unacknowledged_mean", 0.2, 0.4),
        ("Section V-A, 5.6", "acknowledgements of a host per s, mobile", "static",
         "acks_per_host_per_s", 1.5, 4.0),
        ("Section V-A, 35", "s until the last host has its connection, flooding, INET", "load",
         "connect_ms_max", 80_000, 5000),
    ],
)  # fmt: skip
def test_bounds_hold_and_break(results, item, words, experiment, name, good, bad):
    for value, verdict in ((good, "in bounds"), (bad, "differs")):
        set_extra(select(results[experiment], mac="aloha"), **{name: value})
        assert claim_of(results, item, words, "ALOHA").verdict == verdict


def test_ids_of_a_copy_are_counted(results):
    for more, verdict in ((10, "in bounds"), (900, "differs")):
        runs = select(results["walking"], mac="csma")
        set_extra(runs, copies=1000, copies_skipped_by_more=more)
        words = ("one host of the cell or none", "carrier")
        assert claim_of(results, "Section V-B", *words).verdict == verdict


def test_beyond_the_limit_growth_agrees_and_recovery_differs(results):
    for after, verdict in ((900.0, "same trend"), (30.0, "differs")):
        for run in select(results["limit"], mac="aloha", window=150):
            values = [450.0 + run["seed"]] * 33 + [after] * 60
            run["series"]["stored_at_fault"] = values
        words = ("growth of these", "at most 150", "ALOHA")
        assert claim_of(results, "Section V-C", *words).verdict == verdict


def test_memory_is_linear_in_the_hosts_of_a_cell_or_not(results):
    for bytes_of, verdict in (
        ({10: 100, 20: 200, 40: 400}, "holds"),
        ({10: 100, 20: 200, 40: 800}, "differs"),
    ):
        for run in select(results["size"], stations=1):
            run["extra"]["station_control_bytes_max"] = bytes_of[run["nodes"]]
        assert claim_of(results, "Section V-D", "bytes for 20 more hosts").verdict == verdict


@pytest.mark.parametrize(
    ("count", "words"),
    [
        ("violations", "out of causal order"),
        ("cycles", "out of causal order"),
        ("duplicates", "missing, repeated or of nothing"),
        ("lost", "missing, repeated or of nothing"),
        ("undelivered_at_end", "missing, repeated or of nothing"),
    ],
)
def test_guarantees_are_those_of_the_audit(results, count, words):
    runs = results["traced"]
    for run in [*runs, *results["lives"]]:
        run["audit"] = dict.fromkeys(run["audit"], 0) | {"deliveries": 9}
    judged = [claim for claim in claims(results) if claim.item == "Guarantees"]
    assert {claim.verdict for claim in judged} == {"equal"}
    select(runs, protocol="mobile", mac="aloha")[-1]["audit"][count] = 1
    wrong = [claim for claim in claims(results) if claim.verdict == "differs"]
    (planted,) = [claim for claim in wrong if claim.item == "Guarantees"]
    assert f"{words}, mobile" in planted.key


def test_a_traced_run_with_handoffs_and_faults_keeps_what_is_claimed(tmp_path):
    """As the experiment has it, shorter; planted counts are in the test above."""
    (traced,) = [one for one in experiments("quick") if one.name == "traced"]
    assert traced.trace
    fast = next(one for one in traced.scenarios if one.parameters.get("speed_m_per_s") == 13.8)
    path = tmp_path / "run.parquet"
    result = simulate(fast.replace(duration_s=20.0), trace=path)
    assert result.extra["handoffs"] > 50
    assert result.extra["faults"] == 1
    (history,) = read_trace(path)
    counts = counts_and_findings(audit(history), history)
    broken = ("violations", "duplicates", "lost", "undelivered_at_end", "phantom", "cycles")
    assert [counts[name] for name in broken] == [0] * len(broken)
    assert counts["deliveries"] == result.deliveries


def test_figures_6_to_8_and_both_loads_are_shown(results):
    found = list(items.shown(results, Claims(claims(results))))
    assert [one.name for one in found if isinstance(one, Table)] == [
        "Section V-A, 5.6 per s", "Section V-A, 35 per s", "Section V-D",
    ]  # fmt: skip
    figures = found[3:]
    assert [figure.name for figure in figures] == [
        "Figure 6a", "Figure 6b", "Figure 6c", "Figure 6d", "Figure 7a", "Figure 7b", "Figure 8",
        "Bandwidth", "Spacing, delay in s", "Spacing, share lost",
    ]  # fmt: skip
    for figure in figures[:-2]:
        for radio in RADIOS:
            access = radio.partition(" at ")[0]
            assert any(access in series.label for series in figure.series), (figure.name, radio)


def test_retries_are_chosen_only_where_the_radio_has_them(results):
    for run in marked(results, FITTED)["static"]:
        parameters = run["scenario"]["parameters"]
        is_chosen = parameters["mac"] == "csma" and parameters["mac_retries"] == 0
        assert ("mac_retries" in {mark.field for mark in run["fitted"]}) == is_chosen


def test_readings_of_the_repetition_share_no_run(results):
    for run in results["repeats"]:
        step_ms = run["scenario"]["parameters"]["repeat_step_ms"]
        run["extra"]["delay_ms"] = 1000.0 if step_ms == 200.0 else 50.0
    found = [claim_of(results, "Section V-A, 5.6", "delay", f"by {one}") for one in REPEATS]
    assert [claim.measured for claim in found] == [1.0, 0.05]


@pytest.mark.parametrize(("slope", "verdicts"), [(5.0, ("same trend", "differs")), (0.0, None)])
def test_a_permanent_failure_fills_the_station_for_ever_or_for_t_seconds(results, slope, verdicts):
    for run in results["gone"]:
        run["series"]["stored"] = [100.0 + slope * second for second in range(60)]
    words = "growth of SBuffer after a permanent failure"
    found = tuple(claim_of(results, "Section IV-E", words, T).verdict for T in ("no T", "T of 5"))
    assert found == (verdicts or ("inconclusive", "holds"))


@pytest.mark.parametrize(
    ("words", "name", "seconds"),
    [
        ("225 s more than before", "stored_at_fault", range(204, 225)),
        ("165 to 180 s", "stored_elsewhere", range(165, 180)),
        ("225 to 250 s", "stored_elsewhere", range(225, 250)),
    ],
)
@pytest.mark.parametrize(("more", "verdict"), [(50.0, "same trend"), (0.0, "inconclusive")])
def test_the_special_cases_of_figure_8(words, name, seconds, more, verdict):
    """Noise around the same level says nothing, and a run that is too short has neither case."""
    faults = next(one for one in experiments("full") if one.name == "faults")
    found = made_up(experiments("quick"), seed=5) | made_up([faults], seed=5)
    draw = random.Random(8)
    for run in found["faults"]:
        run["series"][name] = [draw.gauss(100, 5) + more * (s in seconds) for s in range(300)]
    assert claim_of(found, "Section V-C", words, "ALOHA").verdict == verdict
    for run in found["faults"]:
        run["scenario"]["duration_s"] = 90.0
    assert not [one for one in claims(found) if "Fig. 8b" in one.key]
