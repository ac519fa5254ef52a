"""The benchmark of view changes: `python bench/pause.py [--quick] [--json]`.

Eight processes on loopback broadcast 1000 messages of 100 bytes a second in total, with `vector`
compiled. In each of 25 groups two members join, two leave (SIGTERM) and two crash (kill -9), one
after the other: 50 changes of each kind. Every member writes the time of each delivery to a file,
which survives its crash.

The pause at a change is the longest time without a delivery at a member that was there before and
stays, between the start of the process, or the signal, and the end of the change's share of the
run; one sample for each change and such a member. A join is two changes of the view: admission,
and the vote. A crash is detected when the first survivor suspects the member: `after detection` has
only the part of each gap behind that moment. `usual` is the longest gap in as much time without a
change.

Exit status 1 if the p99 of a leave or a join is not below 300 ms, or if a member did not change its
view in time.
"""

import asyncio
import logging
import os
import random
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import harness
from live_peers import new_loop

MEMBERS = 8
PAYLOAD_BYTES = 100
RATE = 1000.0
GROUPS = 25
CHANGES = ("join", "leave", "join", "crash", "leave", "crash")
KINDS = ("join", "leave", "crash")
WINDOW_S = {"join": 3.0, "leave": 1.5, "crash": 2.5, "usual": 1.5}
P99_MS = 300.0
START_S = 30.0

ROW = struct.Struct("<qq")  # what, when
DELIVERED = -1
SUSPECTED = 1000  # and the member
CHANGED = 2000  # and the member that is in the view from then on, or is not any more


