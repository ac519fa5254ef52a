"""A run that begins interpreted and goes on compiled: the same to the last event."""

import itertools
import json
import time

import numpy as np
import pytest

from precedes import compiled, registry
from precedes.contract import Capacity
from precedes.sim import Scenario, run, simulate, switch
from precedes.sim.engine import layout, loop, network
from precedes.sim.run import Run
from precedes.sim.switch import Switch
from precedes.testing import Collector, random_scenario
from tests.support import commands

PROTOCOLS = ("vector", "vcube", "dcs", "hashed", "bundled")


class Planned(Switch):
    """Takes the compiled loop at the look of a given number, by slices of given sizes."""

    def __init__(self, protocol, *, at, slice_events, harm=None):
        super().__init__(protocol, name=protocol.name, tier="interpreted")
        self.slice_events = slice_events
        self.looks = 0
        self._at = at
        self._harm = harm

    def begin(self, world, state):
        super().begin(world, state)
        self.look(world, state, done=0.0)

    def look(self, world, state, *, done):
        if self.looks == self._at:
            if self._harm is not None:
                self._harm(world)
            protocol = self._protocol
            self._use(loop.ENTRY.prepare(protocol.state, protocol.sources, world, state, 0))
        self.looks += 1


class Tight(Run):
    """A run with so little room that it grows, writes and draws again and again."""

    def __init__(self, scenario, **planned):
        self.collector = Collector()
        self._planned = planned
        super().__init__(scenario, writer=self.collector)

    def _allocate_state(self):
        if not hasattr(self, "world"):
            self.capacity = Capacity(slots=1, reserve_bytes=1 << 16)
        return super()._allocate_state()

    def _make_switch(self, tier):
        self.switch = Planned(self.protocol, **self._planned)
        return self.switch


@pytest.fixture
def little(monkeypatch):
    """Chunks of few rows, which a packet's still fit into, and few draws at a time."""
    monkeypatch.setattr(run, "CHUNK_ROWS", 150)
    monkeypatch.setattr(run, "DRAWS", 8)


def outcome(made):
    """All that a run has come to: its result without the times, its trace, its last arrays."""
    result = made.go().as_dict()
    del result["cpu_s"], result["wall_s"]
    return json.dumps(result, sort_keys=True), made.collector.rows(), [*leaves(made.state)]


def leaves(value):
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def same(one, other):
    return (
        one[0] == other[0]
        and np.array_equal(one[1], other[1])
        and all(itertools.starmap(np.array_equal, zip(one[2], other[2], strict=True)))
    )


def schedules(protocol, *, of_each=1):
    """Small random schedules: some without faults, and some with each kind of them."""
    left = dict.fromkeys(("", "pause", "cut", "crash"), of_each)
    for seed in itertools.count(1):
        scenario = random_scenario(protocol, seed)
        kind = scenario.faults[0].kind if scenario.faults else ""
        if scenario.nodes <= 5 and scenario.messages <= 15 and left[kind]:
            left[kind] -= 1
            yield scenario
        if not any(left.values()):
            return


def switch_everywhere(scenario, *, slice_events, looks_max):
    """Run a schedule once for every slice after which it can go on compiled; how many there are."""
    whole = Tight(scenario, at=-1, slice_events=slice_events)
    expected = outcome(whole)
    looks = whole.switch.looks
    for at in range(min(looks, looks_max)):
        switched = Tight(scenario, at=at, slice_events=slice_events)
        found = outcome(switched)
        assert not switched.switch.is_interpreted
        assert same(found, expected), f"{scenario} after {at} slices of {slice_events}"
    return looks


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_switch_at_every_slice(protocol, engine, little):
    for scenario in schedules(protocol):
        assert switch_everywhere(scenario, slice_events=1, looks_max=50) > 5
        assert switch_everywhere(scenario, slice_events=7, looks_max=20) > 1


@pytest.mark.swarm
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("slice_events", [1, 2, 5])
def test_a_switch_at_every_slice_of_many(protocol, slice_events, engine, little):
    """In some of the schedules nothing happens; in the others much."""
    looks = [
        switch_everywhere(scenario, slice_events=slice_events, looks_max=1000)
        for scenario in schedules(protocol, of_each=10)
    ]
    assert sum(number > 5 for number in looks) > len(looks) // 2


def lose_a_draw(world):
    """Go on with the delay after the next."""
    world.network.setting[network.DELAYS_USED] += 1


def lose_a_row(world):
    """Go on as if the last row had not been noted."""
    world.host.registers[layout.ROWS] -= 1


