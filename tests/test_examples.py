"""The examples run as they are, in this process: what they need is compiled once."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from precedes.sim import Scenario, from_toml, simulate
from precedes.testing import assert_conforms
from tests.support.application import addresses
from tests.support.places import ROOT
from tests.support.processes import printed

EDITING_TRACE = ROOT.parent / "shared/data/editing-traces/friendsforever.json.gz"
FIFO = "examples/fifo_broadcast.py"


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run an example with arguments, as a shell would; gives what it prints."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(f"examples/{name}", run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.usefixtures("engine")
def test_compare_protocols(run):
    rows = {row.split()[0]: row.split()[1:] for row in run("compare_protocols.py").splitlines()}
    wrong = {name: int(rows[name][0].replace(",", "")) for name in list(rows)[1:]}
    assert wrong["vector"] == 0 < wrong["probabilistic"] < wrong["unordered"]


@pytest.mark.usefixtures("live")
def test_live_chat():
    ann, bob, eve = printed("examples/live_chat.py").splitlines()
    assert ann == "ann sees: bob: on the fridge"
    assert bob == "bob sees: ann: has anybody seen my keys?"
    assert eve == "eve sees: ann: has anybody seen my keys? / bob: on the fridge"


@pytest.mark.usefixtures("live")
def test_replicated_dictionary():
    assert printed("examples/replicated_dictionary.py") == "3 copies after 120 changes: the same\n"


@pytest.mark.usefixtures("live")
def test_a_service_leaves_when_it_is_stopped(tmp_path):
    path = tmp_path / "group.toml"
    path.write_text(f"addresses = {list(addresses(2))}\n")
    line = [sys.executable, "examples/service.py", str(path)]
    members = [
        subprocess.Popen(line, env={**os.environ, "MEMBER": i}, stdout=subprocess.PIPE, text=True)
        for i in "01"
    ]
    with members[0], members[1]:
        assert members[1].stdout.readline() == "member 0 is up\n"
        assert members[0].stdout.readline() == "member 1 is up\n"
        for member in reversed(members):  # half of a group goes on with member 0
            member.terminate()
            assert member.stdout.read() == "left the group\n"


@pytest.mark.gate
@pytest.mark.usefixtures("live")
def test_live_editing_of_a_real_text():
    """Real processes, whose documents converge."""
    if EDITING_TRACE.exists():
        output = printed("examples/live_editing.py", EDITING_TRACE, 400)
        assert "3 processes, 400 changes: the same text everywhere" in output
    else:
        output = printed("examples/live_editing.py")
        assert "4 processes, 6 changes: the same text everywhere" in output
        assert "causes before effects." in output


@pytest.mark.gate
def test_a_stream_is_audited_while_it_is_produced():
    *counts, sentence = printed("examples/stream_audit.py").splitlines()
    assert [line.split(": ")[1] for line in counts] == [f"{n} findings" for n in (0, 0, 0, 1, 1)]
    assert sentence.startswith("node mailbox delivered shipped before paid")


@pytest.mark.usefixtures("engine")
def test_audit_log(run):
    fine, planted, witness = run("audit_log.py").splitlines()
    assert "held (9 deliveries)" in fine
    assert "violated (9 deliveries)" in planted
    assert "mailbox delivered shipped before paid" in witness


@pytest.mark.usefixtures("engine")
def test_replay_a_tiny_history(run):
    output = run("replay_editing_trace.py")
    assert "vector: held, 12 deliveries" in output
    assert "unordered: violated" in output


@pytest.mark.usefixtures("engine")
@pytest.mark.skipif(not EDITING_TRACE.exists(), reason="the editing traces are not here")
def test_replay_a_real_history(run):
    output = run("replay_editing_trace.py", EDITING_TRACE)
    assert "vector: held, 52156 deliveries" in output
    assert "unordered: violated" in output


def test_fifo_broadcast_conforms():
    """Interpreted: the pages run it compiled."""
    found = assert_conforms(FIFO, schedules=10, compiled=False)
    assert found.deliveries > 100


def test_fifo_broadcast_keeps_the_order_of_each_source():
    """On links that do not: all that is wrong is between sources, as over links that do."""
    scenario = Scenario(protocol=FIFO, nodes=5, messages=200, delay="exponential:100")
    fifo = simulate(scenario, tier="interpreted")
    none = simulate(scenario.replace(protocol="unordered"), tier="interpreted")
    links = simulate(scenario.replace(protocol="unordered", fifo=True), tier="interpreted")
    assert fifo.lost == fifo.duplicates == 0
    assert fifo.violations == links.violations
    assert 0 < fifo.violations.deliveries < none.violations.deliveries


@pytest.mark.parametrize("path", sorted(Path(ROOT, "experiments").glob("*.toml")), ids=str)
def test_experiments_load(path):
    assert from_toml(path).protocol in path.read_text()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", ["partition", "crash", "slow-uplink"])
def test_experiments_run(name):
    result = simulate(from_toml(Path(f"experiments/{name}.toml")))
    assert result.deliveries > 0
    assert result.violations.deliveries == 0
    assert (result.lost > 0) == (name == "crash")
