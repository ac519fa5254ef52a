"""A zygote: a process that forks others on command, signals them and reports their ends.

It is forked before there is an event loop, with the compiled step loaded, and has neither threads
nor connections that its children could inherit. The children end with it, and it ends with the
process that made it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from precedes.live.cluster import process

# Runs in a child, with the work it was started for and descriptors of its own.
Run = Callable[[Any, list[int]], None]

HEAD: Final = struct.Struct("<I")  # length of a command
ENDED: Final = struct.Struct("<I")  # number of a process that has ended
FDS_MAX: Final = 4
REAP_EVERY_S: Final = 0.02
READ_BYTES: Final = 1 << 12


class Zygote:
    """The zygote, for the process that makes it. Only for a process without threads."""

    def __init__(self, run: Run) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._process = process.fork_child(lambda: _Serving(theirs, run).serve(), [self._socket])
        theirs.close()
        self._data = b""

    def start(self, number: int, work: object, fds: list[int]) -> None:
        """Fork a process that runs this work; the descriptors are copied."""
        self._send(("start", number, work), fds)

    def signal(self, number: int, what: signal.Signals) -> None:
        """Send a signal to a process, unless it has ended."""
        self._send(("signal", number, what), [])

    def _send(self, command: tuple[Any, ...], fds: list[int]) -> None:
        data = pickle.dumps(command)
        socket.send_fds(self._socket, [HEAD.pack(len(data))], fds)
        self._socket.sendall(data)

    def ended(self) -> list[int]:
        """Return the numbers of processes that have ended since the last call; does not wait."""
        while select.select([self._socket], [], [], 0)[0]:
            data = self._socket.recv(READ_BYTES)
            if not data:
                raise ChildProcessError("the process that forks members has ended")
            self._data += data
        whole = len(self._data) // ENDED.size * ENDED.size
        numbers = [number for (number,) in ENDED.iter_unpack(self._data[:whole])]
        self._data = self._data[whole:]
        return numbers

    def close(self) -> None:
        """End the zygote and all its processes."""
        self._socket.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._process, 0)


class _Serving:
    """The zygote itself."""

    def __init__(self, commands: socket.socket, run: Run) -> None:
        self._commands = commands
        self._run = run
        self._processes: dict[int, int] = {}  # by number

    def serve(self) -> None:
        """Carry out commands until the other end is closed, then kill what still runs."""
        try:
            while True:
                if select.select([self._commands], [], [], REAP_EVERY_S)[0]:
                    head, fds, _, _ = socket.recv_fds(self._commands, HEAD.size, FDS_MAX)
                    if not head:
                        return
                    head += self._read(HEAD.size - len(head))
                    kind, number, what = pickle.loads(self._read(*HEAD.unpack(head)))
                    self._do(kind, number, what, fds)
                self._reap()
        except OSError:  # the other end is gone
            return
        finally:
            for number in self._processes.values():
                process.end(number)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._commands.recv(count - len(data))
            if not more:
                raise ConnectionResetError("a command was cut short")
            data += more
        return data

    def _do(self, kind: str, number: int, what: Any, fds: list[int]) -> None:
        if kind == "start":

            def run() -> None:
                self._run(what, fds)

            self._processes[number] = process.fork_child(run, [self._commands])
            for fd in fds:
                os.close(fd)
        elif number in self._processes:  # not reaped: its process id is still its own
            os.kill(self._processes[number], what)

    def _reap(self) -> None:
        for number, one in list(self._processes.items()):
            if process.ended(one):
                del self._processes[number]
                self._commands.sendall(ENDED.pack(number))
