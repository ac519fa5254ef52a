"""Tables of runs, clusters and sweeps: aligned, with units, one notation a column."""

from precedes import simulate
from precedes.cli import sweep
from precedes.cli.live import cluster_text
from tests.support.commands import output

QUIET = {
    "verdict": "held",
    "protocol": "vector",
    "members": 3,
    "broadcasts": 6840,
    "deliveries": 13680,
    "deliveries_per_s": 6279.4,
    "deliveries_per_core_s": 6995.2,
    "p50_ms": 1200.164,
    "p99_ms": 2273.86,
    "p50_undisturbed_ms": 70.0,
    "p99_undisturbed_ms": 116.5,
    "disturbed_s": 0.0,
    "pending_max": 12,
    "pending_bound": 1024,
    "violations": 0,
    "lost": 0,
    "duplicates": 0,
    "phantom": 0,
    "faults": [],
    "ended": {"0": "all", "1": "all", "2": "all"},
    "hung": [],
    "unexpected": [],
    "witnesses": [],
    "view_findings": [],
}


def test_a_cluster():
    assert cluster_text(QUIET).splitlines() == [
        "held: vector, 3 processes",
        "broadcasts          6,840",
        "deliveries         13,680  0 out of order, 0 lost, 0 twice, 0 from nowhere",
        "throughput          6,279  deliveries/s",
        "                    6,995  deliveries per core-second",
        "max pending            12  messages per member (bound 1,024)",
        "latency, ms           p50          p99",
        "  of all         1,200.16     2,273.86",
    ]


def test_numbers_are_aligned_however_long_they_are():
    lines = cluster_text(QUIET | {"deliveries": 12_345_678_901_234}).splitlines()
    assert lines[1:3] == [
        "broadcasts               6,840",
        "deliveries  12,345,678,901,234  0 out of order, 0 lost, 0 twice, 0 from nowhere",
    ]


def test_a_cluster_with_faults():
    kill = {"kind": "kill", "members": [2], "at_s": 0.774, "for_s": 0.0}
    cut = {"kind": "partition", "members": [0, 2], "at_s": 1.5, "for_s": 0.12}
    found = QUIET | {
        "verdict": "violated",
        "faults": [kill, cut],
        "ended": {"0": "all", "1": "lost: no quorum", "2": "killed"},
        "disturbed_s": 1.42,
        "hung": [1],
        "unexpected": [1],
        "witnesses": ["node 0 delivered 1:2 before 1:1."],
        "view_findings": ["member 0 installed view 2 without message 1:3."],
    }
    assert cluster_text(found).splitlines()[6:] == [
        "latency, ms           p50          p99",
        "  of all         1,200.16     2,273.86",
        "  calm times        70.00       116.50",
        "disturbed   1.4 s, in which a member was missing, until it returned or was evicted",
        "faults         at s   for s  kind       members",
        "               0.77       -  kill       2",
        "               1.50    0.12  partition  0, 2",
        "members     0 ended with the group; 1 lost: no quorum; 2 killed",
        "  member 1 did not end in time",
        "  member 1 ended unexpectedly: lost: no quorum",
        "  - node 0 delivered 1:2 before 1:1.",
        "  - member 0 installed view 2 without message 1:3.",
    ]


def test_a_cluster_that_measured_nothing():
    text = cluster_text(QUIET | {"p50_ms": None, "p99_ms": None})
    assert text.splitlines()[-1] == "latency     not known: no message was measured"


def test_a_run_without_an_oracle_or_a_message():
    lines = str(simulate("vector", nodes=2, messages=0, oracle=False, tier="interpreted"))
    assert lines.splitlines()[:-1] == [
        "vector: 2 nodes, seed 1, 0.0 s simulated",
        "broadcasts              0",
        "deliveries              0  0 lost",
        "out of order            -  not counted: the oracle was off",
        "packets                 0  with 0 messages",
        "bytes sent              0  0.0 a packet",
        "max pending             0  messages per node",
    ]


def test_a_run_in_python_is_what_the_command_prints(capsys):
    printed = output(capsys, "simulate", "vector", "--nodes", 3, "--messages", 5, "--interpreted")
    result = simulate("vector", nodes=3, messages=5, tier="interpreted")
    # The last line is the time that it took.
    assert str(result).splitlines()[:-1] == printed.splitlines()[:-1]


def row(protocol, metric, mean, high=None, params=""):
    return {"protocol": protocol, "params": params, "metric": metric, "mean": mean, "high": high}


def test_a_sweep_has_one_notation_a_column():
    summary = [
        row("vector", "violating_deliveries", 0.0, 0.0),
        row("vector", "delivery_ms_mean", 1234.5, 1236.0),
        row("vector", "packets", 7.0),
        row("dcs", "violating_deliveries", 12345.0, 12355.0, "error=0.1"),
        row("dcs", "delivery_ms_mean", 2.25, 14.5, "error=0.1"),
    ]
    assert sweep._cells(summary) == [
        ["vector", "0 +-  0", "1,234.50 +-  1.50", "-", "-"],
        ["dcs error=0.1", "12,345 +- 10", "2.25 +- 12.25", "-", "-"],
    ]
    single = [row("vector", "pending_max", 3.0), row("dcs", "pending_max", 2.5)]
    assert [cells[-1] for cells in sweep._cells(single)] == ["3.00", "2.50"]
