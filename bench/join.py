"""The benchmark of joins: `python bench/join.py [--quick] [--json]`.

Processes on loopback, `vector` compiled.

- `state`: three members with a state of 100 MB broadcast 1000 messages of 100 bytes a second in
  total, and another one joins. The seconds until it is in the group with the state and may
  broadcast, and the longest time without a delivery at the three in that time; `usual` is that in
  two seconds before. Each member forms the chunks of its dump from one buffer, without a copy.
- `start`: 64 members are started at once, each with the address of one of them as the seed: the
  seconds until all are in the group.

With --quick, 10 MB and 16 members. Exit status 1 if 64 members take 10 s or more.
"""

import os
import signal
import tempfile
import time
from pathlib import Path

import harness
from pause import DELIVERED, ROW, await_ready, fork, longest_ms

FOUNDERS = 3
USUAL_S = 2.0
START_S = 10.0


class Blob:
    """A state of this size, which messages do not change."""

    def __init__(self, size_bytes):
        self.data = bytes(size_bytes)

    def apply(self, message):
        """Count nothing."""

    def dump(self):
        """All of it."""
        return self.data

    def load(self, chunks):
        """All of another one."""
        self.data = b"".join(chunks)


def group(count, founders, **more):
    """Settings and listeners of members, the first of which are founders."""
    from precedes.live import Config
    from precedes.live.member.node import Node
    from precedes.live.net.links import listen_on_loopback

    listeners = [listen_on_loopback() for _ in range(count)]
    addresses = ["{}:{}".format(*sock.getsockname()) for sock in listeners]
    configs = [
        Config(
            member=i, founders=tuple(map(str, range(founders))), address=addresses[i],
            seeds=addresses[:1], name="join", tier="compiled", **more,
        )
        for i in range(count)
    ]  # fmt: skip
    Node(configs[0].settings()).prepare()
    return configs, listeners


def end(members):
    """Kill all."""
    for process in members:
        os.kill(process, signal.SIGKILL)
    for process in members:
        os.waitpid(process, 0)


def measure_state(size_mb):
    """Join a group with a large state."""
    configs, listeners = group(FOUNDERS + 1, FOUNDERS)
    is_ready, ready = os.pipe()
    members = []
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / str(i) for i in range(len(configs))]
        try:
            for i, path in enumerate(paths):
                if i == FOUNDERS:
                    await_ready(is_ready, FOUNDERS)
                    time.sleep(1.0)
                    usual_ns = time.monotonic_ns()
                    time.sleep(USUAL_S)
                    since_ns = time.monotonic_ns()
                size_bytes = (size_mb << 20) * (i < FOUNDERS)
                state = Blob(size_bytes)
                members.append(fork(configs[i], listeners[i], listeners, path, ready, state=state))
            await_ready(is_ready, 1)
            until_ns = time.monotonic_ns()
        finally:
            end(members)
            for sock in listeners:
                sock.close()
        rows = [list(ROW.iter_unpack(path.read_bytes())) for path in paths[:FOUNDERS]]
    times = [[at for what, at in one if what == DELIVERED] for one in rows]
    return {
        "joined_s": (until_ns - since_ns) / 1e9,
        "gap_ms": max(longest_ms(one, since_ns, until_ns) for one in times),
        "usual_gap_ms": max(longest_ms(one, usual_ns, since_ns) for one in times),
    }


def measure_start(count):
    """Start a group at once."""
    configs, listeners = group(count, count)
    is_ready, ready = os.pipe()
    members = []
    with tempfile.TemporaryDirectory() as directory:
        try:
            since_s = time.monotonic()
            for i, config in enumerate(configs):
                path = Path(directory) / str(i)
                members.append(fork(config, listeners[i], listeners, path, ready))
            await_ready(is_ready, count)
            return {"members": count, "ready_s": time.monotonic() - since_s}
        finally:
            end(members)
            for sock in listeners:
                sock.close()


def measure(*, quick):
    """Both questions."""
    return {
        "state": measure_state(10 if quick else 100),
        "start": measure_start(16 if quick else 64),
    }


def show(report):
    """The figures."""
    state, start = report["state"], report["start"]
    print(f"joined with the state after {state['joined_s']:.2f} s")
    print(f"longest gap meanwhile {state['gap_ms']:.0f} ms, usually {state['usual_gap_ms']:.0f} ms")
    print(f"{start['members']} members started at once were ready after {start['ready_s']:.2f} s")


def ratios(report):
    """The start as a share of what is promised."""
    return {f"start of 64 / {START_S:g} s": report["start"]["ready_s"] / START_S}


def holds(report):
    """Return whether the promise is kept."""
    return report["start"]["ready_s"] < START_S


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, holds=holds)
