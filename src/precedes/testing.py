"""A conformance suite that runs any protocol: by name, or from a file of your own.

``assert_conforms("my_protocol.py")`` in a test, or ``python -m precedes.testing my_protocol.py``
in a shell, loads the file, checks the contract, and runs it on random schedules: groups,
workloads, networks and faults that all come from one seed. On every schedule

- the same seed gives the same trace, compiled and interpreted, with ample room and with so
  little that everything has to grow;
- handlers keep the rules of ``precedes.protocols.contract``: what was sent never changes, every
  reference is ended once, FULL leaves no trace;
- the exact audit finds what the protocol promises, and counts what the oracle in the loop counts.

A failure names its seed, and the seed alone repeats it.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled as compiling
from precedes.audit import Report, audit
from precedes.model import EventKind, PrecedesError
from precedes.protocols import contract, registry
from precedes.protocols.contract import Capacity, Host
from precedes.sim import Fault, Result, Scenario
from precedes.sim.assumptions import outside
from precedes.sim.run import Run
from precedes.trace import History
from precedes.trace.message_index import index_messages

TIME_NS, NODE, KIND, SOURCE, SEQUENCE, PACKET = range(6)  # columns of ``Collector.rows``

DELAYS: Final = (
    "constant:0",  # everything at once: ties
    "constant:50",
    "uniform:1:200",
    "normal:100:20",
    "normal:5:20",  # often cut off at the shortest delay there is
    "lognormal:40:1",
    "exponential:80",
)
# Long enough for every delay drawn here, short enough for a protocol that is never at rest.
REST_S: Final = 60.0


class Collector:
    """A writer that keeps a trace in memory: hand it to ``sim.simulate`` or ``sim.run.Run``."""

    def __init__(self) -> None:
        self._chunks: list[NDArray[np.int64]] = [np.empty((0, 6), np.int64)]

    def write(
        self,
        time_ns: NDArray[np.int64],
        node: NDArray[np.int64],
        kind: NDArray[np.int64],
        source: NDArray[np.int64],
        sequence: NDArray[np.int64],
        packet: NDArray[np.int64],
    ) -> None:
        """Take one chunk; the arrays are copied."""
        self._chunks.append(np.stack([time_ns, node, kind, source, sequence, packet], axis=1))

    def rows(self) -> NDArray[np.int64]:
        """Every event so far, a row each: time_ns, node, kind, source, sequence, packet."""
        self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0]

    def history(self, *, nodes: int, complete: bool = True) -> History:
        """The same for the audit."""
        rows = self.rows()
        crashed = np.unique(rows[rows[:, KIND] == EventKind.CRASH, NODE])
        rows = rows[np.isin(rows[:, KIND], (EventKind.BROADCAST, EventKind.DELIVER))]
        rows = rows[np.argsort(rows[:, NODE], kind="stable")]
        offsets = np.searchsorted(rows[:, NODE], np.arange(nodes + 1))
        kind = rows[:, KIND].astype(np.int8)
        source, sequence = rows[:, SOURCE].astype(np.int32), rows[:, SEQUENCE].astype(np.int32)
        index = index_messages(offsets, kind, source, sequence, title="the run")
        return History(
            nodes=nodes,
            offsets=offsets,
            kind=kind,
            message=index.message,
            message_source=index.source,
            message_sequence=index.sequence,
            message_names=index.names,
            phantom_names=index.phantom_names,
            complete=complete,
            crashed=crashed.astype(np.int32),
        )


def random_scenario(protocol: str, seed: int, *, hostile: bool = False) -> Scenario:
    """A small random scenario for a protocol; the same seed gives the same one.

    The seed also draws which features there are at all: a mix of everything would hide what
    only one of them brings out. The network keeps to what the protocol assumes, unless
    ``hostile``; nodes may pause or crash in any case.
    """
    assumes = frozenset() if hostile else registry.load(protocol).assumes
    rng = random.Random(seed)

    def has(share: float = 0.25) -> bool:
        return rng.random() < share

    nodes = rng.choice((2, 3, 3, 4, 5, 6, 8, 12))
    messages = rng.choice((5, 15, 30, 60))
    rate = rng.choice((20.0, 100.0, 500.0, 5000.0))
    span_s = messages / rate
    kind = rng.choice(("poisson", "poisson", "periodic", "window", "bell", "random"))
    workload = {
        "window": f"window:{1000 * span_s:g}",
        "bell": f"bell:{rate / 10:g}:{rate:g}",
        "random": f"random:0:{rate:g}",
    }.get(kind, kind)
    may_lose, may_repeat = "reliable" not in assumes, "unique" not in assumes
    return Scenario(
        protocol=protocol,
        nodes=nodes,
        messages=messages,
        duration_s=2 * span_s if kind in ("bell", "random") else None,
        rate=rate,
        workload=workload,
        skew=rng.choice((0.5, 2.0)) if has() else 0.0,
        delay=rng.choice(DELAYS),
        per="link" if has() else "use",
        loss=rng.choice((0.01, 0.1)) if has() and may_lose else 0.0,
        duplication=rng.choice((0.05, 0.5)) if has() and may_repeat else 0.0,
        fifo=has() or "fifo" in assumes,
        processing_ms=rng.choice((0.1, 20.0)) if has() else 0.0,
        transmission_ms=rng.choice((0.01, 2.0)) if has() else 0.0,
        bandwidth_bytes_per_s=rng.choice((1e5, 1e7)) if has(0.15) else 0.0,
        payload_bytes=rng.choice((0, 50, 1000)),
        mtu_bytes=rng.choice((100, 1500)) if has() else 0,
        faults=tuple(_random_faults(rng, nodes=nodes, span_s=span_s + 0.1, may_lose=may_lose)),
        seed=seed,
        horizon_s=2 * span_s + REST_S,
    )


def _random_faults(
    rng: random.Random, *, nodes: int, span_s: float, may_lose: bool
) -> Iterator[Fault]:
    def at_s() -> float:
        return rng.uniform(0, span_s)

    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 3)):
            yield Fault("pause", node=rng.randrange(nodes), at_s=at_s(), for_s=at_s() + 0.01)
    if rng.random() < 0.2:
        members = rng.sample(range(nodes), nodes)
        side = rng.randint(1, nodes - 1)
        yield Fault(
            "cut",
            at_s=at_s(),
            for_s=at_s() + 0.01,
            nodes=tuple(members[:side]),
            others=tuple(members[side:]),
            both_ways=rng.random() < 0.5,
            holds=not may_lose or rng.random() < 0.5,
        )
    if rng.random() < 0.15:
        after_sends = rng.randint(1, 3 * nodes) if rng.random() < 0.5 else 0
        detection_ms = (0.0, rng.choice((0.0, 500.0)))
        yield Fault(
            "crash",
            node=rng.randrange(nodes),
            at_s=at_s(),
            after_sends=after_sends,
            detection_ms=detection_ms,
        )


@dataclass(frozen=True)
class Observed:
    """One schedule that was run: its trace, the simulator's result and the audit's report."""

    rows: NDArray[np.int64]
    result: Result
    report: Report


def observe(scenario: Scenario, *, interpreted: bool = False, packets: bool = False) -> Observed:
    """Run a scenario, keep its trace in memory and audit it."""
    collector = Collector()
    result = Run(scenario, writer=collector, packets=packets).go(interpreted=interpreted)
    history = collector.history(nodes=scenario.nodes, complete=result.complete)
    return Observed(collector.rows(), result, audit(history))


def check_scenario(scenario: Scenario, *, compiled: bool = True) -> Observed:
    """Run a scenario in every way; AssertionError if a way differs or a promise is broken.

    ``compiled=False`` leaves out the compiled engine, which takes seconds to build for a
    protocol that is new.
    """
    seen = observe(scenario, interpreted=not compiled)
    again = observe(scenario, interpreted=not compiled, packets=True)
    plain = again.rows[np.isin(again.rows[:, KIND], (EventKind.SEND, EventKind.RECEIVE), invert=True)]
    first = seen.rows[seen.rows[:, KIND] != EventKind.RECEIVE]
    _require(np.array_equal(first, plain), "the same seed gave another trace the second time")
    _require(_counts(seen.result) == _counts(again.result), "the same seed gave other counts")
    watch = _Watch(registry.load(scenario.protocol))
    collector = Collector()
    with watch.installed():
        result = _TightRun(scenario, writer=collector).go(interpreted=True)
    way = "compiled and interpreted runs differ" if compiled else "little room made a difference"
    _require(np.array_equal(seen.rows, collector.rows()), f"{way} in their traces")
    _require(_counts(seen.result) == _counts(result), f"{way} in their counts")
    _check_agreement(seen)
    _check_promises(scenario, seen)
    if not outside(scenario) and not _crashes(scenario):
        watch.check_end()
    return seen


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def _counts(result: Result) -> dict[str, Any]:
    """All of a result but the time it took."""
    return {
        name: value for name, value in result.as_dict().items() if name not in ("cpu_s", "wall_s")
    }


def _crashes(scenario: Scenario) -> bool:
    return any(fault.kind == "crash" for fault in scenario.faults)


def _check_agreement(seen: Observed) -> None:
    """The oracle in the loop, and the simulator's own counts, against the audit."""
    result, report = seen.result, seen.report
    pairs = {
        "deliveries": (result.deliveries, report.deliveries),
        "lost": (result.lost, report.lost + report.undelivered_at_end),
    }
    if result.violations is not None:
        pairs["violations"] = (result.violations.deliveries, report.violations)
        pairs["violating messages"] = (result.violations.messages, report.violating_messages)
        pairs["duplicates"] = (result.duplicates or 0, report.duplicates)
    for name, (counted, audited) in pairs.items():
        _require(counted == audited, f"{name}: {counted} in the loop, {audited} by the audit")


