"""The live page of a cluster, served on loopback by the process that follows its logs.

Lanes are the sizes of the members' logs: nothing is decoded for them, so the page costs the same at
any load. The follower brings the verdict, the supervisor the faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from precedes.audit import Standing
from precedes.live.http import Answer, HttpServer
from precedes.live.net.links import listen_on_loopback
from precedes.trace import member_log

EVERY_S: Final = 0.25
SAMPLES_MAX: Final = 240  # the last minute: older ones leave the page
FAULTS_MAX: Final = 1000  # later ones are not on the page
LAST_S: Final = 2.0  # for a page that is open, to get the final verdict
READ_BYTES: Final = 1 << 16


class LivePage:
    """The page and its state. It is made before processes are forked.

    ``began``, ``report`` and ``close`` are for the parent, ``serve``, ``update`` and ``finish`` for
    the process that follows the logs.
    """

    def __init__(self, text: str, *, protocol: str, members: int) -> None:
        self._text = text.encode()
        self._members = members
        self.socket = listen_on_loopback()
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self._news, self._report = os.pipe()
        os.set_blocking(self._report, False)
        os.set_blocking(self._news, False)
        self._line = b""
        self._began_s: float | None = None
        self._faults: dict[int, dict[str, Any]] = {}
        self._rows = [0] * members
        self._samples: deque[list[int]] = deque(maxlen=SAMPLES_MAX)
        self._sampled_s = 0.0
        self._asked_s = 0.0
        self._is_shown = threading.Event()
        self._standing: dict[str, Any] = {
            **{"verdict": None, "is_final": False, "deliveries": 0, "violations": 0},
            **{"rows_read": 0, "rows_judged": 0, "witnesses": [], "error": None},
        }
        self._about = {"protocol": protocol, "members": members, "every_s": EVERY_S}

    def began(self) -> None:
        """All members are ready: times count from now on."""
        self._send({"began_s": time.monotonic()})

    def report(self, number: int, kind: str, members: tuple[int, ...], *, is_over: bool) -> None:
        """A fault begins, or has ended."""
        at = {"until_s" if is_over else "at_s": time.monotonic()}
        self._send({"number": number, "kind": kind, "members": members, **at})

    def _send(self, news: dict[str, Any]) -> None:
        # A page that cannot be updated does not stop the group.
        with contextlib.suppress(OSError):
            os.write(self._report, json.dumps(news).encode() + b"\n")

    def close(self) -> None:
        """The parent needs the socket no longer, once the follower has it."""
        self.socket.close()

    def serve(self, directory: Path) -> None:
        """Serve the page in a thread, until the process ends."""
        serving = self._serve(directory)
        threading.Thread(target=asyncio.run, args=(serving,), daemon=True).start()

    def update(self, standing: Standing) -> None:
        """Show how the audit stands."""
        report = standing.report
        self._standing = {
            **{"verdict": report.verdict, "is_final": standing.is_final, "error": None},
            **{"deliveries": report.deliveries, "violations": report.violations},
            **{"rows_read": standing.rows_read, "rows_judged": standing.rows_judged},
            "witnesses": [witness.sentence for witness in report.witnesses],
        }

    def finish(self, error: str | None = None) -> None:
        """The group has ended: a page that is open gets the final state, unless that takes long."""
        self._standing = {**self._standing, "is_final": True, "error": error}
        if time.monotonic() - self._asked_s < LAST_S:
            self._is_shown.wait(LAST_S)

    async def _serve(self, directory: Path) -> None:
        server = HttpServer(
            {
                b"/": lambda: Answer(self._text, "text/html; charset=utf-8"),
                b"/state": self._state,
            }
        )
        await server.start(sock=self.socket)
        while True:
            self._listen()
            self._sample(directory)
            await asyncio.sleep(EVERY_S)

    def _listen(self) -> None:
        """Read what the parent has reported since."""
        with contextlib.suppress(BlockingIOError):
            self._line += os.read(self._news, READ_BYTES)
        *lines, self._line = self._line.split(b"\n")
        for news in map(json.loads, lines):
            if "began_s" in news:
                self._began_s = news["began_s"]
            elif news["number"] in self._faults or len(self._faults) < FAULTS_MAX:
                known = self._faults.setdefault(news["number"], {"until_s": None})
                known.update(news)

    def _sample(self, directory: Path) -> None:
        now = []
        for member in range(self._members):
            size = 0
            with contextlib.suppress(OSError):
                size = member_log.log_path(directory, member).stat().st_size
            now.append(max(size - member_log.HEADER_BYTES, 0) // member_log.ROW_BYTES)
        self._samples.append([b - a for a, b in zip(self._rows, now, strict=True)])
        self._rows, self._sampled_s = now, time.monotonic()

    def _state(self) -> Answer:
        samples = [*self._samples]
        first_s = self._sampled_s - len(samples) * EVERY_S
        zero_s = first_s if self._began_s is None else self._began_s
        last = samples[-round(1 / EVERY_S) :]
        standing = self._standing
        state = {
            **self._about,
            **standing,
            "now_s": max(time.monotonic() - zero_s, 0.0),
            "first_s": first_s - zero_s,
            "rows": [list(rows) for rows in zip(*samples, strict=True)] or [[]] * self._members,
            "rows_per_s": round(sum(map(sum, last)) / max(len(last) * EVERY_S, EVERY_S)),
            "faults": [
                {
                    "kind": fault["kind"],
                    "members": fault["members"],
                    "at_s": fault["at_s"] - zero_s,
                    "until_s": None if fault["until_s"] is None else fault["until_s"] - zero_s,
                }
                for fault in self._faults.values()
            ],
        }
        self._asked_s = time.monotonic()
        if standing["is_final"]:  # the process may end when the answer has left
            asyncio.get_running_loop().call_later(EVERY_S, self._is_shown.set)
        return Answer(json.dumps(state).encode(), "application/json")
