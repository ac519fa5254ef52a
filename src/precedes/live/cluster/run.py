"""A group of real processes on this machine: start, load, faults, audit.

If the compiled step is in the cache it is loaded once, then a process is forked for every member:
they share it in memory and start within milliseconds, 64 as well as 8. Each member logs its events;
afterwards the logs of all are audited.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from precedes import registry
from precedes.audit import audit, check_views, to_json
from precedes.compiled import compiler
from precedes.compiled.tiers import Tier
from precedes.errors import InternalError, UserError
from precedes.live.cluster import process
from precedes.live.cluster.faults import Fault, Outage, Relays, disturbances, draw, latencies
from precedes.live.cluster.live_page import LivePage
from precedes.live.cluster.process import Watch, Watching
from precedes.live.config import Config
from precedes.live.member.node import Node
from precedes.live.net.links import listen_on_loopback
from precedes.live.net.security import Security, make_keys
from precedes.trace import member_log

GROUP: Final = "cluster"
# Files that a cluster writes to its directory.
LEFT_BEHIND: Final = re.compile(r"(member|process)-\d{4,}\.(events|views|json|log)")
# Members wait for shorter pauses; ``faults.draw`` has none between this and an exclusion.
PAUSE_SHORT_S: Final = 0.5
START_S: Final = 30.0
# Ends of members whose silence lasted longer than the others' patience.
LATE: Final = ("excluded", "lost")
# Runs that wait for a compiled step instead of starting interpreted: more members than these, whose
# processes then share it in memory, and more deliveries per second than interpreted steps can do.
CLIMBING_MAX: Final = 16
DELIVERIES_PER_S_MAX: Final = 500.0
READY_BYTES: Final = 1024 * process.NUMBER.size

# Called with a phase (starting, load, settling, audit), the seconds in it and, for load, those
# planned; not before all members are forked, so that it may start a thread.
Phases = Callable[[str, float, float | None], None]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Settings of a cluster."""

    members: int = 8
    protocol: str = "vector"
    parameters: dict[str, Any] = field(default_factory=dict)
    seconds: float = 10.0
    rate: float | None = None  # broadcasts a second of all together; None: as many as possible
    payload_bytes: int = 100
    window: int = 512
    faults: int | None = None  # a seed, or None for no faults
    churn: int | None = None  # a seed of members that come and go, or None
    rolling_restart: bool = False  # replace all processes, one after the other
    evict_after_s: float = 5.0
    grace_s: float = 30.0  # time for members beyond the run and the others' patience
    secure: bool = False
    tier: Tier = "auto"

    def __post_init__(self) -> None:
        if not 2 <= self.members <= 256:
            raise UserError(f"a cluster on one machine has 2 to 256 members, not {self.members}")
        if not 0.1 <= self.seconds <= 3600:
            raise UserError(f"seconds must be between 0.1 and 3600, not {self.seconds:g}")
        if self.rate is not None and not 0.1 <= self.rate <= 1e7:
            raise UserError(f"rate must be between 0.1 and 1e7, not {self.rate:g}")
        if not 8 <= self.payload_bytes <= 1 << 20:
            raise UserError(f"a payload here has 8 to 1048576 bytes, not {self.payload_bytes}")
        protocol = registry.load_live(self.protocol)
        protocol.make_parameters(self.parameters)
        if self.is_changing:
            self._check_changes(is_dynamic=protocol.on_loss == "view")

    def _check_changes(self, *, is_dynamic: bool) -> None:
        """UserError for changes that do not go together, or not with this group."""
        change = "a rolling restart" if self.rolling_restart else "churn"
        if (self.faults is not None) + (self.churn is not None) + self.rolling_restart > 1:
            raise UserError("choose one of faults, churn and a rolling restart")
        if not is_dynamic:
            raise UserError(
                f"members of protocol {self.protocol} cannot be replaced: use vector, vcube or "
                f"hashed for {change}"
            )
        if self.members < 3:
            raise UserError(f"{change} needs 3 members or more, not {self.members}")
        if self.churn is not None and self.secure:
            raise UserError("churn cannot read encrypted handshakes: choose a group without secure")

    @property
    def is_changing(self) -> bool:
        """Return whether processes of members are replaced."""
        return self.rolling_restart or self.churn is not None

    def schedule(self) -> list[Fault]:
        """The faults of this run."""
        if self.faults is None:
            return []
        return draw(
            self.faults,
            members=self.members,
            seconds=self.seconds,
            patience_s=self.evict_after_s,
            crashes=registry.load_live(self.protocol).on_loss != "end",
        )


