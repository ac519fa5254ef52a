"""One run of a sweep, in any process: simulate, audit, measure, write its record.

No Spark here: tasks call this, and so may any other caller. A run that fails gives a row with its
error; only a failure of the process itself is left to Spark, and at most ``ATTEMPTS_MAX`` times.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from precedes import compiled, registry
from precedes.audit import Report, audit
from precedes.compiled import tiers
from precedes.errors import InternalError, UserError
from precedes.pipeline import measures
from precedes.pipeline.directory import (
    ATTEMPTS_MAX,
    OWNER,
    Record,
    begin,
    has_timed_out,
    record_path,
    start_path,
    trace_path,
    write_record,
)
from precedes.pipeline.plan import name_of
from precedes.sim import Scenario
from precedes.sim.runs import simulate
from precedes.sim.scenario import from_echo
from precedes.sim.switch import code_of
from precedes.stores import Address
from precedes.stores.address import scratch
from precedes.trace import SCHEMA_VERSION, History, read_metadata, read_trace

# From the end of a run's time to that of its process, if the run does not stop by itself; the
# loop returns to Python several times a second.
GRACE_S: Final = 10.0
# A compiler's time does not count as a run's, up to this; it takes far less on a busy machine too.
COMPILE_S: Final = 600.0
# Interval of checks whether it has ended.
LOOK_S: Final = 1.0

FINISHED: Final = "finished"
FAILED: Final = "failed"


class Outcome(NamedTuple):
    """A row of the manifest that tasks return."""

    run_id: int
    status: str
    error: str | None


class TimeLimitError(BaseException):
    """A run has used up its time. Not an Exception: a protocol must not be able to catch it."""


def run_orders(
    orders: Iterable[dict[str, Any]], *, directory: Address, here: Path, sharers: int = 1
) -> Iterator[Outcome]:
    """Carry out orders (``PlannedRun.order``), one after the other, in the main thread.

    ``here`` is the directory that relative paths in scenarios start from, ``sharers`` the number of
    processes that share this machine's memory. A run whose time is over and that cannot be stopped,
    such as a compiled handler that does not return, ends the process; carried out again
    it fails at once.
    """
    unseen = _unseen(directory)
    if unseen is not None:
        for order in orders:
            yield Outcome(order["run_id"], FAILED, unseen)
        return
    there = contextlib.chdir(here) if here.is_dir() else contextlib.nullcontext()
    with there:
        for order in orders:
            yield _outcome(order, directory, sharers)


def _unseen(directory: Address) -> str | None:
    """The reason why this machine cannot use a directory, if any."""
    machine = os.uname().nodename
    try:
        if (directory / OWNER).is_file():
            return None
    except UserError as error:
        return f"{machine}: {error}"
    where = f"{machine} does not see the directory {directory}"
    return f"{where}: all machines must share it under that path"


def _outcome(order: dict[str, Any], directory: Address, sharers: int) -> Outcome:
    """Carry out one run and write its record; its own defect must not stop the runs after it."""
    error: str | None = None
    try:
        name = name_of(order["run_id"])
        if not _is_recorded(directory, name, order):  # a task may be retried
            with _noted(directory, name, order) as note:
                _carry_out(order, directory, name, note, sharers)
    except (UserError, InternalError) as caught:
        error = " ".join(str(caught).split())
    except MemoryError:
        error = "out of memory"
    except TimeLimitError:
        error = _too_long(order)
    except BaseException as caught:
        if isinstance(caught, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) == (
            signal.default_int_handler
        ):
            raise  # the user's; where Ctrl-C is ignored, it is the protocol's own
        error = " ".join(f"{type(caught).__name__}: {caught}"[:500].split())
    return Outcome(order["run_id"], FAILED if error else FINISHED, error)


def _too_long(order: dict[str, Any]) -> str:
    limit_s = order["run_seconds_max"]
    return f"it took longer than run_seconds_max, {limit_s:g} s: raise it if the run does end"


def _carry_out(
    order: dict[str, Any], directory: Address, name: str, note: TextIO, sharers: int
) -> None:
    scenario = from_echo(order["scenario"])
    seconds_max = order["run_seconds_max"]
    grace_s = min(seconds_max, GRACE_S)
    with limited(seconds_max, note, grace_s=grace_s):
        protocol = registry.load(scenario.protocol)
        code = _code_version(protocol.state, protocol.sources)
    if tiers.resolve("auto") == "compiled" and protocol.network == "links":
        with limited(COMPILE_S, note):  # synchronously, unless it is compiled
            simulate(Scenario(protocol=scenario.protocol, nodes=2, messages=0))
    if code != order["code_version"]:
        raise UserError(
            f"{os.uname().nodename} runs another version of the code ({code[:12]} instead of "
            f"{order['code_version'][:12]}): install the same on all machines"
        )
    trace = trace_path(directory, name) if order["trace"] else None
    begin_s = time.process_time()
    with _written_here(trace) as path:
        # Until it is compiled it is interpreted, hundreds of times slower.
        compiling = functools.partial(is_compiling, [scenario.protocol])
        with limited(seconds_max, note, is_compiling=compiling, grace_s=grace_s):
            result = simulate(
                scenario,
                trace=path,
                packets=order["packets"],
                run_id=order["run_id"],
                sharers=sharers,
                ahead_cpu_s=order["ahead_s"],
            )
        record: Record = {
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
    if trace is not None and not trace.is_local:
        record["trace"]["version"] = trace.version()
    record["task_cpu_s"] = time.process_time() - begin_s
    write_record(directory, name, record)


@contextlib.contextmanager
def _written_here(trace: Address | None) -> Iterator[Path | None]:
    """Context manager for a local path of a trace, which is moved to its place afterwards."""
    if trace is None or trace.is_local:
        yield None if trace is None else trace.local
        return
    with scratch() as folder:
        yield folder / trace.name
        trace.put_file(folder / trace.name)


def _is_recorded(directory: Address, name: str, order: dict[str, Any]) -> bool:
    try:
        record = json.loads(record_path(directory, name).read_bytes())
        identity = (record["digest"], record["code_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return identity == (order["digest"], order["code_version"])


@contextlib.contextmanager
def _noted(directory: Address, name: str, order: dict[str, Any]) -> Iterator[TextIO]:
    """Note that a run has begun; give up on one that repeatedly killed its process.

    The block gets the note, for the text to write when the process is ended for lack of time: once
    is enough then.
    """
    for attempt in range(ATTEMPTS_MAX):
        note = start_path(directory, name, attempt)
        try:
            if begin(note):
                break
        except OSError as error:
            raise UserError(f"cannot write {note}: {error.strerror}") from None
        if has_timed_out(note):
            raise UserError(_too_long(order))
    else:
        text = f"its process died {ATTEMPTS_MAX} times: it may need more memory than there is"
        raise UserError(text if directory.is_local else f"{text}, or longer than run_seconds_max")
    try:
        with note.local.open("w") if note.is_local else tempfile.TemporaryFile("w") as file:
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield file
    finally:
        note.remove()


@contextlib.contextmanager
def limited(
    seconds_max: float,
    note: TextIO,
    *,
    is_compiling: Callable[[], bool] = lambda: False,
    look_s: float = LOOK_S,
    grace_s: float = GRACE_S,
) -> Iterator[None]:
    """Raise TimeLimitError when the time is over, or end the process soon after.

    If a compiler runs then, its end is awaited, at most ``COMPILE_S``, and the time begins
    again. A signal stops Python code, and compiled code when it next returns to Python. Code that
    ignores it is left to a thread of faulthandler, which needs nothing from the interpreter
    and writes the reason into the note.
    """
    compile_left_s = COMPILE_S
    is_waiting = False

    def allow(seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds + grace_s, exit=True, file=note)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(*_signal: object) -> None:
        nonlocal compile_left_s, is_waiting
        if compile_left_s > 0 and is_compiling():
            compile_left_s -= look_s
            is_waiting = True
            allow(look_s)
        elif is_waiting:
            is_waiting = False
            allow(seconds_max)
        else:
            raise TimeLimitError

    before = signal.signal(signal.SIGALRM, stop)
    try:
        allow(seconds_max)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@functools.cache
def _code_version(_state: type, sources: tuple[Path, ...]) -> str:
    """The digest of the code; ``_state`` distinguishes two versions of a user's file."""
    return compiled.sources_digest(sources)


def is_compiling(protocols: Iterable[str]) -> bool:
    """Return whether a process that shares this one's cache compiles one of these engines."""
    loaded = ((name, registry.load(name)) for name in protocols)
    return any(
        code_of(protocol, name=name).is_being_made()
        for name, protocol in loaded
        if protocol.network == "links"
    )


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
            "sha256": Address.of(path).digest(),
            "schema_version": SCHEMA_VERSION,
            "complete": metadata["complete"],
        },
        "audit": counts_and_findings(audit(history), history),
        "measures": measures.measure(history, path),
    }


def counts_and_findings(report: Report, history: History) -> dict[str, Any]:
    """A report as stored in the tables: counts, and a row for each of its few witnesses."""
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
        "unjudged",
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
