"""Audits a cluster while it runs, in a process of its own: the members' time is not its."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from precedes.audit import Standing, follow
from precedes.audit.growing import prepare
from precedes.errors import PrecedesError
from precedes.live.cluster import process

Watch = Callable[[Standing], None]

EVERY_S: Final = 0.1  # as often as members write what waits
END_S: Final = 60.0  # for the last rows, and the final report


class Watching:
    """A process that follows the logs in a directory and hands each standing to ``watch``.

    ``watch`` is called over there. A mistake ends the process with a line on standard error, and
    nothing else.
    """

    def __init__(self, directory: Path, watch: Watch, others: list[socket.socket]) -> None:
        prepare()
        sys.stdout.flush()
        sys.stderr.flush()
        stopped, self._stop = os.pipe()
        self._number = os.fork()
        if self._number == 0:
            os.close(self._stop)
            self._follow(directory, watch, stopped, others)
        os.close(stopped)

    def _follow(
        self, directory: Path, watch: Watch, stopped: int, others: list[socket.socket]
    ) -> None:
        """In the child: until the other end is closed, and all that was written is judged."""
        status = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for sock in others:
                sock.close()
            for standing in follow(
                str(directory),
                format="members",
                every_s=EVERY_S,
                is_stopped=lambda: bool(select.select([stopped], [], [], 0)[0]),
            ):
                watch(standing)
            status = 0
        except Exception as error:
            text = str(error) if isinstance(error, PrecedesError) else repr(error)
            with contextlib.suppress(OSError):
                print(f"precedes: following ended: {text}", file=sys.stderr, flush=True)
        finally:
            os._exit(status)

    def finish(self) -> None:
        """All members have ended: wait for the final standing."""
        os.close(self._stop)
        until_s = time.monotonic() + END_S
        while not process.ended(self._number) and time.monotonic() < until_s:
            time.sleep(0.02)
        process.end(self._number)

    def abandon(self) -> None:
        """End it."""
        process.end(self._number)
