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


def end_all(root):
    """End those that still run, whether they have written to their logs or not."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
            is_one = b"from precedes.compiled import compiler" in words[0]
            if is_one and f"PRECEDES_CACHE={root}".encode() in words[1]:
                os.kill(int(path.name), signal.SIGKILL)
                await_true(lambda number=path.name: not is_running(number))
