"""A run that begins interpreted and changes to compiled code: the same to the last event."""

import itertools
import json

import numpy as np
import pytest

from precedes import compiled, registry, waiting
from precedes.compiled import compiler
from precedes.contract import Capacity
from precedes.sim import Scenario, run, simulate, switch
from precedes.sim.engine import layout, loop, network
from precedes.sim.run import Run
from precedes.sim.switch import Switch
from precedes.testing import Collector, random_scenario
from tests.support import commands, small_loop
from tests.support.processes import await_true

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
            code = switch.code_of(protocol, name=protocol.name)
            self._use(code.wait(world, state, 0))
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
    del result["cpu_s"], result["wall_s"], result["tier"]
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


def test_progress_is_reported_although_no_slice_comes_to_its_end(little):
    """The loop stops for delays before."""
    shares = []
    scenario = Scenario(protocol="vector", nodes=8, messages=400)
    Run(scenario).go(tier="interpreted", progress=shares.append)
    assert shares
    assert 0 < shares[0] < 1


LONG = {"nodes": 8, "messages": 400, "oracle": False}


@pytest.fixture
def warm(monkeypatch):
    """The directory of code that tests need not compile again."""
    for protocol in ("vector", "unordered"):
        simulate(Scenario(protocol=protocol, nodes=2, messages=0), tier="compiled")
    monkeypatch.setenv("WARM_CACHE", str(compiled.cache_root()))


@pytest.fixture
def fresh(warm, monkeypatch, empty_cache):
    """The cache is empty, nobody has said how code is to run, and compilers take what is warm."""
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    monkeypatch.setattr(waiting, "_printed", set())
    monkeypatch.setattr(loop.ENTRY, "_dispatchers", {})
    for kind in compiler.OF_PROTOCOLS:
        monkeypatch.setitem(compiler.RECIPES, kind, f"tests.support.small_loop:{kind}")
    return empty_cache


class Watched(Run):
    """A run whose switch can be seen."""

    def _make_switch(self, tier):
        self.switch = super()._make_switch(tier)
        return self.switch


def without_times(result):
    found = result.as_dict()
    del found["wall_s"], found["cpu_s"], found["tier"]
    return found


def test_a_run_goes_on_compiled_when_its_compiler_is_done(fresh, monkeypatch):
    """A compiler that takes what is compiled already: a real process, in a second."""
    monkeypatch.setattr(switch, "LOOK_S", 0.0)
    scenario = Scenario(protocol="vector", **LONG)
    expected = simulate(scenario, tier="interpreted")
    made = Watched(scenario)
    slices = []

    def note(share):
        slices.append(share)
        small_loop.await_over(switch.code_of(made.protocol, name="vector"))

    found = made.go(progress=note)
    assert 1 <= len(slices) < 3200 / switch.SLICE_EVENTS_INTERPRETED, "not before it had begun"
    assert (expected.tier, found.tier) == ("interpreted", "mixed")
    assert without_times(found) == without_times(expected)
    assert simulate(scenario).tier == "compiled"


def test_a_long_run_leaves_the_processor_to_its_compiler(fresh, monkeypatch, capfd):
    """It waits as soon as it knows how long it is, and says so."""
    monkeypatch.setattr(switch, "LOOK_S", 0.0)
    monkeypatch.setattr(switch, "FIRST_LOOK_CPU_S", 0.0)
    monkeypatch.setattr(switch, "COMPILATION_CPU_S", 0.0)
    scenario = Scenario(protocol="vector", **LONG)
    found = Watched(scenario).go()
    assert found.tier == "mixed"
    line = "compiling vector, which is faster than interpreting (then cached)"
    assert capfd.readouterr().err == f"precedes: {line}\n"
    assert without_times(found) == without_times(simulate(scenario, tier="interpreted"))


def test_runs_ahead_are_waited_for_before_the_first_event(fresh):
    scenario = Scenario(protocol="vector", **LONG)
    assert Run(scenario, ahead_cpu_s=switch.COMPILATION_CPU_S + 1).go().tier == "compiled"


