"""de Araujo et al. 2018 against an independent model, and what is read from results."""

import statistics

import pytest

from precedes.model import EventKind
from precedes.papers.p000 import metrics
from precedes.papers.p000.experiments import READINGS, experiments, scenario
from precedes.papers.p000.published import PUBLISHED
from precedes.sim import simulate
from tests.support import synthetic

# % fewer packets and % of packets aggregated that another implementation gives for reading A.
MODEL = {64: (8.41, 6.99), 128: (12.77, 9.83), 256: (18.27, 13.16)}
SEEDS = {64: range(1, 61), 128: range(1, 41), 256: range(1, 31)}


def means(nodes, seeds, **changes):
    """Both percentages over seeds."""
    runs = [
        simulate(scenario(nodes, READINGS["A"], seed, oracle=False, **changes)).as_dict()
        for seed in seeds
    ]
    return [
        statistics.fmean(value(run) for run in runs)
        for value in (metrics.fewer_packets, metrics.aggregated)
    ]


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


def test_what_is_printed_agrees_with_itself():
    """Percentages of Table 1 and sums of Tables 2 and 3."""
    for nodes, (alone, together, fewer, _) in PUBLISHED["Table 1"].items():
        assert alone == nodes * (nodes - 1)
        assert fewer == pytest.approx(100 * (1 - together / alone), abs=0.01)
    assert sum(PUBLISHED["Table 2"].values()) == pytest.approx(100, abs=0.05)
    for column in range(2):
        shares = [row[column] for row in PUBLISHED["Table 3"].values()]
        assert sum(shares) == pytest.approx(100, abs=0.05)


def test_every_size_has_seeds_at_both_scales():
    for scale in ("quick", "full"):
        for experiment in experiments(scale):
            groups = {one.nodes for one in experiment.scenarios}
            counts = [sum(one.nodes == n for one in experiment.scenarios) for n in groups]
            assert min(counts) >= 2, "an interval needs two runs"
            if scale == "full":
                assert min(counts) >= (10 if experiment.trace else 30)


def test_messages_in_packets_of_two(tmp_path):
    """Node 2 gets 0 and 1 together at 130 and 3 alone; else 0 at 110, 1 at 130, held for it."""
    born = [(1000 * 10 * node, node, EventKind.BROADCAST, node, 1, -1) for node in range(4)]

    def run(name, *receptions):
        rows = [(1000 * 130, 2, EventKind.DELIVER, source, 1, -1) for source in (0, 1)]
        rows += [(1000 * 300, 2, EventKind.DELIVER, 3, 1, -1)]
        received = [
            (1000 * time_us, 2, EventKind.RECEIVE, source, 1, packet)
            for source, time_us, packet in receptions
        ]
        path = tmp_path / f"{name}.parquet"
        return {"trace": synthetic.write(path, sorted(born + received + rows))}

    together = run("together", (0, 130, 7), (1, 130, 7), (3, 200, 8))
    alone = run("alone", (0, 110, 3), (1, 130, 4), (3, 120, 5))
    # Receptions 130 and 120 after the broadcasts against 110 and 120; held for 0 against 20 and 0.
    assert metrics.pair_change(metrics.RECEPTION)(together, alone) == pytest.approx(100 * 20 / 230)
    assert metrics.pair_change(metrics.HELD)(together, alone) == pytest.approx(-100)
    assert metrics.pair_change(metrics.DELIVERY)(together, alone) == pytest.approx(0)
