"""Daemons of Spark's, each in a process of its own, and what their machines may have."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time

from tests.support import commands

PATIENCE_S = 240  # of a test on a machine that does much else


def wait_until(condition, process=None):
    """The value of a condition as soon as it is true, while a process lives."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "this takes too long"
        assert process is None or process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    return found


def other_python(directory):
    """A Python at another path, with all that the package needs, but not the package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (packages,) = directory.glob("lib/python*/site-packages")
    # What such a file names is not searched for files of its kind: the package is installed by one.
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    python = directory / "bin" / "python"
    found = "import numba, pyarrow, importlib.util; print(importlib.util.find_spec('precedes'))"
    reported = subprocess.run([python, "-c", found], capture_output=True, text=True, check=True)
    assert reported.stdout == "None\n"
    return python


@contextlib.contextmanager
def daemon(log, name, *arguments):
    """A daemon of Spark's, ended with its children by their process ids.

    As in a shell whose virtual environment is not active, and which knows nothing of stores.
    """
    hidden = ("SPARK_HOME", "JAVA_HOME", "VIRTUAL_ENV", "PYSPARK_PYTHON")
    environment = {
        **{k: v for k, v in os.environ.items() if k not in hidden and not k.startswith("AWS_")},
        "PATH": os.defpath,
        "SPARK_DAEMON_MEMORY": "700m" if name == "connect" else "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    line = commands.command("spark", name, *arguments)
    place = log.with_suffix(".place")
    place.mkdir()
    with (
        log.open("w") as file,
        subprocess.Popen(line, stderr=file, env=environment, cwd=place) as process,
    ):
        try:
            yield process
        finally:
            kill_with_children(process)


def kill_with_children(process):
    """End a daemon and what it has started, an executor say, at once."""
    for child in children(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    process.kill()
    process.wait()


def children(parent):
    """The processes that a process has started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True)
    return [int(word) for word in listed.stdout.split()]


def wait_for_line(log, pattern, process):
    """The match of a pattern in a log, once there is one."""
    found = re.compile(pattern)
    return wait_until(lambda: found.search(log.read_text()), process)[1]
