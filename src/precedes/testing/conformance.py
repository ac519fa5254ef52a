"""One schedule run in every way, and many schedules drawn from one seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from precedes import registry
from precedes.errors import UserError
from precedes.model import NANOSECONDS_PER_MS, EventKind
from precedes.sim import Result, Scenario
from precedes.sim.engine.rows import KIND, NODE, SEQUENCE, SOURCE, TIME_NS
from precedes.sim.run import Run
from precedes.sim.runs import outside
from precedes.testing.collector import Observed, observe, observe_run
from precedes.testing.scenarios import random_scenario
from precedes.testing.watch import Breach, Failure, Kind, Watch, require

HISTORY_KINDS = (EventKind.BROADCAST, EventKind.DELIVER, EventKind.CRASH)


@dataclass(frozen=True)
class Conformance:
    """The outcome of the schedules of one protocol; ``failures`` is empty if all is well."""

    protocol: str
    schedules: int
    deliveries: int
    violations: int
    pending_max: int
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        verdict = f"{len(self.failures)} failed" if self.failures else "conforms"
        return (
            f"{self.protocol}: {verdict} ({self.schedules} schedules, {self.deliveries:,} "
            f"deliveries, {self.violations:,} of them out of causal order, at most "
            f"{self.pending_max} pending)"
        )


def conformance(
    protocol: str,
    *,
    schedules: int = 20,
    seed: int = 1,
    hostile: bool = False,
    compiled: bool = True,
    same_as: str | None = None,
    failures_max: int = 5,
) -> Conformance:
    """Run a protocol (a name, or a file ending in .py) on random schedules and sum up.

    The schedules are those of ``seed``, ``seed + 1`` and so on, until ``failures_max`` have
    failed. ``hostile`` networks may break what the protocol assumes: then only rules and
    agreement are checked, not its promises. ``compiled=False`` leaves the compiled engine out.
    ``same_as`` names another protocol, for instance the same one in plain Python: then each
    schedule is one that the two must meet with the same events (``check_same``).
    A file that does not keep the contract raises ``ContractError``.
    """
    if registry.load(protocol).network != "links":
        raise UserError(
            f"{protocol} runs on a radio: its machines are tested by tests/support/mobile/world.py"
        )
    options = f"{' --hostile' if hostile else ''}{'' if compiled else ' --interpreted'}"
    options += f" --same-as {same_as}" if same_as else ""
    failures: list[Failure] = []
    deliveries = violations = pending_max = done = 0
    for number in range(seed, seed + schedules):
        if len(failures) == failures_max:
            break
        done += 1
        scenario = random_scenario(protocol, number, hostile=hostile)
        try:
            if same_as is None:
                seen = check_scenario(scenario, compiled=compiled)
            else:
                seen = check_same(scenario, scenario.replace(protocol=same_as), compiled=compiled)
        except Exception as error:
            failures.append(_failure(scenario, error, options))
        else:
            deliveries += seen.report.deliveries
            violations += seen.report.violations
            pending_max = max(pending_max, seen.result.pending_max)
    if not failures and not deliveries:
        text = f"{protocol}: nothing was delivered, so nothing was checked"
        failures.append(Failure(Kind.IDLE, seed, text))
    return Conformance(
        protocol=protocol,
        schedules=done,
        deliveries=deliveries,
        violations=violations,
        pending_max=pending_max,
        failures=tuple(failures),
    )


def assert_conforms(
    protocol: str,
    *,
    schedules: int = 20,
    seed: int = 1,
    hostile: bool = False,
    compiled: bool = True,
) -> Conformance:
    """``conformance``, with an AssertionError that says how to repeat the first failure."""
    result = conformance(
        protocol,
        schedules=schedules,
        seed=seed,
        hostile=hostile,
        compiled=compiled,
        failures_max=1,
    )
    if result.failures:
        raise AssertionError(f"{result}\n{result.failures[0]}")
    return result


def _failure(scenario: Scenario, error: Exception, options: str) -> Failure:
    kind = error.kind if isinstance(error, Breach) else Kind.RAISED
    raised = type(error).__name__ if kind == Kind.RAISED else ""
    # As a user would write it: without the defaults.
    usual = vars(Scenario(protocol="vector", nodes=2)) | {"protocol": None, "nodes": None}
    settings = [f"{k}={v!r}" for k, v in vars(scenario).items() if v != usual[k]]
    text = (
        f"seed {scenario.seed}: {f'{raised}: ' if raised else ''}{error}\n"
        f"  repeat: python -m precedes.testing {scenario.protocol} --seed {scenario.seed} "
        f"--schedules 1{options}\n"
        f"  Scenario({', '.join(settings)})"
    )
    return Failure(kind, scenario.seed, text, raised)


def check_scenario(scenario: Scenario, *, compiled: bool = True) -> Observed:
    """Run a scenario in every way; ``Breach`` if one differs or a promise is broken.

    ``compiled=False`` leaves out the compiled engine, which takes seconds to build for a
    protocol that is new.
    """
    protocol = registry.load(scenario.protocol)
    compiled = compiled and not protocol.is_plain
    watch = Watch(protocol, nodes=scenario.nodes)
    # First, and interpreted: compiled code trusts its handlers and would not survive some
    # defects.
    with watch.installed():
        tight = observe_run(_TightRun, scenario, tier="interpreted")
    check_promises(scenario, tight)
    if not outside(scenario) and not _crashes(scenario):
        watch.check_end()
    tier = "compiled" if compiled else "interpreted"
    seen = observe(scenario, tier=tier)
    again = observe(scenario, tier=tier)
    _compare(seen, again, "the same seed gave another result the second time")
    way = "compiled and interpreted runs differ" if compiled else "a run with small arrays differs"
    _compare(seen, tight, way)
    unrecorded = Run(scenario).go(tier=tier)
    same = _counts(seen.result) == _counts(unrecorded)
    require(same, Kind.DIFFERENT, "recording a trace changed the run")
    with_packets = observe(scenario, tier=tier, packets=True)
    kept = [_history_rows(seen), _history_rows(with_packets)]
    require(np.array_equal(*kept), Kind.DIFFERENT, "recording packets changed the run")
    check_agreement(seen)
    return seen


def check_same(scenario: Scenario, other: Scenario, *, compiled: bool = True) -> Observed:
    """Run two protocols on one schedule; ``Breach`` unless their timed events are the same.

    Packets are compared too, but not the order of simultaneous events.
    """
    traces = []
    for one in (other, scenario):
        is_compiled = compiled and not registry.load(one.protocol).is_plain
        seen = observe(one, tier="compiled" if is_compiled else "interpreted", packets=True)
        traces.append(seen.rows[np.lexsort(seen.rows.T[::-1])])
    length = min(map(len, traces))
    differ = np.flatnonzero((traces[0][:length] != traces[1][:length]).any(axis=1))
    if len(differ) or len(traces[0]) != len(traces[1]):
        at = int(differ[0]) if len(differ) else length
        shown = [_event(trace[at]) if at < len(trace) else "nothing" for trace in traces]
        text = f"{other.protocol}: {shown[0]}; {scenario.protocol}: {shown[1]}"
        raise Breach(Kind.DIFFERENT, f"event {at + 1} differs: {text}")
    return seen


def _event(row: Any) -> str:
    kind = EventKind(row[KIND]).name.lower()
    message = f"{row[SOURCE]}:{row[SEQUENCE]}"
    return f"node {row[NODE]}: {kind} {message} at {row[TIME_NS] / NANOSECONDS_PER_MS:.6f} ms"


def _compare(one: Observed, other: Observed, text: str) -> None:
    same = np.array_equal(one.rows, other.rows)
    require(same, Kind.DIFFERENT, f"{text} (in the trace)")
    same = _counts(one.result) == _counts(other.result)
    require(same, Kind.DIFFERENT, f"{text} (in the counts)")


def _counts(result: Result) -> dict[str, Any]:
    """All of a result except its tier and its times."""
    differ = ("tier", "cpu_s", "wall_s")
    return {name: value for name, value in result.as_dict().items() if name not in differ}


def _history_rows(seen: Observed) -> Any:
    return seen.rows[np.isin(seen.rows[:, KIND], HISTORY_KINDS)]


def _crashes(scenario: Scenario) -> bool:
    return any(fault.kind == "crash" for fault in scenario.faults)


def check_agreement(seen: Observed) -> None:
    """Compare the oracle in the loop, and the simulator's own counts, with the audit."""
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
        sentence = f"{name}: {counted} by the simulator, {audited} by the audit"
        require(counted == audited, Kind.COUNTS, sentence)


def check_promises(scenario: Scenario, seen: Observed) -> None:
    """Check the promises of the protocol's file for such a network, by the audit."""
    report = seen.report
    sentences = " ".join(witness.sentence for witness in report.witnesses)
    from_somewhere = report.phantom == report.cycles == 0
    require(from_somewhere, Kind.PHANTOM, f"a message was never broadcast: {sentences}")
    if outside(scenario):
        return
    require(report.duplicates == 0, Kind.TWICE, f"a message was delivered twice: {sentences}")
    if registry.load(scenario.protocol).guarantee == "causal":
        require(report.violations == 0, Kind.ORDER, f"causal order was broken: {sentences}")
    if not _crashes(scenario):
        lost = seen.result.lost
        require(lost == 0, Kind.LOST, f"{lost} deliveries are missing: {sentences}")


class _TightRun(Run):
    """A run with minimal initial sizes, so that arrays have to grow repeatedly."""

    def _allocate_state(self) -> Any:
        if not hasattr(self, "world"):
            self.capacity = self.capacity._replace(slots=1)
        return super()._allocate_state()
