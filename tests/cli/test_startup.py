"""What answers at once: the command line imports what a command needs when it runs."""

import subprocess
import sys

SCRIPT = """
import contextlib, io, sys
from precedes.cli.main import main
for line in {lines!r}:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(line.split()) == 0
    assert shown.getvalue(), line
print(*sorted({heavy!r} & sys.modules.keys()))
"""
HEAVY = {"asyncio", "cryptography", "numba", "numpy", "pyarrow", "pyspark", "rich", "shtab"}


def imported(*lines, heavy=frozenset(HEAVY)):
    """Which of some modules a process has imported that has run these commands."""
    script = SCRIPT.format(lines=lines, heavy=set(heavy))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_help_needs_nothing():
    commands = ("simulate", "sweep", "audit", "reproduce", "node", "cluster", "spark worker")
    assert imported("--help", "--version", *(f"{name} --help" for name in commands)) == []


def test_no_compiler_lists_protocols():
    assert imported("protocols", "protocols --json") == ["numpy"]


def test_no_compiler_is_needed_to_interpret():
    line = "simulate vector --nodes 3 --messages 5 --interpreted"
    assert imported(line, heavy={"numba", "rich"}) == []
