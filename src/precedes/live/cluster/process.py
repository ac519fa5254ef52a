"""Forked processes of a cluster: a member that drives load, and an audit that follows the logs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from precedes.audit import Standing, follow
from precedes.audit.growing import prepare
from precedes.errors import PrecedesError
from precedes.files import write_aside
from precedes.live.cluster.live_page import LivePage
from precedes.live.config import Config
from precedes.live.errors import Excluded, GroupLost
from precedes.live.group import Group, run_loop
from precedes.live.member.effects import FRAME_BYTES

# Latencies kept by a member; with more messages, one in two, in four, ... is kept.
SAMPLES_MAX: Final = 20_000
STAMP_BYTES: Final = 8
NUMBER: Final = struct.Struct("<H")  # of a member that is ready
# Most deliveries of all members in flight while they are interpreted: with whole windows messages
# would take many seconds, and members be silent for as long.
DELIVERIES_FEW: Final = 1 << 11
WARM_UP_S: Final = 1.0
FOLLOW_EVERY_S: Final = 0.1  # the interval at which members write waiting rows
FOLLOW_END_S: Final = 60.0  # for the last rows, and the final report

Watch = Callable[[Standing], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Work of a member."""

    config: Config
    seconds: float
    rate: float | None
    payload_bytes: int
    result: Path
    log: Path
    ready: int  # a descriptor that takes the member's number when it is ready, or its reports


def fork_child(run: Callable[[], None], others: list[socket.socket]) -> int:
    """Run a function in a child without these sockets; its process id.

    Only for a process without threads.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    number = os.fork()
    if number:
        return number
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for sock in others:
            sock.close()
        run()
        status = 0
    except BaseException:
        logging.exception("the process failed")
    finally:
        os._exit(status)


def fork(task: Task, listener: socket.socket, others: list[socket.socket]) -> int:
    """Start the member; return its process id. Only for a process without threads."""

    def run() -> None:
        live(task, _live(task, listener))

    return fork_child(run, others)


def live(task: Task, living: Coroutine[Any, Any, dict[str, Any]]) -> None:
    """Run a member in this process, with its own log, and write its measurements."""
    logging.basicConfig(
        filename=task.log, level=logging.INFO, format="%(asctime)s %(message)s", force=True
    )
    if hasattr(os, "SCHED_BATCH"):
        # Members share the cores: one that receives a frame must not preempt its sender, which has
        # more to send.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    result = run_loop(living)
    write_aside(task.result, json.dumps(result).encode())


def ended(process: int) -> bool:
    """Return whether a process has ended; reap it then."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(process, os.WNOHANG)[0] == process
    return True


def end(process: int) -> None:
    """End a process, if it has not."""
    if not ended(process):
        os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)


async def _live(task: Task, listener: socket.socket) -> dict[str, Any]:
    group = Group.open(task.config, listener=listener)
    load = Load(task, group)
    ended = "all"
    try:
        async with group:
            os.write(task.ready, NUMBER.pack(group.member))
            await load.drive()
            if not group.is_finished:
                ended = "left"
    except Excluded:
        ended = "excluded"
    except GroupLost as error:
        ended = f"lost: {error}"
    return {"ended": ended, **load.found()}