def test_the_first_use_has_the_protocol_compiled(fresh):
    """Also one that is over at once; what waits for runs of it then finds it compiled."""
    command = ("simulate", "vector", "--nodes", "4", "--messages", "20", "--json")
    first = simulate(Scenario(protocol="vector", nodes=4, messages=20))
    assert first.tier == "interpreted"
    code = switch.code_of(registry.load("vector"), name="vector")
    small_loop.await_over(code)
    second = json.loads(commands.run(*command).stdout)
    assert (second["tier"], second["deliveries"]) == ("compiled", first.deliveries)


@pytest.mark.gate
def test_the_second_run_is_compiled(monkeypatch, empty_cache):
    """With a real compiler, that has survived the first command; nothing else differs."""
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    line = ("simulate", "unordered", "--nodes", "4", "--messages", "20", "--json")
    first = commands.run(*line)
    (log,) = empty_cache.glob("compilers/unordered-simulator-*.log")
    said = "unordered ran interpreted; compiled it is some 500 times as fast"
    works = f"a compiler works in the background, see {log}"
    assert first.stderr == f"precedes: {said}; {works}\n"
    code = switch.code_of(registry.load("unordered"), name="unordered")
    await_true(code.is_cached, timeout_s=300.0)
    second = commands.run(*line)
    assert second.stderr == ""
    found, expected = json.loads(second.stdout), json.loads(first.stdout)
    assert (expected["tier"], found["tier"]) == ("interpreted", "compiled")
    for result in (found, expected):
        del result["tier"], result["cpu_s"], result["wall_s"]
    assert found == expected


def test_what_is_to_be_distributed_is_compiled_first(fresh, capfd):
    """If that is worth it; a protocol that runs on a radio is never compiled."""
    enough_s = switch.COMPILATION_CPU_S + 1
    switch.wait_for_code({"vector": 1.0, "mobile": enough_s})
    assert capfd.readouterr().err == ""
    switch.wait_for_code({"vector": enough_s, "mobile": enough_s, "unordered": enough_s})
    line = "compiling vector, unordered first, which is faster than interpreted runs (then cached)"
    assert capfd.readouterr().err == f"precedes: {line}\n"
    assert simulate(Scenario(protocol="unordered", nodes=3, messages=9)).tier == "compiled"
    switch.wait_for_code({"vector": enough_s})
    assert capfd.readouterr().err == ""


def expected_left(monkeypatch, taken_s, done, ahead_s=0.0):
    """The estimated remaining interpreted time of a run."""
    found = []
    monkeypatch.setattr(Switch, "_look", lambda self, *_, left_s: found.append(left_s))
    made = Switch(registry.load("vector"), name="vector", tier="auto", ahead_cpu_s=ahead_s)
    made.clock.cpu_s = lambda: taken_s
    made.look(None, None, done=done)
    return found[0]


def test_how_long_a_run_will_take(monkeypatch):
    monkeypatch.setenv("PRECEDES_TIER", "auto")
    assert expected_left(monkeypatch, 0.1, 1e-6) == 0.0, "too early to tell"
    assert expected_left(monkeypatch, 1.0, 0.25) == 3.0
    assert expected_left(monkeypatch, 7.0, 0.0) == 7.0, "no progress that can be seen"
    assert expected_left(monkeypatch, 1.0, 0.5, ahead_s=9.0) == 10.0


def test_a_protocol_that_does_not_compile(monkeypatch, fresh, capfd):
    """It goes on interpreted and says why."""
    monkeypatch.setattr(switch, "FIRST_LOOK_CPU_S", 0.0)
    monkeypatch.setattr(switch, "COMPILATION_CPU_S", 0.0)
    monkeypatch.setitem(compiler.RECIPES, "simulator", "tests.support.small_loop:failing")
    scenario = Scenario(protocol="unordered", **LONG)
    expected = simulate(scenario, tier="interpreted")
    found = Run(scenario).go()
    assert found.tier == "interpreted"
    assert without_times(found) == without_times(expected)
    _waits, fails = capfd.readouterr().err.splitlines()
    reason = "it does not compile"
    assert fails == f"precedes: unordered stays interpreted, which is slow: {reason}"
