"""Processes of Python that tests run, and others that must end."""

import os
import subprocess
import sys
import time


def python(*arguments, env=(), **options):
    """A process of this interpreter, run to its end; ``env`` adds to the environment."""
    given = {"capture_output": True, "text": True, "timeout": 600, **options}
    given["env"] = {**os.environ, **dict(env)}
    return subprocess.run([sys.executable, *map(str, arguments)], check=False, **given)


def printed(*arguments, **options):
    """The output of such a process, which must not fail."""
    done = python(*arguments, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def await_true(condition, *, timeout_s=60.0):
    """Ask until something is so."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def is_running(process_id):
    """Return whether a process exists and is not a zombie: orphans are reaped at any time."""
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
