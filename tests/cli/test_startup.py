"""Fast start: the command line imports the modules of a command when it runs."""

from tests.support.processes import printed

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
    """The modules of a list that a process has imported after these commands."""
    return printed("-c", SCRIPT.format(lines=lines, heavy=set(heavy))).split()


def test_help_needs_nothing():
    commands = ("simulate", "sweep", "audit", "reproduce", "node", "cluster", "spark worker")
    assert imported("--help", "--version", *(f"{name} --help" for name in commands)) == []


def test_no_compiler_lists_protocols():
    assert imported("protocols", "protocols --json") == ["numpy"]


def test_no_compiler_is_needed_to_interpret():
    line = "simulate vector --nodes 3 --messages 5 --interpreted"
    assert imported(line, heavy={"numba", "rich"}) == []
