"""Commands of ours: in a process of their own, or mistakes in this one."""

import subprocess
import sys

from precedes.cli.main import main


def command(*arguments):
    """A command line."""
    return [sys.executable, "-m", "precedes.cli", *map(str, arguments)]


def run(*arguments, **options):
    """Run a command to its end."""
    given = {"capture_output": True, "text": True, "timeout": 300, **options}
    return subprocess.run(command(*arguments), check=False, **given)


def fails(capsys, *arguments):
    """The one line of a command, in this process, that fails as a user's mistake does."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert len(captured.err.splitlines()) == 1, captured.err
    assert captured.err.startswith("precedes: ")
    return captured.err