@pytest.mark.parametrize("harm", [lose_a_draw, lose_a_row])
def test_a_switch_that_loses_something_is_seen(harm, engine, little):
    scenario = Scenario(protocol="vector", nodes=4, messages=10)
    expected = outcome(Tight(scenario, at=-1, slice_events=1))
    found = outcome(Tight(scenario, at=3, slice_events=1, harm=harm))
    assert not same(found, expected)


def test_progress_is_told_although_no_slice_comes_to_its_end(little):
    """The loop stops for delays before."""
    shares = []
    scenario = Scenario(protocol="vector", nodes=8, messages=400)
    Run(scenario).go(tier="interpreted", progress=shares.append)
    assert shares
    assert 0 < shares[0] < 1


LONG = {"nodes": 8, "messages": 400, "oracle": False}


@pytest.fixture
def eager(monkeypatch, tmp_path):
    """Every run is long enough for a compiler, the cache is empty, and nobody waits for it."""
    monkeypatch.setattr(switch, "COMPILATION_CPU_S", 0.0)
    monkeypatch.setattr(switch, "FIRST_LOOK_CPU_S", 0.0)
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))


class Watched(Run):
    """A run that waits after each slice until there is something to be seen."""

    def _make_switch(self, tier):
        self.switch = super()._make_switch(tier)
        return self.switch

    def wait(self, _share):
        end_s = time.monotonic() + 60
        code = self.switch._code
        while code.is_begun and not code.is_ready() and time.monotonic() < end_s:
            time.sleep(0.01)


def test_a_run_goes_on_compiled_when_its_compiler_is_done(monkeypatch, engine, request):
    """A compiler that takes what is compiled already: a real process, in a second."""
    monkeypatch.setenv("WARM_CACHE", str(compiled.cache_root()))
    request.getfixturevalue("eager")
    monkeypatch.setattr(switch, "RECIPE", "tests.support.small_loop:from_warm_cache")
    scenario = Scenario(protocol="vector", **LONG)
    expected = simulate(scenario, tier="interpreted").as_dict()
    made = Watched(scenario)
    slices = []
    found = made.go(progress=lambda share: (slices.append(share), made.wait(share))).as_dict()
    assert not made.switch.is_interpreted
    assert 1 <= len(slices) < 3200 / switch.SLICE_EVENTS_INTERPRETED, "not before it had begun"
    for result in (expected, found):
        del result["wall_s"], result["cpu_s"]
    assert found == expected


def test_no_compiler_for_a_short_run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECEDES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    line = ("simulate", "vector", "--nodes", "10", "--messages", "200", "--json")
    done = commands.run(*line)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "cache").exists()
    assert json.loads(done.stdout)["deliveries"] == 1800


def foretold(monkeypatch, taken_s, done, before_s=0.0):
    protocol = registry.load("vector")
    monkeypatch.setitem(switch._spent_s, protocol.state, before_s)
    found = Switch(protocol, name="vector", tier="auto")
    found.clock.cpu_s = lambda: taken_s
    return found._is_worth_it(done)


def test_when_a_compiler_is_worth_it(monkeypatch):
    """If what is left takes longer than it, or what was interpreted here has."""
    enough_s = switch.COMPILATION_CPU_S
    assert not foretold(monkeypatch, 0.1, 1e-6), "too early to tell"
    assert not foretold(monkeypatch, 1.0, 1.1 / enough_s)
    assert foretold(monkeypatch, 1.0, 0.9 / enough_s)
    assert not foretold(monkeypatch, enough_s - 1, 0.0), "no progress that can be seen"
    assert foretold(monkeypatch, enough_s + 1, 0.0)
    assert not foretold(monkeypatch, 1.0, 0.9, before_s=enough_s - 2)
    assert foretold(monkeypatch, 1.0, 0.9, before_s=enough_s), "many short runs"


def test_a_protocol_that_does_not_compile(monkeypatch, eager, capfd):
    """It goes on interpreted and says why."""
    monkeypatch.setattr(switch, "RECIPE", "tests.support.small_loop:broken")
    scenario = Scenario(protocol="unordered", **LONG)
    expected = simulate(scenario, tier="interpreted")
    made = Watched(scenario)
    found = made.go(progress=made.wait)
    assert made.switch.is_interpreted
    assert found.deliveries == expected.deliveries
    (said,) = capfd.readouterr().err.splitlines()
    assert said.startswith("precedes: unordered stays interpreted, which is slow: ")
    assert "small_loop.py:" in said
