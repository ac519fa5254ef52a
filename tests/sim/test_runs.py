"""One way to run a scenario, found in two places, that costs nothing until it is used."""

import subprocess
import sys

import precedes
from precedes import sim


def test_there_is_one_simulate():
    assert precedes.simulate is sim.simulate


def imported_by(code):
    """Which of the large libraries some code imports, in a process of its own."""
    names = "numpy", "numba", "pyarrow"
    check = f"import sys; {code}; print(*[name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_package_and_its_command_are_imported_without_its_engine():
    assert imported_by("import precedes.sim, precedes.cli.simulate") == []


def test_a_run_without_a_trace_imports_no_writer():
    scenario = "Scenario(protocol='vector', nodes=2, messages=1)"
    code = f"from precedes import Scenario, simulate; simulate({scenario}, tier='interpreted')"
    assert "pyarrow" not in imported_by(code)
