"""de Araujo et al. 2018 against an independent model, and what is read and claimed of results."""

import copy
import itertools
import statistics

import numpy as np
import pyarrow.parquet as pq
import pytest

from precedes.model import EventKind
from precedes.sim import simulate
from precedes_papers.measured import measure
from precedes_papers.p000 import PUBLISHED, metrics
from precedes_papers.p000.experiments import READINGS, experiments, named, scenario
from precedes_papers.p000.items import claims
from precedes_papers.p000.metrics import ITEMS, Runs
from precedes_papers.rules import COMPATIBLE, DIFFERS, EQUAL, HOLDS, IN_BOUNDS, SAME_TREND
from tests.support import synthetic

# % fewer packets and % of packets aggregated that another implementation gives for reading A.
MODEL = {64: (8.41, 6.99), 128: (12.77, 9.83), 256: (18.27, 13.16)}
SEEDS = {64: range(1, 61), 128: range(1, 41), 256: range(1, 31)}
# What it gives for reading C and 256 nodes: packets by size with and without aggregation, messages
# by dependencies (0, 1 to 4, 5 to 9, over 12), and packets saved, all in %.
MODEL_C = {
    "with": (57.3, 31.3, 7.9, 2.0, 1.5),
    "without": (64.7, 30.1, 5.0, 0.3, 0.0),
    "dependencies": (25.8, 31.1, 17.4, 20.2),
    "saved": (18.3,),
}


def runs_of(nodes, reading, seeds, **changes):
    return [
        simulate(scenario(nodes, READINGS[reading], seed, **changes)).as_dict() for seed in seeds
    ]


def means_of(runs, reads):
    return [statistics.fmean(read(run) for run in runs) for read in reads]


def means(nodes, seeds, **changes):
    """Both percentages of Table 1 over seeds."""
    return means_of(
        runs_of(nodes, "A", seeds, **changes), (metrics.fewer_packets, metrics.aggregated)
    )


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("nodes", MODEL)
def test_reading_a_gives_what_the_model_gives(nodes):
    found = means(nodes, SEEDS[nodes])
    print(f"{nodes} nodes, seeds {SEEDS[nodes]}: {found}")
    assert found == pytest.approx(MODEL[nodes], rel=0.05)


@pytest.mark.usefixtures("engine")
def test_the_comparison_can_fail():
    """The twin: with the standard deviation of reading B the model's values are far away."""
    found = means(64, range(1, 11), delay=READINGS["B"]["delay"], workload="window:600")
    assert found != pytest.approx(MODEL[64], rel=0.2)


def of_model_c(reading, seeds):
    """The values of ``MODEL_C`` under a reading."""
    together = runs_of(256, reading, seeds)
    alone = runs_of(256, reading, seeds, aggregation=False)
    sizes = [item.read for item in ITEMS["Table 3, with"].values()]
    needs = [item.read for name, item in ITEMS["Figure 6"].items() if name != "most"]
    return {
        "with": means_of(together, sizes),
        "without": means_of(alone, sizes),
        "dependencies": means_of(together, needs),
        "saved": means_of(together, [metrics.fewer_packets]),
    }


@pytest.mark.usefixtures("engine")
def test_reading_c_gives_what_the_model_gives():
    seeds = range(1, 21)
    found = of_model_c("C", seeds)
    print(f"seeds {seeds}: {found}")
    for name, expected in MODEL_C.items():
        assert found[name] == pytest.approx(expected, abs=2), name


@pytest.mark.usefixtures("engine")
def test_reading_a_does_not():
    """The twin: with uniform starts far more messages have many dependencies."""
    found = of_model_c("A", range(1, 6))
    assert found["dependencies"] != pytest.approx(MODEL_C["dependencies"], abs=5)
    assert found["without"] != pytest.approx(MODEL_C["without"], abs=5)


