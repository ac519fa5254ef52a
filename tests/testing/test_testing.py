"""The conformance suite itself: its schedules, its collector, its command."""

import dataclasses

import numpy as np
import pytest

from precedes import audit, contract
from precedes.model import EventKind, Events
from precedes.registry import linked, load
from precedes.sim import Scenario, simulate
from precedes.sim.runs import open_run, outside
from precedes.testing import (
    Collector,
    Failure,
    Kind,
    assert_conforms,
    conformance,
    observe,
    random_scenario,
)
from precedes.testing.__main__ import main
from precedes.testing.watch import Watch
from precedes.trace import read_trace
from tests.support import edited
from tests.support.processes import python

SEEDS = range(1, 301)


def test_a_seed_is_a_scenario():
    for seed in SEEDS:
        assert random_scenario("vector", seed) == random_scenario("vector", seed)
    assert len({str(random_scenario("vector", seed)) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("protocol", linked())
def test_schedules_keep_to_what_a_protocol_assumes(protocol):
    assert not any(outside(random_scenario(protocol, seed)) for seed in SEEDS)
    hostile = [outside(random_scenario(protocol, seed, hostile=True)) for seed in SEEDS]
    assert sum(map(bool, hostile)) > 50


def test_every_feature_is_drawn_and_left_out():
    features = []
    for seed in SEEDS:
        s = random_scenario("unordered", seed, hostile=True)
        kinds = {(fault.kind, fault.holds, fault.after_sends > 0) for fault in s.faults}
        features.append(
            {
                "per link": s.per == "link",
                "loss": s.loss > 0,
                "duplication": s.duplication > 0,
                "fifo": s.fifo,
                "processing": s.processing_ms > 0,
                "send queue": s.transmission_ms > 0 or s.bandwidth_bytes_per_s > 0,
                "mtu": s.mtu_bytes > 0,
                "skew": s.skew > 0,
                "pause": ("pause", False, False) in kinds,
                "cut": ("cut", False, False) in kinds,
                "cut that holds": ("cut", True, False) in kinds,
                "crash": ("crash", False, False) in kinds,
                "crash in mid-send": ("crash", False, True) in kinds,
            }
        )
    table = np.array([list(row.values()) for row in features])
    counts = dict(zip(features[0], table.sum(axis=0).tolist(), strict=True))
    assert all(5 < count < len(SEEDS) - 50 for count in counts.values()), counts
    assert (table.sum(axis=1) == 0).any(), "a plain schedule now and then"
    workloads = {random_scenario("vector", seed).workload.split(":")[0] for seed in SEEDS}
    assert workloads == {"poisson", "periodic", "window", "bell", "random"}
    delays = {random_scenario("vector", seed).delay.split(":")[0] for seed in SEEDS}
    assert delays == {"constant", "uniform", "normal", "lognormal", "exponential"}


def test_a_collector_holds_a_trace():
    collector = Collector()
    assert collector.rows().shape == (0, 6)
    assert audit.audit(collector.history(nodes=3)).verdict == "unknown"
    column = np.zeros(2, np.int64)
    kinds = np.array([EventKind.BROADCAST, EventKind.DELIVER])
    events = Events(column, np.array([1, 0]), kinds, column + 1, column + 1, column - 1)
    collector.write(events)
    column += 99
    assert collector.rows().tolist() == [[0, 1, 0, 1, 1, -1], [0, 0, 3, 1, 1, -1]]
    report = audit.audit(collector.history(nodes=2))
    assert (report.verdict, report.deliveries) == ("held", 1)


def test_a_collector_holds_what_hosts_begin_with(tmp_path):
    parameters = {"stations": 2, "joins_s": 3.0}
    scenario = Scenario("mobile", nodes=5, rate=8.0, duration_s=4.0, parameters=parameters)
    simulate(scenario, trace=tmp_path / "run.parquet")
    (history,) = read_trace(tmp_path / "run.parquet")
    assert (history.join_message >= 0).any()
    collector = Collector()
    open_run(scenario, writer=collector).go()
    again = collector.history(nodes=5)
    assert again.join_message.tolist() == history.join_message.tolist()
    assert audit.audit(again) == dataclasses.replace(audit.audit(history), origin="")


def test_observed_rows_by_kind_and_node():
    seen = observe(Scenario(protocol="vector", nodes=3, messages=10), tier="interpreted")
    assert len(seen.of(EventKind.BROADCAST)) == 10
    assert len(seen.of(EventKind.DELIVER)) == 20
    assert sum(len(seen.of(EventKind.DELIVER, node)) for node in range(3)) == 20


def handlers(protocol):
    targets = (contract.broadcast, contract.receive)
    return [target.dispatch.implementation(protocol.state) for target in targets]


def test_the_watch_leaves_no_trace():
    protocol = load("vector")
    bodies = handlers(protocol)
    watch = Watch(protocol, nodes=3)
    with pytest.raises(ZeroDivisionError), watch.installed():
        raise ZeroDivisionError
    assert handlers(protocol) == bodies
    with watch.installed():
        assert not set(handlers(protocol)) & set(bodies)
    assert handlers(protocol) == bodies


def test_nothing_checked_is_no_pass():
    found = conformance("vector", schedules=0, compiled=False)
    text = "vector: nothing was delivered, so nothing was checked"
    assert found.failures == (Failure(Kind.IDLE, 1, text),)
    with pytest.raises(AssertionError, match="nothing was checked"):
        assert_conforms("vector", schedules=0, compiled=False)


def test_the_command(tmp_path, capsys):
    quick = ["--interpreted", "--schedules", "3"]
    assert main(["vector", *quick]) == 0
    assert capsys.readouterr().out.startswith("vector: conforms (3 schedules, ")
    broken = edited.protocol(tmp_path, "unordered", ("", "", "GUARANTEE = 'causal'"))
    assert main([broken, *quick, "--seed", "4"]) == 1
    out = capsys.readouterr().out
    assert "failed (3 schedules" in out
    assert f"repeat: python -m precedes.testing {broken} --seed " in out
    assert "Scenario(protocol=" in out
    assert main(["vectr", *quick]) == 2
    assert capsys.readouterr().err.startswith("precedes: there is no protocol 'vectr'")


@pytest.mark.usefixtures("engine")
def test_the_command_in_a_shell():
    quick = ("--interpreted", "--hostile", "--schedules", 2)
    done = python("-m", "precedes.testing", "unordered", *quick)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("unordered: conforms")
