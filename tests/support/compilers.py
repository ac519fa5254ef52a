"""Compilers that tests have started: they survive the process that did, so tests end them."""

import contextlib
import os
import re
import signal
from pathlib import Path

from precedes.compiled import compiler
from tests.support.processes import await_true, is_running

STARTED = re.compile(r"process (\d+) compiles")


def started(root):
    """The process ids of all compilers that were started for a cache, by their logs."""
    logs = sorted((Path(root) / compiler.JOBS).glob("*.log"))
    return [int(number) for log in logs for number in STARTED.findall(log.read_text())]


def end_all(variable, value):
    """End those that still run and have this in their environment."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_one = b"from precedes.compiled import compiler" in (path / "cmdline").read_bytes()
            settings = (path / "environ").read_bytes().split(b"\0")
            if is_one and f"{variable}={value}".encode() in settings:
                os.kill(int(path.name), signal.SIGKILL)
                await_true(lambda number=path.name: not is_running(number))
