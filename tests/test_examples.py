"""The examples run as they are, in this process: what they need is compiled once."""

import contextlib
import json
import os
import runpy
import subprocess
import sys
import threading
import time
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


class Replica:
    """A process of the dictionary, under load: unique keys, and one that all write."""

    def __init__(self, name, addresses, life):
        self.name, self.life = name, life
        self.acknowledged, self.shown = [], []
        self.is_ready = self.is_loaded = False
        line = [sys.executable, "examples/replicated_dictionary.py", "--member", name]
        line += ["--address", addresses[name]]
        line += [word for other in addresses.values() for word in ("--seed", other)]
        self.process = subprocess.Popen(
            line,
            env={**os.environ, "PRECEDES_TIER": "interpreted"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.threads = [threading.Thread(target=run) for run in (self.read, self.write)]
        for thread in self.threads:
            thread.start()

    def read(self):
        for line in self.process.stdout:
            if line == "ready\n":
                self.is_ready = self.is_loaded = True
            elif line.startswith("{"):
                self.shown.append(json.loads(line))
            elif "=" in line:
                self.acknowledged.append(line.strip().split("="))

    def write(self):
        """Write until the load is over, or the process ends."""
        count = 0
        with contextlib.suppress(OSError, ValueError):
            while self.process.poll() is None:
                if self.is_loaded and count < len(self.acknowledged) + 10:
                    count += 1
                    key = "common" if count % 5 == 0 else f"{self.name}.{self.life}.{count}"
                    self.tell(f"{key}={self.name}{count}")
                time.sleep(0.001)

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def show(self):
        """The dictionary that it has."""
        count = len(self.shown)
        self.tell("?")
        wait_for(lambda: len(self.shown) > count)
        return self.shown[-1]

    def stop(self):
        """A restart as a supervisor does it: SIGTERM, and wait."""
        self.process.terminate()
        status = self.process.wait(timeout=60)
        for thread in self.threads:
            thread.join()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return status


def wait_for(is_so, limit_s=60.0):
    """Wait for something in another process."""
    end_s = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end_s, "it took too long"
        time.sleep(0.01)


@pytest.mark.usefixtures("live")
def test_a_dictionary_survives_a_rolling_restart_under_load():
    """Every write that a process has acknowledged is there in the end, at all members."""
    places = dict(zip("abc", addresses(3), strict=True))
    members = {name: Replica(name, places, 1) for name in places}
    ended = []
    try:
        wait_for(lambda: all(len(one.acknowledged) > 5 for one in members.values()))
        for name in places:
            before = members[name]
            assert before.stop() == 0
            ended.append(before)
            members[name] = Replica(name, places, 2)
            wait_for(lambda one=members[name]: one.is_ready)
            wait_for(lambda one=members[name]: len(one.acknowledged) > 5)
        for one in members.values():
            one.is_loaded = False
        wait_for(lambda: len({json.dumps(one.show()) for one in members.values()}) == 1)
        values = members["a"].show()
        for one in (*ended, *members.values()):
            assert len(one.acknowledged) > 5
            for key, value in one.acknowledged:
                assert key in values
                assert key == "common" or values[key] == value
    finally:
        statuses = [one.stop() for one in members.values()]
    assert statuses == [0, 0, 0]


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
        for member in members:  # the other one goes on
            member.terminate()
            assert member.stdout.read() == "left the group\n"
            assert member.wait() == 0


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
