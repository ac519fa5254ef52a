"""The compiled engine: never an old result, the same with every option, one line as it builds."""

import json
import os
import shutil
from pathlib import Path

import pytest

from precedes import compiled, sources
from precedes.live.member import step
from precedes.pipeline import execute
from precedes.protocols import vcube, vector
from precedes.sim.engine import loop
from tests.support import edited, terminals
from tests.support.processes import python

COMPARED = ("protocol", "broadcasts", "deliveries", "packets", "bytes_sent", "latency", "extra")
LINE = "precedes: compiling {} for first use (some seconds; then cached)\n"


class Tree:
    """A copy of the package and a cache of its own, to edit and to run in other processes."""

    def __init__(self, directory):
        self.package = directory / "src" / "precedes"
        self.cache = directory / "cache"
        shutil.copytree(sources.PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        # Python validates bytecode by size and second alone; the edits here keep both.
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(directory / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PRECEDES_CACHE": str(self.cache),
        }

    def run(self, *arguments, terminal=False, **environment):
        """The output of a Python process, and its standard error."""
        if terminal:
            return terminals.run(*arguments, **{**self.environment, **environment})
        done = python(*arguments, env={**self.environment, **environment})
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    def simulate(self, protocol):
        """The result of a tiny run by the command, without its times, and what was said."""
        line = ["-m", "precedes.cli", "simulate", protocol, "--nodes", "3", "--messages", "20"]
        out, said = self.run(*line, "--delay", "constant:0", "--json")
        result = json.loads(out)
        return {name: result[name] for name in COMPARED}, said


def change(path, old, new):
    """Edit a file so that neither its size nor its times tell."""
    before, text = path.stat(), path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


# The same run twice in one process, with an edit of the protocol's file in between.
TWICE = """
import json, sys
from precedes import Scenario, simulate
path, old, new = sys.argv[1:]
scenario = Scenario(protocol=path, nodes=3, messages=20, delay="constant:0")
print(json.dumps(simulate(scenario).as_dict()))
from tests.compiled.test_compiled import change
from pathlib import Path
change(Path(path), old, new)
print(json.dumps(simulate(scenario).as_dict()))
"""


@pytest.mark.swarm
def test_an_edit_is_never_answered_from_the_cache(tree, tmp_path):
    """The whole way, a user's protocol through the command; edits of the package are below."""
    protocol = Path(edited.protocol(tmp_path, "unordered", rename="mine"))
    before, after = "    return 8\n", "    return 9\n"
    out, said = tree.run("-c", TWICE, protocol, before, after, terminal=True)
    line = LINE.format("the simulator").replace("\n", "\r\n")
    assert said == line, "one, although it was compiled twice"
    first, second = [json.loads(line) for line in out.splitlines()]
    assert second["bytes_sent"] == first["bytes_sent"] + first["packets"]

    later, said = tree.simulate(protocol)
    assert later == {name: second[name] for name in COMPARED}
    assert said == "", "no line when it comes from the cache"
    change(protocol, after, before)
    earlier, said = tree.simulate(protocol)
    assert earlier == {name: first[name] for name in COMPARED}
    assert said == "", "what was compiled before the edit is still there"


# A loop that compiles in a moment, with a helper in another file, as the engine has.
LOOP = """
from precedes import compiled, small_helper
def run(x):
    return small_helper.add(x)
ENTRY = compiled.Entry(run, label="a small loop")
def walk(x):
    return x
OTHER = compiled.Entry(walk, label="a small loop")
"""
HELPER = """
from precedes import compiled, sources
@compiled.function()
def add(x):
    return x + 1
"""
ASK = "from precedes import small_loop; print(small_loop.ENTRY.prepare(None, (), 0)(0))"


@pytest.fixture
def small(tree):
    (tree.package / "small_loop.py").write_text(LOOP)
    (tree.package / "small_helper.py").write_text(HELPER)
    return tree


@pytest.mark.gate
def test_edits_of_helpers(small):
    both = f"{ASK}; print(small_loop.OTHER.prepare(None, (), 0)(0))"
    assert small.run("-c", both) == ("1\n0\n", "")
    files = list(small.cache.rglob("*.nb?"))
    assert files
    assert small.run("-c", both) == ("1\n0\n", "")
    assert list(small.cache.rglob("*.nb?")) == files
    change(small.package / "small_helper.py", "x + 1", "x + 2")
    assert small.run("-c", ASK)[0] == "2\n"


@pytest.mark.gate
def test_an_edit_next_to_what_is_compiled(small):
    """Nothing is compiled again for it."""
    small.run("-c", ASK)
    files = list(small.cache.rglob("*.nb?"))
    change(small.package / "cli/main.py", "The command line", "The c0mmand line")
    assert small.run("-c", ASK)[0] == "1\n"
    assert list(small.cache.rglob("*.nb?")) == files


VERSION = "from precedes.compiled import sources_digest; print(sources_digest())"


def test_an_edit_next_to_runs(tree):
    """Finished runs stay what they are after an edit of what only asks for them or shows them."""
    version = tree.run("-c", VERSION)[0]
    for name in ("cli/main.py", "viewer/page.py"):
        with (tree.package / name).open("a") as file:
            file.write("# edited\n")
    assert tree.run("-c", VERSION)[0] == version
    with (tree.package / "parts/topology.py").open("a") as file:
        file.write("# edited\n")
    assert tree.run("-c", VERSION)[0] != version


def test_no_run_imports_what_is_next_to_runs():
    protocols = (sources.PACKAGE / "protocols").rglob("*.py")
    parts = sources.closure([Path(execute.__file__), *protocols])
    assert not [path for path in parts if sources.is_outside_runs(path)]


def test_what_a_loop_is_made_of():
    """Its imports and the protocol's, and nothing else."""
    engine_parts, step_parts = (
        {path.relative_to(sources.PACKAGE).as_posix() for path in entry.parts(state, ())}
        for entry, state in ((loop.ENTRY, vector.State), (step.ENTRY, vcube.State))
    )
    used = {"sim/engine/queue.py", "parts/clocks.py", "protocols/vector/__init__.py"}
    assert used <= engine_parts
    assert (
        not {"cli/main.py", "sim/run.py", "protocols/vcube/__init__.py", "parts/topology.py"}
        & engine_parts
    )
    vcube_parts = {f"protocols/vcube/{name}.py" for name in ("__init__", "recovery", "state")}
    assert vcube_parts | {"parts/topology.py", "parts/pool.py"} <= step_parts
    assert "protocols/vector/__init__.py" not in step_parts


@pytest.mark.gate
def test_an_edit_while_a_process_runs(small):
    """Code that this process compiles is outdated, and must not be stored as new."""
    helper = small.package / "small_helper.py"
    edit = f"open({str(helper)!r}, 'w').write({HELPER.replace('x + 1', 'x + 2')!r})"
    slow = ASK.replace("; print", f"; {edit}; print")
    assert small.run("-c", slow)[0] == "1\n"
    assert small.run("-c", ASK)[0] == "2\n"


@pytest.mark.gate
def test_machines_share_a_cache(small, tmp_path):
    """Wherever the package lies and whenever it was unpacked; each processor has its own code."""
    assert small.run("-c", ASK) == ("1\n", "")
    (first,) = small.cache.rglob("*.nbc")
    other = tmp_path / "other" / "place"
    shutil.copytree(small.package, other / "precedes")
    for path in other.rglob("*.py"):
        os.utime(path, ns=(0, 0))
    assert small.run("-c", ASK, PYTHONPATH=str(other)) == ("1\n", "")
    assert set(small.cache.rglob("*.nbc")) == {first}
    assert small.run("-c", ASK, NUMBA_CPU_NAME="generic") == ("1\n", "")
    both = set(small.cache.rglob("*.nbc"))
    assert len(both) == 2
    content = first.read_bytes()
    (second,) = both - {first}
    first.write_bytes(second.read_bytes())  # another processor's code under this one's name
    assert small.run("-c", ASK) == ("1\n", "")
    assert first.read_bytes() != second.read_bytes()
    first.write_bytes(content[:-9])
    assert small.run("-c", ASK) == ("1\n", "")
    assert len(first.read_bytes()) > len(content[:-9])
    assert set(small.cache.rglob("*")) >= both


@pytest.mark.parametrize("place", ["file", "/proc"])
def test_no_place_for_a_cache(small, tmp_path, place):
    """It compiles in memory and says so: a cache is a convenience."""
    (tmp_path / "file").touch()
    out, said = small.run("-c", ASK, PRECEDES_CACHE=str(tmp_path / place / "below"))
    assert out == "1\n"
    (line,) = said.splitlines()
    assert line.startswith("precedes: cannot keep compiled code in ")


def test_plain_python_is_left_behind():
    """Every decorated function can be called, and stepped through, without a compiler."""

    @compiled.generic()
    def greet(state, times):
        """Required of every class."""

    @compiled.generic(optional=True)
    def part(state):
        return "silently"

    class French:
        """A state."""

    @compiled.register(greet, French)
    def _greet(state, times):
        return "salut " * times

    assert greet(French(), 2) == "salut salut "
    assert part(French()) == "silently"
    assert compiled.registered(greet, French)
    assert not compiled.registered(part, French)
    with pytest.raises(TypeError, match="greet is not registered for"):
        greet("nobody", 1)
