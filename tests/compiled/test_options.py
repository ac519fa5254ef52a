"""Versions of Numba and switches: each has a cache of its own, and none changes a result."""

import tomllib

import pytest

from precedes.compiled import options
from tests.compiled import test_compiled
from tests.support import edited, ways
from tests.support.places import ROOT

PUBLIC = {"error_model", "boundscheck"}
PRIVATE = {"_nrt", "no_cfunc_wrapper", "forceinline"}


@pytest.mark.parametrize(
    ("version", "private", "shortcuts"),
    [
        ("0.59.1", False, False),
        ("0.60.0", True, False),
        ("0.61.2", True, False),
        ("0.62.0", True, True),
        ("0.68.1", True, True),
        ("0.69.0rc1", False, False),
        ("1.0", False, False),
        ("1.65.1", False, False),
        ("main", False, False),
    ],
)
def test_versions_that_nobody_tried_get_nothing_private(monkeypatch, version, private, shortcuts):
    monkeypatch.setattr(options, "numba_version", lambda: version)
    assert options.uses_private() == options.uses_references() == private
    assert options.uses_shortcuts() == shortcuts
    assert set(options.helper_options(inline=True)) == PUBLIC | (PRIVATE if private else set())


def test_the_versions_tried_are_those_that_the_package_asks_for():
    first, last = (".".join(map(str, version)) for version in options.TESTED)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"numba>={first},<{last}" in project["dependencies"]
    assert options.TESTED[0] <= options.SHORTENED[0] < options.SHORTENED[1] <= options.TESTED[1]


# Another version of Numba by its word alone, before anybody has asked.
OF_VERSION = """
import importlib.metadata
real = importlib.metadata.version
importlib.metadata.version = lambda name: {version!r} if name == "numba" else real(name)
"""
WHERE = "from precedes import small_loop; print(small_loop.ENTRY.directory(None, ()))"
REFUSED = "0.99.0"


@pytest.fixture
def small(tmp_path):
    """The package with a loop that compiles in a moment."""
    tree = test_compiled.Tree(tmp_path)
    (tree.package / "small_loop.py").write_text(test_compiled.LOOP)
    (tree.package / "small_helper.py").write_text(test_compiled.HELPER)
    return tree


def switched(name):
    """The environment that turns one switch to what it usually is not."""
    return {f"PRECEDES_{name.upper()}": str(int(not getattr(options.Switches(), name)))}


def test_every_switch_and_every_version_has_a_cache_of_its_own(small):
    places = {"as it is": small.run("-c", WHERE)[0]}
    for name in options.Switches._fields:
        places[name] = small.run("-c", WHERE, **switched(name))[0]
    for version in ("0.61.2", "0.67.0", "0.67.1", REFUSED):
        places[version] = small.run("-c", OF_VERSION.format(version=version) + WHERE)[0]
    assert len(set(places.values())) == len(places), places


@pytest.mark.gate
def test_a_version_that_nobody_tried(small):
    """It compiles, and what it compiled is found again."""
    ask = OF_VERSION.format(version=REFUSED) + test_compiled.ASK
    assert small.run("-c", ask) == ("1\n", "")
    files = {path: path.read_bytes() for path in small.cache.rglob("*.nb?")}
    assert files
    assert small.run("-c", ask) == ("1\n", "")
    assert {path: path.read_bytes() for path in small.cache.rglob("*.nb?")} == files
    small.run("-c", test_compiled.ASK)
    assert {path: path.read_bytes() for path in files} == files, "the known version has others"


# The loop of test_pointers.py, whose arrays a step would be handed by reference.
HANDED = """
import numpy as np
from precedes.compiled import builder
from tests.compiled.test_pointers import ENTRY, make, probe
body = ENTRY.prepare(None, (), make(1), np.zeros(5, np.int64))
for seed in range(1, 31):
    plain, handed = (make(seed), np.zeros(5, np.int64)), (make(seed), np.zeros(5, np.int64))
    assert ENTRY.bind(body, *handed)() == ENTRY.bind(probe, *plain)(), seed
    assert str(handed) == str(plain), seed
print(type(builder.by_reference((make(1),), (0,))[0]).__name__)
"""
OTHER_ORDER = ("", '(..., "nitems", "itemsize", ...)', '(..., "itemsize", "nitems", ...)')
OLD = ("", "TESTED: Final = ...", "TESTED: Final = ((0, 50), (0, 60))")


@pytest.mark.gate
@pytest.mark.parametrize(
    ("file", "edit"),
    [
        pytest.param("pointers.py", OTHER_ORDER, id="another layout"),
        pytest.param("options.py", OLD, id="another version"),
    ],
)
def test_tuples_by_value_where_the_layout_is_not_known(tmp_path, file, edit):
    """The same results, also where Numba is not what this package was written for."""
    tree = test_compiled.Tree(tmp_path)
    edited.change(tree.package / "compiled" / file, edit)
    assert tree.run("-c", HANDED)[0] == "Outer\n"


COUNTED = {"PRECEDES_REFERENCE_COUNTING": "1"}
CHECKED = {**COUNTED, "PRECEDES_BOUNDS_CHECKS": "1"}
# As Numba compiles by itself, which takes a minute; and with nothing that is private to it.
UNSHORTENED = {"PRECEDES_SHORTCUTS": "0"}
PLAIN = {"PRECEDES_PRIVATE": "0"}
BY_VALUE = {"PRECEDES_REFERENCES": "0"}


@pytest.mark.swarm
@pytest.mark.parametrize("protocol", ["vector", "vcube", "bundled"])
@pytest.mark.parametrize("switches", [COUNTED, CHECKED, UNSHORTENED, PLAIN])
def test_switches_change_no_trace(protocol, switches):
    """Nor a count; and it was not the same code that ran twice."""
    compare(ways.simulated(protocol), ways.elsewhere("simulated", protocol, **switches))


@pytest.mark.swarm
@pytest.mark.parametrize("protocol", ["vector", "vcube", "hashed"])
@pytest.mark.parametrize("switches", [CHECKED, UNSHORTENED, PLAIN, BY_VALUE])
def test_switches_change_no_frame(protocol, switches):
    """Nor a delivery, nor a row of the log."""
    compare(ways.live(protocol), ways.elsewhere("live", protocol, **switches))


def compare(one, other):
    """The same results of code that is not the same."""
    assert one[0] == other[0], f"seeds {ways.SEEDS}, {ways.LIVE_SEEDS}"
    assert not set(one[1]) & set(other[1]), "both ran code from the same file"
    assert not set(one[1].values()) & set(other[1].values()), "both ran the same code"
