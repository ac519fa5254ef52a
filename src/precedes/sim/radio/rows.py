"""The events of a run on a radio, handed to a writer in chunks."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from precedes.model import EventKind, Events
from precedes.sim.engine.rows import Writer

CHUNK_ROWS: Final = 1 << 16
MARKS_MAX: Final = 10_000


class RadioTrace:
    """Collects rows; without a writer it does nothing."""

    def __init__(self, writer: Writer | None, *, hosts: int, stations: int) -> None:
        self.writer = writer
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.known = [False] * hosts  # hosts that have joined
        self.marks: list[tuple[int, int, str, int | None]] = []  # us, host, what, station
        # Who broadcast what a station has stamped. Links are FIFO: a source's messages are
        # stamped in the order of their numbers, so that counts say which they are.
        self.stamped: list[list[int]] = [[] for _ in range(stations)]

    def message(self, time_ns: int, host: int, kind: EventKind, source: int, number: int) -> None:
        """An event of a message; own numbers begin with 0, sequences of a trace with 1."""
        if self.writer is not None:
            self._add(time_ns, host, kind, source, number + 1)

    def stamp(self, station: int, source: int) -> None:
        """A station has stamped a message of this source."""
        if self.writer is not None:
            self.stamped[station].append(source)

    def join(self, time_ns: int, host: int, station: int, start: int) -> None:
        """A life begins with this stamp of this station: with all that it stamped before."""
        if self.writer is None:
            return
        self.known[host] = True
        self._add(time_ns, host, EventKind.JOIN, host, 0)
        for source, count in sorted(Counter(self.stamped[station][:start]).items()):
            self._add(time_ns, host, EventKind.JOIN, source, count)

    def leave(self, time_ns: int, host: int) -> None:
        """A life ends."""
        if self.writer is not None:
            self._add(time_ns, host, EventKind.LEAVE, host, 0)

    def mark(self, time_ns: int, host: int, kind: str, station: int | None = None) -> None:
        """What happens to a host and is no event of a member: of many the first are kept."""
        if self.writer is not None and len(self.marks) < MARKS_MAX:
            self.marks.append((time_ns // 1000, host, kind, station))

    def end(self, time_ns: int, down_ns: dict[int, int]) -> None:
        """The run is over: who is down has crashed, who never joined is no member."""
        if self.writer is None:
            return
        for host, known in enumerate(self.known):
            if host in down_ns:
                self._add(down_ns[host], host, EventKind.CRASH, host, 0)
            elif not known:
                self.leave(time_ns, host)
        self._hand_over()

    def _add(self, time_ns: int, host: int, kind: EventKind, source: int, sequence: int) -> None:
        self.rows.append((time_ns, host, kind, source, sequence, -1))
        if len(self.rows) >= CHUNK_ROWS:
            self._hand_over()

    def _hand_over(self) -> None:
        if self.writer is None or not self.rows:
            return
        self.writer.write(Events.of(np.array(self.rows, np.int64)))
        self.rows = []
