"""Processes that must end."""

import time


def await_true(condition, *, timeout_s=60.0):
    """Ask until something is so."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def is_running(process_id):
    """Whether a process is there and no zombie: orphans are reaped when their new parent likes."""
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
