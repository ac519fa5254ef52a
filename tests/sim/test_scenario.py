"""A scenario from a file or from code: read as written, refused in one line, echoed in full."""

import dataclasses
import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from precedes.errors import UserError
from precedes.sim import Fault, Scenario, from_toml, memory, simulate
from precedes.sim.runs import open_run
from precedes.sim.scenario import NETWORK, TOP, WORKLOAD
from precedes.testing import random_scenario


def literal(value):
    """A value as TOML."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    return json.dumps(value)


def to_toml(scenario):
    """A file that says everything about a scenario."""
    fields = {name: v for name, v in vars(scenario).items() if v is not None}
    lines = [f"{name} = {literal(fields[name])}" for name in TOP if name in fields]
    for section, names in (("workload", WORKLOAD), ("network", NETWORK)):
        lines.append(f"[{section}]")
        for name in names:
            field = "workload" if name == "kind" else name
            if field in fields:
                lines.append(f"{name} = {literal(fields[field])}")
    lines.append("[parameters]")
    lines += [f"{name} = {literal(value)}" for name, value in scenario.parameters.items()]
    for fault in scenario.faults:
        lines.append("[[faults]]")
        lines += [f"{name} = {literal(value)}" for name, value in vars(fault).items()]
    return "\n".join(lines) + "\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "scenario.toml"


def test_round_trip(path):
    for seed in range(50):
        scenario = random_scenario("probabilistic", seed, hostile=True)
        scenario = scenario.replace(parameters={"entries": 20 + seed}, oracle=seed % 2 == 0)
        path.write_text(to_toml(scenario))
        assert from_toml(path) == scenario, path.read_text()


def test_a_file_may_say_little(path):
    path.write_text('protocol = "vector"\nnodes = 3\n')
    assert from_toml(path) == Scenario(protocol="vector", nodes=3)


def test_a_file_can_say_everything():
    """Every field has its place in a file."""
    places = {*TOP, *WORKLOAD, *NETWORK, "parameters", "faults", "workload"} - {"kind"}
    assert places == {field.name for field in dataclasses.fields(Scenario)}


def test_replace_checks_again():
    scenario = Scenario(protocol="vector", nodes=3, messages=5)
    assert scenario.replace(nodes=4).nodes == 4
    with pytest.raises(UserError, match="at least 2 nodes"):
        scenario.replace(nodes=1)


HEAD = 'protocol = "vector"\nnodes = 3\n'

# Contents of a file, and the error for its author; the line is counted from the top of the file.
BAD_FILES = {
    'protocol = "vector"\nnodes = = 3\n': r"line 2",
    'protocol = "vector\nnodes = 3\n': r"line 1",
    HEAD + "[network\n": r"line 3",
    HEAD + "nodes = 4\n": r"line 3",
    'nodes = 3\nprotokol = "vector"\n': r":2: unknown name 'protokol' .did you mean 'protocol'",
    HEAD + "[network]\nspeed = 3\n": r":4: unknown name 'speed'; \[network\] has delay",
    HEAD
    + "[workload]\nmessages = 3\nrates = 3\n": r":5: unknown name 'rates' .did you mean 'rate'",
    HEAD + '[[faults]]\nkind = "pause"\nnode = 1\nlasts = 3\n': r":6: unknown name 'lasts'",
    HEAD + "[[faults]]\nnode = 1\n": r":3: a fault needs a kind",
    HEAD + "faults = 3\n": r":3: a fault is a table",
    HEAD + "faults = [3]\n": r":3: a fault is a table",
    HEAD + "network = 3\n": r":3: network must be a table",
    HEAD + "parameters = 3\n": r":3: parameters takes a table",
    "nodes = 3\n": 'protocol is missing: add it at the top, as protocol = "vector"',
    'protocol = "vector"\n': "nodes is missing",
    "": "protocol is missing",
    'protocol = "vector"\nnodes = "three"\n': r":2: nodes takes a whole number, not 'three'",
    'protocol = "vector"\nnodes = 3.0\n': r":2: nodes takes a whole number, not 3.0",
    'protocol = "vector"\nnodes = true\n': r":2: nodes takes a whole number, not True",
    "protocol = 3\nnodes = 3\n": r":1: protocol takes text, not 3",
    HEAD + "oracle = 1\n": r":3: oracle takes true or false, not 1",
    HEAD + "[workload]\nrate = -1.0\n": r":4: rate must be above 0",
    HEAD + "[workload]\nrate = nan\n": r":4: rate takes a number, not nan",
    HEAD + "[workload]\nrate = inf\n": r":4: rate takes a number, not inf",
    HEAD + "[network]\nloss = 1.5\n": r":4: loss is a probability below 1",
    HEAD + '[network]\nper = "packet"\n': r":4: per is one of use, link, .*not 'packet'",
    HEAD + '[[faults]]\nkind = "flood"\nnode = 1\n': r":3: .*one of crash, pause, cut, not 'flood'",
    HEAD + '[[faults]]\nkind = "crash"\nnode = 3\n': r":3: .*node 3, but nodes are 0\.\.2",
    HEAD + '[[faults]]\nkind = "crash"\nnode = "b"\n': r":5: node takes a whole number",
    HEAD + '[[faults]]\nkind = "cut"\nnodes = [0]\nfor_s = 1.0\n': "needs both nodes and others",
    HEAD + '[[faults]]\nkind = "cut"\nnodes = 0\n': r":5: nodes takes a list of",
    HEAD
    + '[[faults]]\nkind = "crash"\nnode = 1\n' * 2
    + "at_s = -1.0\n": r":6: a crash has a time",
    HEAD + '[[faults]]\nkind = "pause"\nnode = 1\n': "needs for_s above 0",
    HEAD + '[[faults]]\nkind = "crash"\nnode = 1\ndetection_ms = [3.0]\n': "is a pair of delays",
    HEAD + '[[faults]]\nkind = "crash"\nnode = 1\ndetection_ms = [3.0, 1.0]\n': "smaller first",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_bad_files_get_one_line(path, text):
    path.write_text(text)
    with pytest.raises(UserError, match=BAD_FILES[text]) as raised:
        from_toml(path)
    assert str(raised.value).startswith(str(path))


def test_files_that_are_none(path, tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*: No such file"):
        from_toml(path)
    with pytest.raises(UserError, match=r"cannot read .*: Is a directory"):
        from_toml(tmp_path)
    path.write_bytes(b'protocol = "\xff"\n')
    with pytest.raises(UserError, match=r"is not UTF-8 text \(byte 12\)"):
        from_toml(path)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"nodes": 1}, "at least 2 nodes, not 1"),
        ({"nodes": 65_537}, "at most 65536 nodes"),
        ({"messages": -1}, "messages must not be negative"),
        ({"duration_s": 0.0}, "duration must be above 0"),
        ({"duration_s": 1e8}, "duration must be above 0 and at most"),
        ({"rate": 0.0}, "rate must be above 0"),
        ({"rate": "fast"}, "rate takes a number, not 'fast'"),
        ({"skew": -1.0}, "skew must be between 0 and 10"),
        ({"seed": -1}, "seed must be between 0 and"),
        ({"seed": 1 << 63}, "seed must be between 0 and"),
        ({"seed": 1.5}, "seed takes a whole number"),
        ({"horizon_s": -1.0}, "horizon_s must be above 0"),
        ({"duplication": -0.1}, "duplication is a probability"),
        ({"processing_ms": -1.0}, "processing_ms must not be negative"),
        ({"mtu_bytes": -1}, "mtu_bytes must be between 0"),
        ({"mtu_bytes": 69}, "an MTU of 69 bytes holds no message"),
        ({"payload_bytes": 1 << 31}, "payload_bytes must be between 0"),
        ({"fifo": 1}, "fifo takes true or false"),
        ({"parameters": [1]}, "parameters takes a table"),
        ({"faults": "crash"}, "faults takes a list of faults"),
        ({"faults": (1,)}, "faults takes a list of faults"),
        ({"delay": "normal:100"}, "delay 'normal:100' is not understood: use constant:MS"),
        ({"delay": "normal:a:b"}, "is not understood"),
        ({"delay": "normal:nan:1"}, "is not understood"),
        ({"delay": "normal:-5:1"}, "is not understood"),
        ({"delay": "swift:1"}, "is not understood"),
        ({"delay": "uniform:9:1"}, "the lower bound comes first"),
        ({"delay": "lognormal:0:1"}, "median of a lognormal delay must be above 0"),
        ({"parameters": {"size": 3}}, "vector has no parameter 'size': it has none"),
    ],
)
def test_bad_fields_get_one_line(fields, match):
    with pytest.raises(UserError, match=match):
        simulate(Scenario(**{"protocol": "vector", "nodes": 3, "messages": 1, **fields}))


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"entries": "many"}, "entries takes a whole number, not 'many'"),
        ({"entries": 2.5}, "entries takes a whole number, not 2.5"),
        ({"entries": True}, "entries takes a whole number, not True"),
        ({"entries": 0}, "entries must be at least 1"),
        ({"entries": 10**30}, "entries must be"),
        ({"per_process": 51}, "per_process must be between 1 and entries"),
        ({"clocks": 3}, "no parameter 'clocks': it has entries, per_process"),
    ],
)
def test_bad_parameters_get_one_line(parameters, match):
    scenario = Scenario(protocol="probabilistic", nodes=3, messages=1, parameters=parameters)
    with pytest.raises(UserError, match=match):
        simulate(scenario)


def test_a_run_too_large_for_its_memory():
    huge = Scenario(protocol="vector", nodes=60_000, messages=1, memory_max_bytes=8 << 30)
    with pytest.raises(UserError, match=r"needs .* GiB, more than memory_max_bytes"):
        simulate(huge)
    small = Scenario(protocol="vector", nodes=50, messages=20_000, rate=1e5, loss=0.01)
    with pytest.raises(UserError, match="memory_max_bytes"):
        simulate(small.replace(memory_max_bytes=1 << 20, messages=500), tier="interpreted")


def test_the_memory_of_a_run_is_its_share_of_the_machines(monkeypatch):
    monkeypatch.setattr(memory, "machine_bytes", lambda: 8 << 30)
    base = Scenario(protocol="vector", nodes=15_000, messages=1)
    assert memory.limit_bytes(base, sharers=1) == 6 << 30
    assert memory.limit_bytes(base, sharers=3) == 2 << 30
    assert memory.limit_bytes(base.replace(memory_max_bytes=7 << 30), sharers=3) == 7 << 30
    with pytest.raises(UserError, match=r"memory_max_bytes \(1.0 GiB, its share of this machine's"):
        open_run(base, sharers=6)


def test_every_drawn_parameter_is_echoed(tmp_path):
    """Fields, defaults of parameters, and what the seed drew: enough to repeat the run."""
    table = tmp_path / "round-trips"
    table.write_text("0 10 20\n10 0 30\n20 30 0\n")
    scenario = Scenario(
        protocol="probabilistic",
        nodes=2,
        duration_s=1.0,
        workload="random:5:50",
        delay=f"matrix:{table}",
        parameters={"entries": "7"},
        faults=(Fault("crash", node=1, at_s=0.5, detection_ms=(1.0, 9.0)),),
    )
    echo = simulate(scenario, tier="interpreted").scenario
    assert {field.name for field in dataclasses.fields(Scenario)} <= set(echo)
    assert echo["parameters"] == {"entries": 7, "per_process": 2, "detector": "none"}
    assert set(echo["drawn"]) == {"latency", "detection_ms", "targets_per_s"}
    assert len(echo["drawn"]["latency"]["hosts"]) == 2
    assert json.loads(json.dumps(echo))["workload"] == "random:5:50"
    uniform = scenario.replace(delay="uniform:1:2", per="link")
    assert set(simulate(uniform, tier="interpreted").scenario["drawn"]["link_ms"]) == {
        "min", "median", "max",
    }  # fmt: skip


NUMBERS = st.one_of(
    st.floats(),
    st.integers(-5, 5),
    st.sampled_from([0, 1e-320, 1e-9, 0.3, 1e7, 1e12, 1e300, 10**30, 10**400, -1, 1 << 62]),
)
LAWS = st.sampled_from(
    ["constant", "uniform", "normal", "lognormal", "exponential", "matrix", "matrix_s"]
)
WORKLOADS = st.sampled_from(["poisson", "periodic", "window", "bell", "random", "replay", ""])
TEXTS = st.builds(
    lambda name, numbers: ":".join([name, *map(str, numbers)]),
    LAWS | WORKLOADS,
    st.lists(st.one_of(NUMBERS, st.text(max_size=3)), max_size=3),
)
ANYTHING = st.one_of(NUMBERS, TEXTS, st.booleans(), st.none(), st.lists(NUMBERS, max_size=2))
NAMES = sorted({field.name for field in dataclasses.fields(Scenario)} - {"nodes", "faults"})
SMALL = {"protocol": "unordered", "nodes": 3, "messages": 4, "memory_max_bytes": 1 << 24}


@st.composite
def wild(draw):
    """Fields of a small scenario, some of them replaced by anything."""
    chosen = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    fields = {**SMALL, **{name: draw(ANYTHING) for name in chosen}}
    if draw(st.booleans()):
        fields["delay"] = draw(TEXTS)
    if draw(st.booleans()):
        fields["workload"] = draw(TEXTS)
    return fields


def outcome(fields):
    """The result of a run, or the line with which it was refused."""
    try:
        return simulate(Scenario(**fields))
    except UserError as error:
        return str(error)


@pytest.mark.usefixtures("engine")
@given(wild())
@settings(max_examples=400)
@example({**SMALL, "messages": 10**310})
@example({**SMALL, "rate": 10**400})
@example({**SMALL, "rate": 1e-320, "workload": "periodic"})
@example({**SMALL, "processing_ms": 1e300})
@example({**SMALL, "transmission_ms": 1e13})
@example({**SMALL, "bandwidth_bytes_per_s": 1e-300})
@example({**SMALL, "bandwidth_bytes_per_s": 1e-3, "payload_bytes": 1 << 30})
@example({**SMALL, "bandwidth_bytes_per_s": 1.2e4, "payload_bytes": 1 << 30})
@example({**SMALL, "delay": "lognormal:100:1000"})
@example({**SMALL, "delay": "lognormal:1e11:1e11"})
@example({**SMALL, "delay": "normal:9e11:9e11"})
@example({**SMALL, "messages": 10**30, "workload": "window:100"})
@example({**SMALL, "protocol": "\0.py"})
@example({**SMALL, "faults": (Fault("crash", node=0, after_sends=10**30),)})
def test_anything_is_run_or_refused_in_one_line(fields):
    found = outcome(fields)
    if isinstance(found, str):
        assert "\n" not in found
    else:
        assert found.deliveries <= (found.nodes - 1) * found.broadcasts + (found.duplicates or 0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("vectr", " (did you mean 'vector'?)"), ("", ""), ("Vector", " (did you mean 'vector'?)")],
)
def test_a_misspelt_protocol_is_refused(name, hint):
    with pytest.raises(UserError) as raised:
        Scenario(protocol=name, nodes=3)
    assert str(raised.value).startswith(f"there is no protocol {name!r}{hint}: choose one of ")


def test_a_protocol_of_ones_own_is_looked_for_when_it_runs(tmp_path, monkeypatch):
    for name in ("mine.py", "./mine", str(tmp_path)):
        assert Scenario(protocol=name, nodes=3).protocol == name
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="there is no protocol 'folder'"):
        Scenario(protocol="folder", nodes=3)
    (tmp_path / "folder/__init__.py").touch()
    assert Scenario(protocol="folder", nodes=3).protocol == "folder"


def test_a_misspelt_protocol_of_a_file_has_its_line(tmp_path):
    (tmp_path / "s.toml").write_text('nodes = 3\nprotocol = "vcub"\n')
    with pytest.raises(UserError, match=r"s\.toml:2: there is no protocol 'vcub' .*'vcube'"):
        from_toml(tmp_path / "s.toml")


def test_lists_are_as_good_as_tuples():
    cut = Fault(kind="cut", nodes=[0], others=[1, 2], for_s=1.0)
    scenario = Scenario(protocol="vector", nodes=3, faults=[cut])
    twin = Fault(kind="cut", nodes=(0,), others=(1, 2), for_s=1.0)
    assert scenario == Scenario(protocol="vector", nodes=3, faults=(twin,))
    with pytest.raises(UserError, match="faults takes a list of faults, not"):
        Scenario(protocol="vector", nodes=3, faults=["crash"])