def test_what_is_printed_agrees_with_itself():
    """Percentages of Table 1, sums of Tables 2 and 3, shares of the third column and of 5.2."""
    for nodes, (alone, together, fewer, aggregated) in PUBLISHED["Table 1"].items():
        assert alone == nodes * (nodes - 1)
        assert fewer == pytest.approx(100 * (1 - together / alone), abs=0.01)
        # Of a whole number of packets, as long as these are few enough to tell.
        whole = round(aggregated * together / 100)
        assert nodes > 64 or aggregated == pytest.approx(100 * whole / together, abs=0.005)
    assert sum(PUBLISHED["Table 2"].values()) == pytest.approx(100, abs=0.05)
    aggregated = PUBLISHED["Table 1"][256][3]
    assert PUBLISHED["Table 2"]["1"] == pytest.approx(100 - aggregated, abs=0.005)
    for name, share in PUBLISHED["Table 2, aggregated"].items():
        assert share == pytest.approx(100 * PUBLISHED["Table 2"][name] / aggregated, abs=0.04)
    for column in range(2):
        shares = [row[column] for row in PUBLISHED["Table 3"].values()]
        assert sum(shares) == pytest.approx(100, abs=0.05)
    larger = sum(PUBLISHED["Table 3"][name][0] for name in ("301 to 400", "over 400"))
    assert larger == pytest.approx(PUBLISHED["section 5.2"]["larger"])


def test_every_size_has_seeds_at_both_scales():
    for scale in ("quick", "full"):
        for experiment in experiments(scale):
            groups = {one.nodes for one in experiment.scenarios}
            counts = [sum(one.nodes == n for one in experiment.scenarios) for n in groups]
            assert min(counts) >= (2 if scale == "quick" else 10), "an interval needs two runs"
            assert not any(one.oracle for one in experiment.scenarios), "nobody counts violations"


# --- What is read from traces ---

BORN = [(1000 * 10 * node, node, EventKind.BROADCAST, node, 1, -1) for node in range(4)]


def made(path, *rows):
    """A run of rows (us, node, kind, source, packet); nodes broadcast at 0, 10, 20 and 30 us."""
    more = [(1000 * at_us, *row, 1, packet) for at_us, *row, packet in rows]
    return {"trace": synthetic.write(path, sorted(BORN + more))}


def test_messages_in_packets_of_two(tmp_path):
    """Node 2 gets 0 and 1 together at 130 and 3 alone; else 0 at 110, 1 at 130, held for it."""

    def run(name, *receptions):
        delivered = [(130, 2, EventKind.DELIVER, source, -1) for source in (0, 1)]
        received = [
            (time, 2, EventKind.RECEIVE, source, packet) for source, time, packet in receptions
        ]
        last = (300, 2, EventKind.DELIVER, 3, -1)
        return made(tmp_path / f"{name}.parquet", *received, *delivered, last)

    together = run("together", (0, 130, 7), (1, 130, 7), (3, 200, 8))
    alone = run("alone", (0, 110, 3), (1, 130, 4), (3, 120, 5))
    # Receptions 130 and 120 after the broadcasts against 110 and 120; held for 0 against 20 and 0.
    assert metrics.pair_change(metrics.RECEPTION)(together, alone) == pytest.approx(100 * 20 / 230)
    assert metrics.pair_change(metrics.HELD)(together, alone) == pytest.approx(-100)
    assert metrics.pair_change(metrics.DELIVERY)(together, alone) == pytest.approx(0)
    assert metrics.pair_mean(metrics.RECEPTION, 0)(together, alone) == pytest.approx(0.125)
    assert metrics.pair_mean(metrics.RECEPTION, 1)(together, alone) == pytest.approx(0.115)