def run(
    cluster: Cluster,
    *,
    directory: Path | None = None,
    watch: Watch | None = None,
    page: LivePage | None = None,
    progress: Phases | None = None,
) -> dict[str, Any]:
    """Run it; returns the object that ``precedes cluster --json`` prints.

    Logs and results stay in ``directory`` if one is given. ``watch`` gets each standing of an audit
    that follows the logs, in another process, and so does ``page``. ``progress`` is called many
    times a second.
    """
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _make_empty(directory)
        keys = None
        if cluster.secure:
            keys = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            make_keys(keys, group=GROUP, members=cluster.members)
        progress = progress or (lambda *_: None)
        if cluster.is_changing:
            from precedes.live.cluster.changes import run_changes

            return run_changes(cluster, directory, keys, watch, progress)
        return _run(cluster, directory, keys, watch, page, progress)


def _make_empty(directory: Path) -> None:
    """Delete the files of an earlier cluster, and nothing else."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        paths = list(directory.iterdir())
        others = [path for path in paths if not LEFT_BEHIND.fullmatch(path.name)]
        if others:
            raise UserError(f"{directory} holds other files ({others[0].name}): name an empty one")
        for path in paths:
            path.unlink()
    except OSError as error:
        raise UserError(f"cannot use {directory}: {error.strerror}") from None


def _run(
    cluster: Cluster,
    directory: Path,
    keys: Path | None,
    watch: Watch | None,
    page: LivePage | None,
    progress: Phases,
) -> dict[str, Any]:
    faults = cluster.schedule()
    listeners = [listen_on_loopback() for _ in range(cluster.members)]
    targets = [sock.getsockname() for sock in listeners]
    relays = Relays(cluster.members, targets) if faults else None
    direct = [f"{host}:{port}" for host, port in targets]
    configs = [
        Config(
            member=member,
            addresses=tuple(relays.addresses(member) if relays else direct),
            name=GROUP,
            protocol=cluster.protocol,
            parameters=cluster.parameters,
            window=cluster.window,
            payload_max_bytes=max(cluster.payload_bytes, 1024),
            evict_after_s=cluster.evict_after_s,
            test_every_s=min(0.5, cluster.evict_after_s / 4),
            linger_s=2 * cluster.evict_after_s + 5,
            start_s=START_S,
            blocked_s=cluster.evict_after_s,
            trace=str(directory),
            tier=cluster.tier,
            security=None if keys is None else Security.in_directory(keys, member=member),
        )
        for member in range(cluster.members)
    ]
    load_step(configs[0], cluster.rate)
    sockets = [*listeners, *(relays.sockets.values() if relays else [])]
    # Freeze the heap before forking: collecting in a child copies shared pages.
    gc.collect()
    gc.freeze()
    watching = None
    if watch is not None or page is not None:
        watching = Watching(directory, watch or (lambda _: None), sockets, page)
    if page is not None:
        page.close()
    began_s = time.monotonic()
    ready, set_ready = os.pipe()
    supervisor = _Supervisor([], ready, faults, relays, progress, cluster.seconds, page)
    try:
        for member, config in enumerate(configs):
            others = [sock for sock in sockets if sock is not listeners[member]]
            task = process.Task(
                config=config,
                seconds=cluster.seconds,
                rate=None if cluster.rate is None else cluster.rate / cluster.members,
                payload_bytes=cluster.payload_bytes,
                result=directory / f"member-{member:04d}.json",
                log=directory / f"member-{member:04d}.log",
                ready=set_ready,
            )
            supervisor.processes.append(process.fork(task, listeners[member], others))
        for sock in listeners:
            sock.close()
        os.close(set_ready)
        hung = asyncio.run(
            supervisor.supervise(cluster.seconds + 3 * cluster.evict_after_s + cluster.grace_s)
        )
    finally:
        for number in supervisor.processes:
            process.end(number)
        os.close(ready)
        if watching is not None and sys.exc_info()[0] is not None:
            watching.abandon()
    took_s = time.monotonic() - began_s
    _log_for_absent(configs, directory)
    progress("audit", 0.0, None)
    if watching is not None:
        watching.finish()
    return _sum_up(cluster, directory, supervisor, hung=hung, took_s=took_s)


def load_step(config: Config, rate: float | None) -> None:
    """Load the compiled step, which all members then share, or wait for its compiler.

    A few members with little to do begin interpreted and load it themselves. A process that loads
    code takes 50 MB for the compiler's modules, of which forked ones share nearly all.
    """
    node, members = Node(config.settings()), len(config.names)
    tier = node.protocol.resolve_tier(config.tier)
    if tier == "interpreted" or node.load() is not None:
        return
    is_small = rate is not None and rate * (members - 1) <= DELIVERIES_PER_S_MAX
    if tier == "auto" and members <= CLIMBING_MAX and is_small:
        return
    try:
        if tier == "auto":
            node.code.begin(then=True)
        node.prepare()
    except InternalError:
        if tier == "compiled":
            raise
        compiler.tell_failure(node.code, node.protocol.name)


class _Supervisor:
    """The processes of a run: waits for them and causes the scheduled faults."""

    def __init__(
        self,
        processes: list[int],
        ready: int,
        faults: list[Fault],
        relays: Relays | None,
        progress: Phases,
        load_s: float,
        page: LivePage | None,
    ) -> None:
        self._page = page
        self.processes = processes
        self.faults = faults
        self.outages: list[Outage] = []
        self._ready = ready
        self._relays = relays
        self._progress = progress
        self._load_s = load_s
        self._forked_s = time.monotonic()

    async def supervise(self, limit_s: float) -> list[int]:
        """Wait until the members have ended; return those that did not in time.

        The clock of the faults and the limit start when all live members are ready: how long
        that takes depends on the machine.
        """
        if self._relays is not None:
            await self._relays.start()
        os.set_blocking(self._ready, False)
        tasks: list[asyncio.Task[None]] = []
        began_s: float | None = None
        ready = set[int]()
        deadline_s = time.monotonic() + START_S + limit_s
        left = dict(enumerate(self.processes))
        while left and time.monotonic() < deadline_s:
            left = {member: one for member, one in left.items() if not process.ended(one)}
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._ready, READY_BYTES)
                ready.update(member for (member,) in process.NUMBER.iter_unpack(data))
            if began_s is None and ready.issuperset(left):
                began_s = time.monotonic()
                deadline_s = began_s + limit_s
                if self._page is not None:
                    self._page.began()
                causes = (self._apply(number, fault) for number, fault in enumerate(self.faults))
                tasks = [asyncio.create_task(cause) for cause in causes]
            self._report(began_s)
            await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._relays is not None:
            await self._relays.close()
        return sorted(left)

    def _report(self, ready_s: float | None) -> None:
        """Report progress; ``ready_s`` is when all were ready, None before."""
        now_s = time.monotonic()
        if ready_s is None:
            self._progress("starting", now_s - self._forked_s, None)
        elif now_s < ready_s + self._load_s:
            self._progress("load", now_s - ready_s, self._load_s)
        else:
            self._progress("settling", now_s - ready_s - self._load_s, None)

    async def _apply(self, number: int, fault: Fault) -> None:
        """Apply one fault at its time, and show it on the live page."""
        await asyncio.sleep(fault.at_s)
        page = self._page
        if page is not None:
            page.report(number, fault.kind, fault.members, is_over=False)
        await self._cause(fault)
        if page is not None and fault.kind != "kill":
            page.report(number, fault.kind, fault.members, is_over=True)

    async def _cause(self, fault: Fault) -> None:
        assert self._relays is not None
        if fault.kind == "reset":
            self._relays.reset(*fault.members)
        elif fault.kind == "partition":
            with self._missing(None):
                self._relays.cut(fault.members)
                await asyncio.sleep(fault.for_s)
                self._relays.heal()
        elif not process.ended(number := self.processes[fault.members[0]]):
            if fault.kind == "kill":
                self.outages.append(Outage(member=fault.members[0], since_us=_now_us()))
                os.kill(number, signal.SIGKILL)
                return
            with self._missing(fault.members[0]):
                os.kill(number, signal.SIGSTOP)
                try:
                    await asyncio.sleep(fault.for_s)
                finally:
                    if not process.ended(number):
                        os.kill(number, signal.SIGCONT)

    @contextlib.contextmanager
    def _missing(self, member: int | None) -> Iterator[None]:
        """Record a time in which a member is missing."""
        outage = Outage(member=member, since_us=_now_us())
        self.outages.append(outage)
        yield
        outage.until_us = _now_us()


def _now_us() -> int:
    return time.monotonic_ns() // 1000


def _log_for_absent(configs: list[Config], directory: Path) -> None:
    """Write the empty logs of members that ended before they had opened them."""
    for member, config in enumerate(configs):
        log_if_absent(config, directory, member=member)


def log_if_absent(config: Config, directory: Path, *, member: int) -> None:
    """Write the empty log of a member that ended before it had opened one: it has crashed."""
    path = member_log.log_path(directory, member)
    if not path.exists() or path.stat().st_size < member_log.HEADER_BYTES:
        about = {"group": config.name, "protocol": config.protocol, "began": False}
        members = max(len(config.names), member + 1)
        log = member_log.LogWriter(str(directory), member=member, members=members, about=about)
        log.close(member_log.OPEN)


def _sum_up(
    cluster: Cluster, directory: Path, supervisor: _Supervisor, *, hung: list[int], took_s: float
) -> dict[str, Any]:
    """The results of the members and of the audit."""
    faults = supervisor.faults
    results: list[dict[str, Any]] = []
    for node in range(cluster.members):
        path = directory / f"member-{node:04d}.json"
        results.append(json.loads(path.read_text()) if path.exists() else {"ended": "killed"})
    report = to_json(audit(directory))
    guarantee = registry.load(cluster.protocol).guarantee
    verdict = promised(report, guarantee)
    views = [finding.text for finding in check_views(directory)]
    verdict = "violated" if views else verdict
    unexpected = [
        node
        for node, member in enumerate(results)
        if member["ended"].partition(":")[0] not in {"all", *_excuses(node, faults)}
    ]
    if (hung or unexpected) and verdict == "held":
        late = {*hung, *(node for node in unexpected if results[node]["ended"].startswith(LATE))}
        verdict = "late" if late.issuperset(unexpected) else "violated"
    measured = [member for member in results if member["ended"] == "all"]
    evicted_us = [member["evicted_us"] for member in measured]
    missing = disturbances(supervisor.outages, evicted_us, end_us=_now_us())
    cpu_s = sum(member["cpu_s"] for member in measured)
    active_s = max((member["active_s"] for member in measured), default=0.0)
    counted = sum(member["deliveries_measured"] for member in measured)
    return {
        "verdict": verdict,
        "protocol": cluster.protocol,
        "members": cluster.members,
        "tier": tier_of(measured),
        "guarantee": guarantee,
        "broadcasts": sum(member["broadcasts"] for member in measured),
        "deliveries": sum(member["deliveries"] for member in measured),
        "deliveries_per_s": counted / active_s if active_s else 0.0,
        "deliveries_per_core_s": counted / cpu_s if cpu_s else 0.0,
        **latencies([sample for member in measured for sample in member["latency_us"]], missing),
        "pending_max": max((member["pending_max"] for member in measured), default=0),
        "pending_bound": (cluster.members - 1) * cluster.window,
        "links_max": max((member["links"] for member in measured), default=0),
        "ended": {str(node): member["ended"] for node, member in enumerate(results)},
        "hung": hung,
        "unexpected": unexpected,
        "reconnections": sum(member["reconnections"] for member in measured),
        "evictions": max((member["evictions"] for member in measured), default=0),
        "faults": [asdict(fault) for fault in faults],
        "wall_s": took_s,
        **{name: report[name] for name in ("violations", "lost", "duplicates", "phantom")},
        "witnesses": [witness["sentence"] for witness in report["witnesses"]],
        "view_findings": views,
    }


def promised(report: dict[str, Any], guarantee: str) -> str:
    """The verdict of an audit on what the protocol promises."""
    wrong = report["lost"] + report["duplicates"] + report["phantom"] + report["cycles"]
    if guarantee != "causal" and report["verdict"] == "violated" and not wrong:
        return "held"  # the violations are reported next to it
    return str(report["verdict"])


def tier_of(members: list[dict[str, Any]]) -> str:
    """The tier of the members: all compiled, all interpreted, or mixed."""
    tiers = {member["tier"] for member in members} or {"interpreted"}
    return tiers.pop() if len(tiers) == 1 else "mixed"


def _excuses(who: int, faults: list[Fault]) -> set[str]:
    """Ends of a member that these faults explain, other than with all others."""
    ends = set()
    for fault in faults:
        if fault.members == (who,) and fault.kind == "kill":
            ends.add("killed")
        if fault.members == (who,) and fault.kind == "pause" and fault.for_s > PAUSE_SHORT_S:
            ends |= {"excluded", "lost"}  # lost: when it woke up, the others had ended
    return ends
