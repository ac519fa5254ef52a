"""Commands of ours: in a process of their own or in this one, and mistakes."""

import json
import sys

from precedes.cli.main import main
from tests.support.processes import python


def command(*arguments):
    """A command line."""
    return [sys.executable, "-m", "precedes.cli", *map(str, arguments)]


def run(*arguments, **options):
    """Run a command to its end."""
    return python("-m", "precedes.cli", *arguments, **options)


def output(capsys, *arguments, status=0):
    """The output of a command, in this process."""
    assert main([str(argument) for argument in arguments]) == status
    return capsys.readouterr().out


def parsed(capsys, *arguments, status=0):
    """The object that a command prints, in this process."""
    return json.loads(output(capsys, *arguments, status=status))


def fails(capsys, *arguments):
    """The one line of a command, in this process, that fails as a user's mistake does."""
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert len(captured.err.splitlines()) == 1, captured.err
    assert captured.err.startswith("precedes: ")
    return captured.err
