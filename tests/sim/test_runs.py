"""One way to run a scenario, found in two places, that costs nothing until it is used."""

import subprocess
import sys

import precedes
from precedes import sim


def test_there_is_one_simulate():
    assert precedes.simulate is sim.simulate


def test_the_package_and_its_command_are_imported_without_its_engine():
    names = "numpy", "numba", "pyarrow"
    imported = "import sys, precedes.sim, precedes.cli.simulate"
    check = f"{imported}; print([n for n in {names} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
