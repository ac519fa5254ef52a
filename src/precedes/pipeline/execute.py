"""One run of a sweep, in whatever process it lands: simulate, audit, measure, note it down.

No Spark here: tasks call this, and so may anybody else. A run that fails gives a row that says
so; only a failure of the process itself is left to Spark, and at most ``ATTEMPTS_MAX`` times.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from precedes import compiled
from precedes.audit import Report, audit
from precedes.model import InternalError, UserError
from precedes.pipeline import layout, measures, records
from precedes.pipeline.plan import scenario_of
from precedes.protocols import registry
from precedes.recorded import simulate
from precedes.sim import Scenario
from precedes.trace import SCHEMA_VERSION, History, read_metadata, read_trace

# A run during which the process died so often is given up, so that the others can go on.
ATTEMPTS_MAX: Final = 3

FINISHED: Final = "finished"
FAILED: Final = "failed"


class Outcome(NamedTuple):
    """A row of the manifest that tasks return."""

    run_id: int
    status: str
    error: str | None


def run_orders(orders: Iterable[str], *, directory: Path, here: Path) -> Iterator[Outcome]:
    """Carry out orders (``PlannedRun.order`` as JSON), one after the other.

    ``here`` is the directory that relative paths in scenarios start from.
    """
    if not (directory / layout.OWNER).is_file():
        where = f"{os.uname().nodename} does not see the directory {directory}"
        for order in orders:
            text = f"{where}: all machines must share it under that path"
            yield Outcome(json.loads(order)["run_id"], FAILED, text)
        return
    with contextlib.chdir(here) if here.is_dir() else contextlib.nullcontext():
        waiting = []
        for text in orders:
            try:
                yield _outcome(json.loads(text), directory, wait=False)
            except EngineBusyError:
                waiting.append(text)
        for text in waiting:
            yield _outcome(json.loads(text), directory, wait=True)


class EngineBusyError(Exception):
    """Another process is compiling this engine: do something else first."""


def _outcome(order: dict[str, Any], directory: Path, *, wait: bool) -> Outcome:
    """Do one run; a run's own defect must not stop the runs after it."""
    error: str | None = None
    try:
        _run(order, directory, wait=wait)
    except (UserError, InternalError) as caught:
        error = " ".join(str(caught).split())
    except MemoryError:
        error = "out of memory"
    except EngineBusyError:
        raise
    except Exception as caught:
        error = " ".join(f"{type(caught).__name__}: {caught}"[:500].split())
    return Outcome(order["run_id"], FAILED if error else FINISHED, error)


def _run(order: dict[str, Any], directory: Path, *, wait: bool) -> None:
    """Do one run and write its record, unless it is there: a task may be tried again."""
    name = layout.name_of(order["run_id"])
    if _is_recorded(directory, name, order):
        return
    with _noted(directory, name):
        _carry_out(order, directory, name, wait=wait)


def _carry_out(order: dict[str, Any], directory: Path, name: str, *, wait: bool) -> None:
    scenario = scenario_of(order["scenario"])
    protocol = registry.load(scenario.protocol)
    code = load_engine(scenario.protocol, protocol.state, protocol.sources, wait=wait)
    if code != order["code_version"]:
        raise UserError(
            f"{os.uname().nodename} runs another version of the code ({code[:12]} instead of "
            f"{order['code_version'][:12]}): install the same on all machines"
        )
    path = layout.trace_path(directory, name) if order["trace"] else None
    result = simulate(scenario, trace=path, packets=order["packets"], run_id=order["run_id"])
    record: records.Record = {
        "run_id": order["run_id"],
        "digest": order["digest"],
        "code_version": code,
        "result": result.as_dict(),
        "trace": None,
        "audit": None,
        "measures": None,
    }
    if path is not None:
        record |= examine(path)
    records.write_record(directory, name, record)


def _is_recorded(directory: Path, name: str, order: dict[str, Any]) -> bool:
    try:
        record = json.loads(layout.record_path(directory, name).read_bytes())
        found = (record["digest"], record["code_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return found == (order["digest"], order["code_version"])


@contextlib.contextmanager
def _noted(directory: Path, name: str) -> Iterator[None]:
    """Note that a run has begun; give up on one that process after process has died of."""
    for attempt in range(ATTEMPTS_MAX):
        note = directory / layout.STARTED / f"{name}-{attempt}"
        try:
            note.touch(exist_ok=False)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"cannot write {note}: {error.strerror}") from None
        break
    else:
        text = f"its process died {ATTEMPTS_MAX} times: it may need more memory than there is"
        raise UserError(text)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)  # an error is no death


_loaded: Final[dict[tuple[type, tuple[Path, ...]], str]] = {}


def load_engine(protocol: str, state: type, sources: tuple[Path, ...], *, wait: bool) -> str:
    """Compile the engine for a protocol, or load it, and return the digest of the code.

    While a neighbour compiles it, either wait or raise EngineBusyError. ``state`` tells apart two
    versions of a user's file.
    """
    if (state, sources) not in _loaded:
        digest = compiled.sources_digest(sources)
        with _engine_lock(f"{digest}-{Path(protocol).stem}", wait=wait):
            simulate(Scenario(protocol=protocol, nodes=2, messages=0))
        _loaded[state, sources] = digest
    return _loaded[state, sources]


@contextlib.contextmanager
def _engine_lock(name: str, *, wait: bool) -> Iterator[None]:
    try:
        root = compiled.cache_root()
        root.mkdir(parents=True, exist_ok=True)
        file = (root / f"{name}.lock").open("wb")
    except OSError:  # without a cache everybody compiles
        yield
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise EngineBusyError from None
        yield


def examine(path: Path) -> dict[str, Any]:
    """The verdict on a trace of one run and its measures, as plain values."""
    histories = read_trace(path, times=True)
    if len(histories) != 1:
        raise InternalError(f"{path} holds {len(histories)} runs instead of one")
    history = histories[0]
    metadata = read_metadata(path)
    return {
        "trace": {
            "rows": measures.row_count(path),
            "bytes": path.stat().st_size,
            "sha256": records.digest_of_file(path),
            "schema_version": SCHEMA_VERSION,
            "complete": metadata["complete"],
        },
        "audit": counts_and_findings(audit(history), history),
        "measures": measures.measure(history, path),
    }


def counts_and_findings(report: Report, history: History) -> dict[str, Any]:
    """A report as the tables hold it: counts, and a row for each of its few witnesses."""
    names = (
        "verdict",
        "nodes",
        "messages",
        "deliveries",
        "violations",
        "violating_messages",
        "lost",
        "duplicates",
        "phantom",
        "cycles",
        "undelivered_at_end",
    )
    findings = []
    for witness in report.witnesses:
        earlier = witness.earlier
        findings.append(
            {
                "kind": witness.kind,
                "node": witness.node,
                "source": int(history.message_source[witness.message]),
                "seq": int(history.message_sequence[witness.message]),
                "witness_source": None if earlier is None else int(history.message_source[earlier]),
                "witness_seq": None if earlier is None else int(history.message_sequence[earlier]),
                "sentence": witness.sentence,
            }
        )
    return {**{name: getattr(report, name) for name in names}, "findings": findings}
