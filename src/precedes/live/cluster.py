"""A group of real processes on this machine: start, drive, break, audit.

The compiled step is loaded once, then a process is forked for every member: they share it in
memory and start within milliseconds, 64 as well as 8. Each member logs its events; afterwards
the logs of all are audited.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from precedes.audit import audit, to_json
from precedes.live import member_process
from precedes.live.config import Config, Security
from precedes.live.faults import Fault, Relays, draw
from precedes.live.node import Node
from precedes.live.security import make_keys
from precedes.model import UserError
from precedes.protocols import registry
from precedes.trace import read_members

# `hashed` asks the sender of a message that it cannot explain, and a lost one does not answer.
NO_CRASHES: Final = frozenset({"hashed"})
# Shorter pauses are waited for; ``faults.draw`` has none between this and an eviction.
PAUSE_SHORT_S: Final = 0.5
# What a member may take beyond the time of the run: the others' patience, and the end.
GRACE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """What to run."""

    members: int = 8
    protocol: str = "vector"
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: float = 10.0
    rate: float | None = None  # broadcasts a second of all together; None: as many as possible
    payload_bytes: int = 100
    window: int = 512
    faults: int | None = None  # a seed; None: none
    evict_after_s: float = 5.0
    secure: bool = False
    uvloop: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.members <= 256:
            raise UserError(f"a cluster on one machine has 2 to 256 members, not {self.members}")
        if not 0.1 <= self.seconds <= 3600:
            raise UserError(f"seconds must be between 0.1 and 3600, not {self.seconds:g}")
        if self.rate is not None and not 0.1 <= self.rate <= 1e7:
            raise UserError(f"rate must be between 0.1 and 1e7, not {self.rate:g}")
        if not 8 <= self.payload_bytes <= 1 << 20:
            raise UserError(f"a payload here has 8 to 1048576 bytes, not {self.payload_bytes}")
        registry.load_linked(self.protocol).make_parameters(self.parameters)

    def schedule(self) -> list[Fault]:
        """The faults of this run."""
        if self.faults is None:
            return []
        return draw(
            self.faults,
            members=self.members,
            seconds=self.seconds,
            patience_s=self.evict_after_s,
            crashes=self.protocol not in NO_CRASHES,
        )


def run(cluster: Cluster, *, directory: Path | None = None) -> dict[str, Any]:
    """Run it, and what came of it: the object that ``precedes cluster --json`` prints.

    Logs and results stay in ``directory`` if one is given.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _make_empty(directory)
        return _run(cluster, directory)