def test_the_slowest_reception_is_not_the_slowest_delivery(tmp_path):
    """1 receives 0 after 190 us and waits; all other messages are delivered when they arrive."""
    at_once = [
        (100 + node, node, EventKind.DELIVER, source, -1)
        for node, source in itertools.permutations(range(4), 2)
        if (node, source) != (1, 0)
    ]
    late = [(190, 1, EventKind.RECEIVE, 0, -1), (900, 1, EventKind.DELIVER, 0, -1)]
    run = made(tmp_path / "slow.parquet", *at_once, *late)
    assert metrics.slowest(run) == pytest.approx(0.190)
    later = made(tmp_path / "later.parquet", *at_once, late[0], (907, 1, EventKind.DELIVER, 0, -1))
    assert metrics.added_delay(later, run) == pytest.approx(0.007)
    assert metrics.added_delay(run, run) == 0


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Runs of 64 nodes with all their packets: with an MTU, and without aggregation."""

    def run(name, **changes):
        path = tmp_path_factory.mktemp("traced") / f"{name}.parquet"
        result = simulate(scenario(64, READINGS["B"], 3, **changes), trace=path, packets=True)
        return {**result.as_dict(), "trace": str(path)}

    return {
        "cut": run("cut", mtu_bytes=400),
        "whole": run("whole"),
        "alone": run("alone", aggregation=False),
    }


@pytest.mark.parametrize("name", ["cut", "whole", "alone"])
def test_sizes_of_packets_are_those_that_were_counted(traced, name):
    run = traced[name]
    found = metrics.packets_in(run)
    assert len(found.size_bytes) == run["packets"]
    assert found.size_bytes.sum() == run["bytes_sent"]
    steps = np.bincount((found.size_bytes - 1) // 100)
    assert steps.tolist() == run["packets_by_bytes"]
    for key, bounds in {"0": (0, 0), "1_to_4": (1, 4), "5_to_9": (5, 9)}.items():
        assert metrics.depending_on(*bounds)(run) == pytest.approx(metrics.needing(key)(run))


def test_packets_cut_at_the_mtu(traced):
    """By another way: a node that handles one packet sends two to the same child."""

    def sent_twice(run):
        rows = pq.read_table(run["trace"]).to_pylist()
        target = {row["packet"]: row["node"] for row in rows if row["kind"] == "receive"}
        to = {
            (row["node"], row["time_us"], target[row["packet"]], row["packet"])
            for row in rows
            if row["kind"] == "send"
        }
        return len(to) - len({one[:3] for one in to})

    assert metrics.cut_at_mtu(traced["cut"]) == sent_twice(traced["cut"]) > 10
    assert metrics.cut_at_mtu(traced["whole"]) == sent_twice(traced["whole"])
    assert metrics.cut_at_mtu(traced["alone"]) == 0


def test_packets_larger_than_any_without_aggregation(traced):
    whole, alone = traced["whole"], traced["alone"]
    largest = 20 + 50 + 4 * (1 + alone["extra"]["dependencies_max"])
    assert metrics.packets_in(alone).size_bytes.max() == largest
    share = metrics.larger_than_any(whole, alone)
    assert 0 < share < metrics.aggregated(whole)
    assert metrics.larger_than_any(alone, alone) == 0


def test_growth_takes_all_small_groups():
    small = [{"value": value} for value in (1.0, 3.0, 2.0, 6.0)]
    large = [{"value": value, "seed": seed} for seed, value in ((1, 8.0), (2, 12.0))]
    assert metrics.growth(lambda run: run["value"], small, large).values == (4.0, 3.0)


# --- What is claimed ---


@pytest.fixture(scope="module")
def untouched():
    return synthetic.results(experiments("quick"), seed=5)


@pytest.fixture
def made_up(untouched):
    """Results of which a test may replace whole values, and change audits and latencies."""
    inner = ("audit", "latency")
    return {
        name: [{**run, **{key: copy.copy(run[key]) for key in inner}} for run in runs]
        for name, runs in untouched.items()
    }


def claim(results, item, key):
    """The one claim whose key begins so."""
    (found,) = [one for one in claims(results) if one.item == item and one.key.startswith(key)]
    return found


def put(results, kind, nodes, *path, value, reading="C"):
    """Set a value in the results of a kind of runs, all alike."""
    for run in Runs(results, reading).of(kind, nodes):
        place = run
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value


def test_every_table_and_figure_is_judged_under_every_reading(made_up):
    found = {}
    for one in claims(made_up):
        key, _, reading = one.key.rpartition(", reading ")
        if key:
            found.setdefault((one.item, key), []).append((reading, one.rule))
    assert {item for item, _ in found} == {
        *(f"Table {number}" for number in (1, 2, 3)),
        *(f"Figure {number}" for number in (1, 6, 7, 8, 9, 10, 11)),
        "Guarantees",
    }
    for (item, key), readings in found.items():
        assert [reading for reading, _ in readings] == list(READINGS), (item, key)
    rules = {(item, key): {rule for _, rule in of_one} for (item, key), of_one in found.items()}
    for (item, key), rule in rules.items():
        if item == "Table 2" or (item == "Table 1" and "256 nodes" in key):
            assert rule == {"one_run"}, key
        if item == "Figure 11" and "fewer" in key:
            assert rule == {"at_least"}, key


def test_times_higher_is_an_increase(made_up):
    key = "times the mean reception, 1024 nodes over 8, with aggregation, reading C"
    put(made_up, "with", 8, "latency", "reception_mean", value=100.0)
    for large, verdict in ((310.0, HOLDS), (210.0, DIFFERS)):
        put(made_up, "with", 1024, "latency", "reception_mean", value=large)
        assert claim(made_up, "Figure 7", key).verdict == verdict


def test_reception_is_later_with_aggregation_but_for_the_largest_group(made_up):
    for nodes, later, verdict in (
        (512, 1.01, SAME_TREND),
        (512, 0.99, DIFFERS),
        (1024, 0.93, SAME_TREND),
        (1024, 1.01, DIFFERS),
    ):
        put(made_up, "with", nodes, "latency", "reception_mean", value=100.0 * later)
        put(made_up, "alone", nodes, "latency", "reception_mean", value=100.0)
        key = f"% that aggregation adds to reception, {nodes} nodes, reading C"
        assert claim(made_up, "Figure 7", key).verdict == verdict


def test_at_least_so_many_fewer_with_one_tree(made_up):
    put(made_up, "with", 64, "packets_by_messages", value=[0, 0, 100])
    for one_tree, verdict in ((10, IN_BOUNDS), (30, DIFFERS)):
        put(made_up, "shared", 64, "packets_by_messages", value=[0, 0, one_tree])
        key = "% fewer aggregations with one tree, 64 nodes, reading C"
        assert claim(made_up, "Figure 11", key).verdict == verdict


def test_any_aggregation_among_eight_is_more_than_none(made_up):
    key = "% of packets aggregated, 8 nodes, reading C"
    put(made_up, "smallest", 8, "packets_by_messages", value=[0, 56])
    assert claim(made_up, "Figure 8", key).verdict == HOLDS
    put(made_up, "smallest", 8, "packets_by_messages", value=[0, 54, 1])
    assert claim(made_up, "Figure 8", key).verdict == DIFFERS


def test_one_run_is_judged_by_the_spread_of_runs(made_up):
    """The mean of 30 runs would not have to be close to a published value of one run."""
    key = "% of packets over 1400 bytes, reading C"
    runs = Runs(made_up, "C").of("with")
    for run, over in zip(runs, itertools.cycle((3, 4)), strict=False):
        run["packets_by_bytes"] = [1000 - over, *[0] * 13, over]
    found = claim(made_up, "Table 3", key)
    assert (found.verdict, found.rule) == (COMPATIBLE, "one_run")
    mean = measure(ITEMS["section 5.2"]["over 1400"].read, runs)
    assert not mean.interval[0] <= PUBLISHED["section 5.2"]["over 1400"] <= mean.interval[1]


def test_guarantees_are_judged_by_the_audit(made_up):
    for kind in ("with", "alone", "shared"):
        for run in made_up[named(kind, "C")]:
            run["audit"] = {name: 0 for name in run["audit"]} | {"deliveries": 9}
    for run, other in zip(made_up["fixed-c"], made_up["fixed-alone-c"], strict=True):
        other["trace"] = run["trace"]
    kept = [one for one in claims(made_up) if one.item == "Guarantees" and one.key.endswith("C")]
    assert [one.verdict for one in kept] == [EQUAL] * 7
    # The twins: one delivery of one run each.
    made_up["with-c"][3]["audit"]["violations"] = 1
    made_up["alone-c"][3]["audit"]["duplicates"] = 1
    made_up["shared-c"][3]["audit"]["lost"] = 1
    made_up["fixed-c"][0]["trace"] = made_up["fixed-c"][1]["trace"]
    broken = [one for one in claims(made_up) if one.item == "Guarantees" and one.key.endswith("C")]
    assert [one.key for one in broken if one.verdict == DIFFERS] == [
        "deliveries out of causal order, with, reading C",
        "deliveries twice or never, without, reading C",
        "deliveries twice or never, over one tree, reading C",
        "longest delay that aggregation adds to a delivery, reading C",
    ]


def test_a_share_that_print_has_as_none_is_judged_by_the_range_of_shares(made_up):
    key = "% of packets of over 400 bytes, without (swapped), reading C"
    for last, verdict in ((0, HOLDS), (1, HOLDS), (100, COMPATIBLE)):
        runs = Runs(made_up, "C").of("alone")
        for run in runs:
            run["packets_by_bytes"] = [100, 0, 0, 0]
        runs[-1]["packets_by_bytes"] = [100, 0, 0, 0, last]
        assert claim(made_up, "Table 3", key).verdict == verdict