class Rows:
    """Appends rows to a file at once."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, what):
        """Add a row with the time of now."""
        os.write(self.file, ROW.pack(what, time.monotonic_ns()))


class Suspicions(logging.Handler):
    """Adds a row for each member that this one suspects, from the log of the package."""

    def __init__(self, rows):
        super().__init__(logging.INFO)
        self.rows = rows

    def emit(self, record):
        """Add a row if it is about a suspicion."""
        if isinstance(record.args, tuple) and "suspects" in record.args:
            self.rows.add(SUSPECTED + int(str(record.args[-1]).split()[-1]))


async def live(config, listener, rows, ready, state):
    """One member, until SIGTERM."""
    from precedes.live import Group

    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    group = Group.open(config, listener=listener, state=state)
    group.on_message(lambda message: rows.add(DELIVERED))

    async def send():
        rng, payload = random.Random(group.member), bytes(PAYLOAD_BYTES)
        due_s = time.monotonic()
        while True:
            due_s += rng.expovariate(RATE / len(group.view))
            await asyncio.sleep(max(due_s - time.monotonic(), 0))
            await group.broadcast(payload)

    async def watch():
        async for event in group.events():
            if event.kind in ("joined", "left", "excluded"):
                rows.add(CHANGED + event.member)

    async with group:
        tasks = [asyncio.create_task(send()), asyncio.create_task(watch())]
        os.write(ready, b".")
        await leaving.wait()
        for task in tasks:
            task.cancel()


def fork(config, listener, listeners, path, ready, *, state=None):
    """Start a member; its process id. Its name is its number."""
    process = os.fork()
    if process:
        return process
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        for other in listeners:
            if other is not listener:
                other.close()
        rows = Rows(path)
        log = logging.getLogger("precedes.live")
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(Suspicions(rows))
        asyncio.Runner(loop_factory=new_loop).run(live(config, listener, rows, ready, state))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def await_ready(is_ready, count):
    """Wait until this many members are in the group."""
    while count > 0:
        if not select.select([is_ready], [], [], START_S)[0]:
            sys.exit("a member did not get into the group")
        count -= len(os.read(is_ready, count))


@dataclass
class Samples:
    """Milliseconds, by kind of change; and survivors that did not change their view in time."""

    gaps: dict = field(default_factory=lambda: {kind: [] for kind in (*KINDS, "usual")})
    after: list = field(default_factory=list)  # the detection of a crash
    detection: list = field(default_factory=list)
    late: int = 0


def run_group(number, samples):
    """One group and its changes."""
    from precedes.live import Config
    from precedes.live.member.node import Node
    from precedes.live.net.links import listen_on_loopback

    rng = random.Random(number)
    most = MEMBERS + CHANGES.count("join")
    listeners = [listen_on_loopback() for _ in range(most)]
    addresses = tuple("{}:{}".format(*sock.getsockname()) for sock in listeners)
    common = {"name": "pause", "tier": "compiled", "linger_s": 0.2}
    configs = [
        Config(
            member=i, founders=tuple(map(str, range(MEMBERS))), address=addresses[i],
            seeds=addresses[:MEMBERS], **common,
        )
        for i in range(most)
    ]  # fmt: skip
    Node(configs[0].settings()).prepare()  # its machine code is shared with forked processes
    is_ready, ready = os.pipe()
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / str(i) for i in range(most)]
        for path in paths:
            path.touch()
        members = {
            i: fork(configs[i], listeners[i], listeners, paths[i], ready) for i in range(MEMBERS)
        }
        for sock in listeners[:MEMBERS]:
            sock.close()  # nobody listens at the address of a member that has ended
        alive = set(members)
        spans = []  # kind, from when, members that stay, who goes
        try:
            await_ready(is_ready, MEMBERS)
            time.sleep(1.0)
            spans.append(("usual", time.monotonic_ns(), set(alive), None))
            time.sleep(WINDOW_S["usual"])
            for kind in CHANGES:
                if kind == "join":
                    who = len(members)
                    spans.append((kind, time.monotonic_ns(), set(alive), who))
                    members[who] = fork(configs[who], listeners[who], listeners, paths[who], ready)
                    alive.add(who)
                else:
                    who = rng.choice(sorted(alive))
                    alive.discard(who)
                    spans.append((kind, time.monotonic_ns(), set(alive), who))
                    os.kill(members[who], signal.SIGTERM if kind == "leave" else signal.SIGKILL)
                time.sleep(WINDOW_S[kind])
        finally:
            os.close(is_ready)
            os.close(ready)
            for sock in listeners[MEMBERS:]:
                sock.close()
            for process in members.values():
                os.kill(process, signal.SIGKILL)
            for process in members.values():
                os.waitpid(process, 0)
        rows = [list(ROW.iter_unpack(path.read_bytes())) for path in paths]
    for span in spans:
        evaluate(span, rows, samples)


def evaluate(span, rows, samples):
    """Add the samples of one change, or of a time without one."""
    kind, since_ns, survivors, victim = span
    until_ns = since_ns + round(WINDOW_S[kind] * 1e9)
    detected_ns = min(
        (at for i in survivors for what, at in rows[i]
         if victim is not None and what == SUSPECTED + victim and at >= since_ns),
        default=since_ns,
    )  # fmt: skip
    if kind == "crash":
        samples.detection.append((detected_ns - since_ns) / 1e6)
    for i in survivors:
        if victim is not None and not any(
            what == CHANGED + victim and since_ns <= at < until_ns for what, at in rows[i]
        ):
            samples.late += 1
        times = [at for what, at in rows[i] if what == DELIVERED]
        samples.gaps[kind].append(longest_ms(times, since_ns, until_ns))
        if kind == "crash":
            samples.after.append(longest_ms(times, detected_ns, until_ns))


def longest_ms(times, since_ns, until_ns):
    """The longest part of a gap between these times; a silence until the end counts."""
    inside = [since_ns, *(at for at in times if since_ns <= at < until_ns), until_ns]
    return max(later - earlier for earlier, later in pairwise(inside)) / 1e6


def quantiles(values):
    """p50, p99 and the highest."""
    ordered = sorted(values)
    last = len(ordered) - 1
    return {
        "samples": len(ordered),
        "p50_ms": ordered[last // 2],
        "p99_ms": ordered[min(int(0.99 * len(ordered)), last)],
        "max_ms": ordered[-1],
    }


def measure(*, quick):
    """All groups."""
    samples = Samples()
    for number in range(1 if quick else GROUPS):
        run_group(number, samples)
    rows = {name: quantiles(values) for name, values in samples.gaps.items()}
    rows["crash, after detection"] = quantiles(samples.after)
    rows["detection of a crash"] = quantiles(samples.detection)
    return {"rows": rows, "late": samples.late}


def show(report):
    """The table."""
    print(f"{'longest gap':<24}{'samples':>10}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for name, row in report["rows"].items():
        cells = "".join(f"{row[key]:>10.1f}" for key in ("p50_ms", "p99_ms", "max_ms"))
        print(f"{name:<24}{row['samples']:>10}{cells}")
    verdict = "holds" if holds(report) else "DOES NOT HOLD"
    print(f"\np99 of leave and join below {P99_MS:g} ms: {verdict}; late changes: {report['late']}")


def ratios(report):
    """Pauses as a share of what is promised."""
    rows = report["rows"]
    names = ("join", "leave", "crash, after detection")
    return {f"{name} p99 / {P99_MS:g} ms": rows[name]["p99_ms"] / P99_MS for name in names}


def holds(report):
    """Return whether the promise is kept."""
    rows = report["rows"]
    return all(rows[kind]["p99_ms"] < P99_MS for kind in ("leave", "join")) and not report["late"]


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, holds=holds)
