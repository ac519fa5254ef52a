"""A compiler as a child process: started, asked whether it is done, and never left behind.

The child holds the lock of the code that it compiles, on a descriptor that it was handed, so that
the lock is free when it ends in whatever way. It reads a pipe of which this process alone holds
the other end, and ends when that is closed, as it is when this process is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any, Final, NamedTuple

# What a child says may be a line of some file's length, never a page.
REPORT_BYTES_MAX: Final = 4096

# The child has the modules of this process, wherever those were found.
_START: Final = """
import json, sys
order = json.loads(sys.argv[1])
sys.path[:] = order.pop("path")
from precedes.compiled import compiler
compiler.main(**order)
"""


class Report(NamedTuple):
    """How a compiler has ended: why there is no code, or why it is not where it belongs."""

    failure: str | None
    not_kept: str | None
    was_killed: bool = False


class Compiler:
    """A child process that compiles one loop for one state class."""

    def __init__(self, order: dict[str, Any], *, lock: int | None) -> None:
        """Start it. It inherits the lock, which the caller then closes.

        Raises OSError if this machine has no room for another process.
        """
        life, self._life = os.pipe()
        self._said, said = os.pipe()
        handed = [life, said, *([] if lock is None else [lock])]
        order = {**order, "path": [item or os.getcwd() for item in sys.path]}
        order |= {"life": life, "said": said, "parent": os.getpid()}
        # The bytecode, which code is kept by, must be the same there.
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        try:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", _START, json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=handed,
            )
        except BaseException:
            self._close()
            raise
        finally:
            os.close(life)
            os.close(said)
        _running.append(self)

    @property
    def process_id(self) -> int:
        """The number of the child."""
        return self._process.pid

    def report(self) -> Report | None:
        """How it has ended; None while it runs."""
        if self._process.poll() is None:
            return None
        said = os.read(self._said, REPORT_BYTES_MAX)
        self._forget()
        if not said:
            status = self._process.returncode
            failure = f"the compiler exited without a result (status {status})"
            # Ctrl-C is the user's wish, any other signal an accident.
            return Report(failure, None, was_killed=status < 0 and status != -signal.SIGINT)
        return Report(**json.loads(said))

    def end(self) -> None:
        """Kill it if it runs."""
        if self in _running:
            with contextlib.suppress(OSError):
                self._process.kill()
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        _running.remove(self)
        self._close()

    def _close(self) -> None:
        os.close(self._life)
        os.close(self._said)

    def leave_to_parent(self) -> None:
        """In a process that was forked: it is not ours, and must not live as long as we do."""
        self._process.returncode = -1  # nobody waits for it here
        self._close()


_running: Final[list[Compiler]] = []


@atexit.register
def _end_all() -> None:
    for compiler in [*_running]:
        compiler.end()


def _after_fork() -> None:
    for compiler in _running:
        compiler.leave_to_parent()
    _running.clear()


os.register_at_fork(after_in_child=_after_fork)
