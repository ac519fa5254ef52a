"""Commands of ours, each in a process of its own."""

import subprocess
import sys


def command(*arguments):
    """A command line."""
    return [sys.executable, "-m", "precedes.cli", *map(str, arguments)]


def run(*arguments, **options):
    """Run a command to its end."""
    given = {"capture_output": True, "text": True, "timeout": 300, **options}
    return subprocess.run(command(*arguments), check=False, **given)