def _make_empty(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.iterdir():
            if not path.name.endswith((".events", ".json", ".log")):
                raise UserError(f"{directory} holds other files: name an empty directory")
            path.unlink()
    except OSError as error:
        raise UserError(f"cannot use {directory}: {error.strerror}") from None


def _run(cluster: Cluster, directory: Path) -> dict[str, Any]:
    faults = cluster.schedule()
    listeners = [_listener() for _ in range(cluster.members)]
    targets = [sock.getsockname() for sock in listeners]
    relays = Relays(cluster.members, targets) if faults else None
    configs = [_config(cluster, who, targets, relays, directory) for who in range(cluster.members)]
    Node(configs[0].settings()).prepare()
    # What is here now stays: members must not search it for garbage, nor copy its pages for that.
    gc.collect()
    gc.freeze()
    began_s = time.monotonic()
    processes = []
    try:
        for who, config in enumerate(configs):
            others = [sock for sock in listeners if sock is not listeners[who]]
            others += relays.sockets.values() if relays else []
            task = member_process.Task(
                config=config,
                seconds=cluster.seconds,
                rate=None if cluster.rate is None else cluster.rate / cluster.members,
                payload_bytes=cluster.payload_bytes,
                result=directory / f"member-{who:04d}.json",
                log=directory / f"member-{who:04d}.log",
                uvloop=cluster.uvloop,
            )
            processes.append(member_process.fork(task, listeners[who], others))
        for sock in listeners:
            sock.close()
        limit_s = cluster.seconds + 3 * cluster.evict_after_s + GRACE_S
        hung = asyncio.run(_attend(processes, faults, relays, limit_s))
    finally:
        for process in processes:
            member_process.end(process)
    took_s = time.monotonic() - began_s
    return _sum_up(cluster, directory, faults, hung=hung, took_s=took_s)


def _config(
    cluster: Cluster,
    who: int,
    targets: list[tuple[str, int]],
    relays: Relays | None,
    directory: Path,
) -> Config:
    addresses = [f"{host}:{port}" for host, port in targets]
    security = None
    if cluster.secure:
        keys = directory.parent / f"{directory.name}-keys"
        if who == 0:
            make_keys(keys, group="cluster", members=cluster.members)
        security = Security(
            authority=str(keys / "authority.pem"),
            certificate=str(keys / f"member-{who}.pem"),
            key=str(keys / f"member-{who}.key"),
        )
    return Config(
        member=who,
        addresses=tuple(relays.addresses(who) if relays else addresses),
        name="cluster",
        protocol=cluster.protocol,
        parameters=cluster.parameters,
        window=cluster.window,
        payload_max_bytes=max(cluster.payload_bytes, 1024),
        evict_after_s=cluster.evict_after_s,
        test_every_s=min(0.5, cluster.evict_after_s / 4),
        linger_s=2 * cluster.evict_after_s + 5,
        start_s=GRACE_S,
        trace=str(directory),
        security=security,
    )


def _listener() -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    sock.listen(256)
    return sock


async def _attend(
    processes: list[int], faults: list[Fault], relays: Relays | None, limit_s: float
) -> list[int]:
    """Break what the schedule says and wait for the members; those that did not end in time."""
    if relays is not None:
        await relays.start()
    tasks = [asyncio.create_task(_cause(fault, processes, relays)) for fault in faults]
    deadline_s = time.monotonic() + limit_s
    left = dict(enumerate(processes))
    while left and time.monotonic() < deadline_s:
        left = {who: process for who, process in left.items() if not member_process.ended(process)}
        await asyncio.sleep(0.02)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if relays is not None:
        await relays.close()
    return sorted(left)


async def _cause(fault: Fault, processes: list[int], relays: Relays | None) -> None:
    """One fault, at its time."""
    assert relays is not None
    await asyncio.sleep(fault.at_s)
    if fault.kind == "reset":
        relays.reset(*fault.members)
    elif fault.kind == "partition":
        relays.cut(fault.members)
        await asyncio.sleep(fault.for_s)
        relays.heal()
    else:
        process = processes[fault.members[0]]
        if member_process.ended(process):
            return
        os.kill(process, signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
        if fault.kind == "pause":
            try:
                await asyncio.sleep(fault.for_s)
            finally:
                if not member_process.ended(process):
                    os.kill(process, signal.SIGCONT)


def _sum_up(
    cluster: Cluster, directory: Path, faults: list[Fault], *, hung: list[int], took_s: float
) -> dict[str, Any]:
    """What the members found and what the audit says of it."""
    found: list[dict[str, Any]] = []
    for who in range(cluster.members):
        path = directory / f"member-{who:04d}.json"
        found.append(json.loads(path.read_text()) if path.exists() else {"ended": "killed"})
    report = to_json([audit(read_members(directory))])
    guarantee = registry.load(cluster.protocol).guarantee
    verdict = report["verdict"]
    wrong = report["lost"] + report["duplicates"] + report["phantom"] + report["cycles"]
    if guarantee != "causal" and verdict == "violated" and not wrong:
        verdict = "held"  # of what the protocol promises; the violations are told beside it
    unexpected = [
        who
        for who, member in enumerate(found)
        if member["ended"].partition(":")[0] not in {"all", *_excuses(who, faults)}
    ]
    if (hung or unexpected) and verdict == "held":
        verdict = "violated"
    measured = [member for member in found if member["ended"] == "all"]
    cpu_s = sum(member["cpu_s"] for member in measured)
    active_s = max((member["active_s"] for member in measured), default=0.0)
    counted = sum(member["deliveries_measured"] for member in measured)
    latency = sorted(sample for member in measured for sample in member["latency_us"])
    return {
        "verdict": verdict,
        "protocol": cluster.protocol,
        "members": cluster.members,
        "guarantee": guarantee,
        "broadcasts": sum(member["broadcasts"] for member in measured),
        "deliveries": sum(member["deliveries"] for member in measured),
        "deliveries_per_s": counted / active_s if active_s else 0.0,
        "deliveries_per_core_s": counted / cpu_s if cpu_s else 0.0,
        "p50_ms": _quantile(latency, 0.50) / 1000,
        "p99_ms": _quantile(latency, 0.99) / 1000,
        "pending_max": max((member["pending_max"] for member in measured), default=0),
        "pending_bound": (cluster.members - 1) * cluster.window,
        "links_max": max((member["links"] for member in measured), default=0),
        "ended": {str(who): member["ended"] for who, member in enumerate(found)},
        "hung": hung,
        "unexpected": unexpected,
        "reconnections": sum(member["reconnections"] for member in measured),
        "evictions": max((member["evictions"] for member in measured), default=0),
        "faults": [asdict(fault) for fault in faults],
        "wall_s": took_s,
        **{name: report[name] for name in ("violations", "lost", "duplicates", "phantom")},
        "witnesses": [witness["sentence"] for witness in report["witnesses"]],
    }


def _excuses(who: int, faults: list[Fault]) -> set[str]:
    """How else than with all others a member may have ended, given what was done to it."""
    found = set()
    for fault in faults:
        if fault.members == (who,) and fault.kind == "kill":
            found.add("killed")
        if fault.members == (who,) and fault.kind == "pause" and fault.for_s > PAUSE_SHORT_S:
            found |= {"evicted", "lost"}  # lost: when it woke up, the others had ended
    return found


def _quantile(values: list[float], share: float) -> float:
    return values[min(int(share * len(values)), len(values) - 1)] if values else 0.0