class Load:
    """Broadcasts for some time, consumes everything, and measures."""

    def __init__(self, task: Task, group: Group) -> None:
        self._task = task
        self._group = group
        # When a message was sent, and how long it took.
        self._latency_us: list[tuple[int, int]] = []
        self._evicted_us: dict[int, int] = {}
        self._calls, self._every = 0, 1
        self._is_warm = False
        self._deliveries = self._cold = 0
        self._first_tier = ""
        self._cpu_s = self._active_s = 0.0

    async def drive(self) -> None:
        """Send and receive at the same time, until all have finished."""
        self._begin(is_warm=False)
        self._first_tier = self._group.tier
        warm_up_s = min(WARM_UP_S, self._task.seconds / 4)
        begin = functools.partial(self._begin, is_warm=True)
        warm = asyncio.get_running_loop().call_later(warm_up_s, begin)
        sender = asyncio.create_task(self._send())
        watcher = asyncio.create_task(self._watch())
        if self._task.rate is not None:
            self._group.on_message(lambda message: self._take([message.payload]))
        try:
            async for batch in self._group.batches():
                self._take(batch.payloads)
        finally:
            self._cpu_s = time.process_time() - self._cpu_s
            self._active_s = time.monotonic() - self._active_s
            warm.cancel()
            for task in (sender, watcher):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, GroupLost):
                    await task

    async def _watch(self) -> None:
        """Record when others leave the view."""
        async for event in self._group.events():
            if event.kind in ("excluded", "left"):
                self._evicted_us[event.member] = time.monotonic_ns() // 1000

    def _begin(self, *, is_warm: bool) -> None:
        """Measure from now on; until it is warm, memory is touched for the first time."""
        self._cpu_s, self._active_s = time.process_time(), time.monotonic()
        self._cold, self._is_warm = self._deliveries, is_warm

    def _take(self, payloads: list[bytes]) -> None:
        """Count, and keep the latency of the first of them."""
        self._deliveries += len(payloads)
        self._calls += 1
        if not self._is_warm or self._calls % self._every:
            return
        sent_us = int.from_bytes(payloads[0][:STAMP_BYTES], "little") // 1000
        self._latency_us.append((sent_us, time.monotonic_ns() // 1000 - sent_us))
        if len(self._latency_us) > SAMPLES_MAX:
            self._latency_us = self._latency_us[::2]
            self._every *= 2

    async def _send(self) -> None:
        task, group = self._task, self._group
        filler = bytes(task.payload_bytes - STAMP_BYTES)
        until_s = time.monotonic() + task.seconds
        rng = random.Random(group.member)
        few = max(DELIVERIES_FEW // len(task.config.names) ** 2, 1)
        due_s = time.monotonic()
        while (now_s := time.monotonic()) < until_s:
            if task.rate is not None:
                due_s += rng.expovariate(task.rate)
                if due_s >= until_s:
                    break
                if due_s > now_s:
                    await asyncio.sleep(due_s - now_s)
            payload = time.monotonic_ns().to_bytes(STAMP_BYTES, "little") + filler
            source, sequence = await group.broadcast(payload)
            if task.rate is not None:
                continue
            if group.tier == "compiled" and group.credit:
                at_once = max(FRAME_BYTES // len(payload), 1)  # no call outlasts the load by much
                await group.broadcast_many([payload] * min(group.credit, at_once))
            elif group.tier == "interpreted" and sequence > few:
                await group.stable((source, sequence - few))
        await group.finish()

    def found(self) -> dict[str, Any]:
        """The measurements."""
        counts = self._group.counts()
        tier = self._group.tier
        return {
            "tier": tier if tier == self._first_tier else "mixed",
            "deliveries": self._deliveries,
            "deliveries_measured": self._deliveries - self._cold,
            "broadcasts": counts["broadcasts"],
            "cpu_s": self._cpu_s,
            "active_s": self._active_s,
            "latency_us": self._latency_us,
            "evicted_us": self._evicted_us,
            "pending_max": counts["pending_max"],
            "reconnections": self._group.metrics.disconnections,
            "evictions": self._group.metrics.evictions,
            "links": len(self._group.lags()),
        }


class Watching:
    """A process that follows the logs in a directory and hands each standing to ``watch``.

    ``watch`` is called in that process, which serves the ``page`` too. An error ends it with a line
    on standard error.
    """

    def __init__(
        self,
        directory: Path,
        watch: Watch,
        others: list[socket.socket],
        page: LivePage | None = None,
    ) -> None:
        prepare()
        stopped, self._stop = os.pipe()

        def run() -> None:
            """Follow until the other end is closed, and all that was written is audited."""
            os.close(self._stop)
            error = None
            if page is not None:
                page.serve(directory)
            try:
                for standing in follow(
                    str(directory),
                    format="members",
                    every_s=FOLLOW_EVERY_S,
                    is_stopped=lambda: bool(select.select([stopped], [], [], 0)[0]),
                ):
                    watch(standing)
                    if page is not None:
                        page.update(standing)
            except Exception as cause:
                text = str(cause) if isinstance(cause, PrecedesError) else repr(cause)
                error = f"following ended: {text}"
                with contextlib.suppress(OSError):
                    print(f"precedes: {error}", file=sys.stderr, flush=True)
            if page is not None:
                page.finish(error)

        self._number = fork_child(run, others)
        os.close(stopped)

    def finish(self) -> None:
        """All members have ended: wait for the final standing."""
        os.close(self._stop)
        until_s = time.monotonic() + FOLLOW_END_S
        while not ended(self._number) and time.monotonic() < until_s:
            time.sleep(0.02)
        end(self._number)

    def abandon(self) -> None:
        """End it."""
        end(self._number)
