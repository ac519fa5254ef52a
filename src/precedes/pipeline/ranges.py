"""The audit of one large run as Spark jobs: tasks make the parts of ranges of nodes.

Parts go to a work folder that all machines see, and only their names go back to the driver; so
nothing is shuffled, and existing parts are not made again. Data that all ranges share (the order,
prefixes, the table) are in the same folder, and mapped into memory there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes.audit import Step, Verdict, Witness, audit, stages
from precedes.audit.judge import Facts, Judged, judge
from precedes.audit.logs import RANGE_ROWS
from precedes.audit.order import Order, find_order
from precedes.audit.pasts import Pasts, find_pasts
from precedes.audit.report import Report, report_on
from precedes.audit.stages import Span, carry_out, cut_evenly
from precedes.audit.table import Places, Pruned, Table, prune
from precedes.audit.work import Part, PartStore, name_of
from precedes.errors import UserError
from precedes.model import Progress, part_of
from precedes.pipeline.runner import Runner
from precedes.stores import Address
from precedes.trace.opening import LARGE_ROWS
from precedes.trace.rows import Rows

# CPU seconds for a row in either phase, and for the lists of a message.
ROW_S: Final = 0.05e-6
MESSAGE_S: Final = 0.5e-6

# The completed share of the work at the end of each stage.
STAGES: Final = {"order": (0.0, 0.03), "a": (0.03, 0.5), "prune": (0.5, 0.53), "b": (0.53, 1.0)}


class Bound(NamedTuple):
    """The highest valid seq of each source."""

    bound: NDArray[np.int64]


class _Prefixes(NamedTuple):
    """_Prefixes of messages, by place."""

    prefix: NDArray[np.int32]


def audit_runs(
    runner: Runner,
    runs: Sequence[Rows],
    store_of: Callable[[str], PartStore],
    *,
    names: Sequence[str],
    witnesses: int,
    progress: Progress | None = None,
) -> list[Report]:
    """Reports on runs: of small ones many in a task, of large ones by ranges of their nodes.

    ``store_of`` has the parts of a run by its name, of those in ``names``.
    """
    rows = [int(run.counts.sum()) for run in runs]
    small = [number for number, count in enumerate(rows) if count < LARGE_ROWS]
    done = runner.map(
        _AuditRun([runs[number] for number in small], witnesses),
        [{"run": at} for at in range(len(small))],
        [2 * ROW_S * rows[number] for number in small],
        title="audit runs",
        progress=progress if len(small) == len(runs) else None,
        addresses=[address for run in runs for address in _addresses(run)],
    )
    reports = dict(zip(small, map(report_of, done), strict=True))
    for number, run in enumerate(runs):
        if number not in reports:
            store = store_of(names[number])
            reports[number] = audit_run(runner, run, store, witnesses=witnesses, progress=progress)
    return [reports[number] for number in range(len(runs))]


class _AuditRun:
    """Audits a run whole."""

    def __init__(self, runs: Sequence[Rows], witnesses: int) -> None:
        self._runs = runs
        self._witnesses = witnesses

    def __call__(self, order: dict[str, Any]) -> dict[str, Any]:
        return asdict(audit(self._runs[order["run"]], witnesses=self._witnesses))


def _addresses(rows: Rows) -> list[Address]:
    """The addresses that the rows are read from."""
    address = getattr(rows, "address", None)
    return [] if address is None else [Address.of(address)]


def report_of(row: Mapping[str, Any]) -> Report:
    """The report from the result of ``dataclasses.asdict``, also after a JSON round trip."""
    witnesses = tuple(
        Witness(**{**one, "steps": tuple(Step(**step) for step in one["steps"])})
        for one in row["witnesses"]
    )
    values = {"verdict": Verdict(row["verdict"]), "notes": tuple(row["notes"])}
    values["view_findings"] = tuple(row["view_findings"])
    return Report(**{**row, **values, "witnesses": witnesses})


def audit_run(
    runner: Runner,
    rows: Rows,
    store: PartStore,
    *,
    witnesses: int,
    ranges: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """The report on a run, by ranges of its nodes, whose parts a store keeps.

    Two ranges for a core or more, of about ``RANGE_ROWS`` rows, unless the store has some.
    """
    wanted = max(2 * runner.parallelism, 1 + int(rows.counts.sum()) // RANGE_ROWS)
    spans = store.ranges(lambda: cut_evenly(rows, ranges or wanted))
    shared = SharedStages(runner, store, progress)
    outcome = carry_out(rows, spans, runner=shared, violations_max=witnesses)
    return report_on(rows, outcome, witnesses=witnesses)


class SharedStages(stages.Runner):
    """Stages whose parts are made by several processes."""

    def __init__(self, runner: Runner, store: PartStore, progress: Progress | None = None) -> None:
        super().__init__()
        self._runner = runner
        self._folder = store.folder
        self._store = store
        self._progress = progress
        self._passes = 0
        self._pasts: dict[Span, str] = {}

    def order(self, rows: Rows) -> Order:
        """See ``stages.Runner``."""
        (order,) = self._made(Order, ["order"], [ROW_S], _FindOrder(rows, self._folder))
        return order

    def find_pasts(
        self, rows: Rows, spans: Sequence[Span], order: Order, bound: NDArray[np.int64]
    ) -> Sequence[Pasts]:
        """See ``stages.Runner``."""
        self._passes += 1
        stage = "a" if self._passes == 1 else "a-again"
        if stage == "a-again":
            self._store.save("order-again", order)
        self._store.save(f"{stage}-bound", Bound(bound))
        names = [f"{stage}/{name_of(span)}" for span in spans]
        self._pasts |= dict(zip(spans, names, strict=True))
        return self._made(Pasts, names, _costs(rows, spans), _FindPasts(rows, self._folder))

    def prune(
        self, pasts: Sequence[Pasts], places: Places, prefixes: NDArray[np.int32]
    ) -> Sequence[Pruned]:
        """See ``stages.Runner``."""
        self._store.save("places", places)
        self._store.save("prefixes", _Prefixes(prefixes))
        spans = [_span(part) for part in pasts]
        names = [f"prune/{name_of(span)}" for span in spans]
        costs_s = [MESSAGE_S * part.prefix.size for part in pasts]
        sources = {name: self._pasts[span] for name, span in zip(names, spans, strict=True)}
        return self._made(Pruned, names, costs_s, _Prune(sources, self._folder))

    def table(self, make: Callable[[], Table]) -> Table:
        """See ``stages.Runner``."""
        return self._store.keep("table", Table, make)

    def judge(
        self,
        rows: Rows,
        spans: Sequence[Span],
        table: Table,
        facts: Facts,
        violations_max: int,
    ) -> Sequence[Judged]:
        """See ``stages.Runner``."""
        # What is in a cycle was taken out of the counts after the table was made.
        self._store.save("b-counts", Bound(table.counts.astype(np.int64)))
        self._store.save("facts", facts)
        names = [f"b/{name_of(span)}" for span in spans]
        work = _Judge(rows, self._folder, violations_max)
        return self._made(Judged, names, _costs(rows, spans), work)

    def _made(
        self, kind: type[Part], names: Sequence[str], costs_s: Sequence[float], work: _Work
    ) -> list[Part]:
        """The parts of these names; tasks make the missing ones, the longest first."""
        parts = {name: self._store.load(name, kind) for name in names}
        missing = [number for number, name in enumerate(names) if parts[name] is None]
        if missing:
            stage = names[0].partition("/")[0]
            low, high = STAGES.get(stage.removesuffix("-again"), (0.5, 0.5))
            self._runner.map(
                work,
                [{"part": names[number]} for number in missing],
                [costs_s[number] for number in missing],
                title=f"audit, {stage}",
                progress=part_of(self._progress, low, high),
                addresses=[self._folder, *work.addresses()],
                one_each=True,
            )
        for number in missing:
            parts[names[number]] = self._store.load(names[number], kind)
        lost = [name for name, part in parts.items() if part is None]
        if lost:
            raise UserError(
                f"{self._folder / lost[0]} was made by a task, but is not there: name a folder "
                "with `work` that all machines see"
            )
        return [part for part in parts.values() if part is not None]


def _span(part: Pasts) -> Span:
    first, last = part.span.tolist()
    return first, last


def _costs(rows: Rows, spans: Sequence[Span]) -> list[float]:
    return [ROW_S * int(rows.counts[first:last].sum()) for first, last in spans]


class _Work:
    """The work of a task: make a part, and store it in the folder."""

    def __init__(self, folder: Address) -> None:
        self._folder = folder

    def addresses(self) -> list[Address]:
        """The addresses that it reads besides the folder."""
        return []

    def __call__(self, order: dict[str, Any]) -> None:
        store = PartStore(self._folder, tidy=False)
        name: str = order["part"]
        stage, _, span = name.partition("/")
        store.save(name, self.make(store, stage, span))

    def make(self, store: PartStore, stage: str, span: str) -> tuple[Any, ...]:
        """The part of a range."""
        raise NotImplementedError

    def shared(self, store: PartStore, name: str, kind: type[Part]) -> Part:
        """Data that the driver has stored for all."""
        part = store.load(name, kind, check=False)
        if part is None:
            raise UserError(
                f"this machine does not see {self._folder / name}: name a folder with `work` that "
                "all machines see"
            )
        return part


class _OnRows(_Work):
    """Work that reads rows."""

    def __init__(self, rows: Rows, folder: Address) -> None:
        super().__init__(folder)
        self._rows = rows

    def addresses(self) -> list[Address]:
        """The addresses that it reads besides the folder."""
        return _addresses(self._rows)


class _FindOrder(_OnRows):
    def make(self, store: PartStore, stage: str, span: str) -> Order:
        """See ``_Work``."""
        return find_order(self._rows)


class _FindPasts(_OnRows):
    def make(self, store: PartStore, stage: str, span: str) -> Pasts:
        """See ``_Work``."""
        order = self.shared(store, "order" if stage == "a" else "order-again", Order)
        bound = self.shared(store, f"{stage}-bound", Bound).bound
        return find_pasts(self._rows, *_parsed(span), order=order, bound=bound)


class _Prune(_Work):
    def __init__(self, sources: dict[str, str], folder: Address) -> None:
        super().__init__(folder)
        self._sources = sources  # the name of the part of the first phase

    def make(self, store: PartStore, stage: str, span: str) -> Pruned:
        """See ``_Work``."""
        pasts = self.shared(store, self._sources[f"{stage}/{span}"], Pasts)
        places = self.shared(store, "places", Places)
        return prune(
            pasts, places=places, prefixes=self.shared(store, "prefixes", _Prefixes).prefix
        )


class _Judge(_OnRows):
    def __init__(self, rows: Rows, folder: Address, violations_max: int) -> None:
        super().__init__(rows, folder)
        self._violations_max = violations_max

    def make(self, store: PartStore, stage: str, span: str) -> Judged:
        """See ``_Work``."""
        counts = self.shared(store, "b-counts", Bound).bound.astype(np.int32)
        return judge(
            self._rows,
            *_parsed(span),
            table=self.shared(store, "table", Table)._replace(counts=counts),
            facts=self.shared(store, "facts", Facts),
            violations_max=self._violations_max,
        )


def _parsed(span: str) -> Span:
    first, _, last = span.partition("-")
    return int(first), int(last)