def _check_promises(scenario: Scenario, seen: Observed) -> None:
    """What the protocol's file promises of such a network, by the audit."""
    report = seen.report
    sentences = " ".join(witness.sentence for witness in report.witnesses)
    _require(report.phantom == report.cycles == 0, f"a message came from nowhere: {sentences}")
    if outside(scenario):
        return
    _require(report.duplicates == 0, f"a message was delivered twice: {sentences}")
    if registry.load(scenario.protocol).guarantee == "causal":
        _require(report.violations == 0, f"causal order was broken: {sentences}")
    if not _crashes(scenario):
        _require(seen.result.lost == 0, f"{seen.result.lost} deliveries never came: {sentences}")


class _TightRun(Run):
    """A run whose arrays hold next to nothing at first, so that every one of them must grow."""

    def _allocate_state(self) -> Any:
        if not hasattr(self, "world"):
            self.capacity = Capacity(slots=1, held=1)
        return super()._allocate_state()


class _Watch:
    """Looks over a protocol's shoulder: what its handlers are given and what they ask for."""

    HANDLERS: Final = (
        contract.broadcast,
        contract.receive,
        contract.start,
        contract.on_timer,
        contract.on_crash,
    )

    def __init__(self, protocol: registry.Protocol) -> None:
        self.protocol = protocol
        self.sent: dict[tuple[int, int], list[bytes]] = {}  # message -> its fields when sent
        self.held: Counter[tuple[int, tuple[int, int]]] = Counter()  # references, by node
        self.kept: Counter[tuple[int, tuple[int, int]]] = Counter()  # of them by ``keep``
        self.own: int | None = None  # the slot being broadcast

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Stand between the host and the handlers; interpreted runs only."""
        state = self.protocol.state
        found = [target for target in self.HANDLERS if compiling.registered(target, state)]
        bodies = [target.dispatch.implementation(state) for target in found]  # type: ignore[attr-defined]
        try:
            for target, body in zip(found, bodies, strict=True):
                compiling.register(target, state)(self._around(target.__name__, body))
            yield
        finally:
            for target, body in zip(found, bodies, strict=True):
                compiling.register(target, state)(body)

    def _around(self, name: str, body: Callable[..., int]) -> Callable[..., int]:
        def call(state: Any, here: int, *arguments: Any) -> int:
            host: Host = arguments[-1]
            start = int(host.cursor[contract.LENGTH])
            before = [array.copy() for array in _arrays(state)]
            if name == "receive":
                self._check_unchanged(state, host, self._messages(arguments[1], arguments[2]))
            status = body(state, here, *arguments)
            if status == contract.FULL:
                same = all(map(np.array_equal, before, _arrays(state)))
                same = same and int(host.cursor[contract.LENGTH]) == start
                _require(same, f"{name} returned FULL after it had changed something")
                return status
            _require(status == contract.DONE, f"{name} returned {status}, not DONE or FULL")
            self.own = arguments[0] if name == "broadcast" else None
            if name == "receive":
                for slot in self._messages(arguments[1], arguments[2]):
                    self.held[here, _name(host, slot)] += 1
            self._check_effects(name, state, here, host, start)
            return status

        return call

    def _messages(self, inbox: NDArray[np.int64], count: int) -> list[int]:
        items = [(int(inbox[2 * i]), int(inbox[2 * i + 1])) for i in range(count)]
        return [value for tag, value in items if self.protocol.items[tag] == contract.MESSAGE]

    def _fields(self, state: Any, slot: int) -> list[bytes]:
        return [getattr(state, name)[slot].tobytes() for name in self.protocol.message_fields]

    def _check_unchanged(self, state: Any, host: Host, slots: Sequence[int]) -> None:
        for slot in slots:
            source, sequence = _name(host, slot)
            fields = self.sent.setdefault((source, sequence), self._fields(state, slot))
            what = f"fields of message {source}:{sequence} changed after it had been sent"
            _require(fields == self._fields(state, slot), what)

    def _check_effects(self, handler: str, state: Any, here: int, host: Host, start: int) -> None:
        for code, arguments in _effects(host, start):
            if code in (contract.DELIVER, contract.DROP, contract.KEEP):
                self._end_or_keep(handler, code, here, arguments[0], host)
                self._check_unchanged(state, host, arguments[:1])
            elif code == contract.SEND_ALL:
                self._check_items(handler, state, here, host, arguments)
            elif code == contract.SEND:
                nodes = len(getattr(self.protocol, "nodes", ())) or np.inf
                what = f"{handler} at node {here} sent a packet to node {arguments[0]}"
                _require(0 <= arguments[0] < nodes and arguments[0] != here, what)
                _require(arguments[1] > 0, f"{handler} at node {here} sent an empty packet")
                self._check_items(handler, state, here, host, arguments[2:])
            elif code == contract.NOTE:
                what = f"{handler} noted an event of the unknown kind {arguments[0]}"
                _require(arguments[0] in tuple(EventKind), what)

    def _end_or_keep(self, handler: str, code: int, here: int, slot: int, host: Host) -> None:
        source, sequence = _name(host, slot)
        key = here, (source, sequence)
        verb = {contract.DELIVER: "delivered", contract.DROP: "dropped"}.get(code, "kept")
        what = f"{handler} at node {here} {verb} message {source}:{sequence}"
        own = code == contract.DELIVER and source == here
        _require(not own, f"{what}, its own: broadcasting was delivering it")
        holds = self.held[key] > 0 or (code == contract.KEEP and slot == self.own)
        _require(holds, f"{what} without holding a reference to it")
        self.held[key] += 1 if code == contract.KEEP else -1
        self.kept[key] += code == contract.KEEP

    def _check_items(
        self, handler: str, state: Any, here: int, host: Host, items: Sequence[int]
    ) -> None:
        for tag, value in zip(items[::2], items[1::2], strict=True):
            known = 0 <= tag < len(self.protocol.items)
            _require(known, f"{handler} at node {here} sent an item of the unknown tag {tag}")
            if self.protocol.items[tag] == contract.NUMBER:
                continue
            name = _name(host, value)
            what = f"{handler} at node {here} sent message {name[0]}:{name[1]} after its end"
            _require(value == self.own or self.held[here, name] > 0, what)
            if self.protocol.items[tag] == contract.MESSAGE:
                self._check_unchanged(state, host, [value])

    def check_end(self) -> None:
        """When all is over, nobody holds what it did not mean to keep."""
        for (node, (source, sequence)), count in self.held.items():
            what = f"node {node} never delivered or dropped what it received of {source}:{sequence}"
            _require(count <= self.kept[node, (source, sequence)], what)
