"""The directory of a sweep: its files, its lease, and its finished runs.

A run is finished when its record exists: ``records/run-<id>.json``, written after the run's
trace. A record names its run and code, so that one that does not match counts
as missing. The directory is on a disk that all machines share, or in a store.
"""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from precedes import files
from precedes.compiled import sources_digest
from precedes.errors import UserError
from precedes.pipeline.plan import PlannedRun, name_of
from precedes.stores import Address, Lease, lease

RECORDS: Final = "records"
TRACES: Final = "traces"
FAILED: Final = "failed"
STARTED: Final = "started"
OWNER: Final = "sweep.json"
LOG: Final = "spark.log"

RECORD_VERSION: Final = 1
READERS: Final = 16
Record = dict[str, Any]

# A run that has killed this many processes is given up, so that the others can continue.
ATTEMPTS_MAX: Final = 3
# The text that faulthandler writes into the note of a start before it ends the process.
TIMED_OUT: Final = b"Timeout"


def record_path(directory: Address, name: str) -> Address:
    """The path of a run's record."""
    return directory / RECORDS / f"{name}.json"


def trace_path(directory: Address, name: str) -> Address:
    """The path of a run's trace."""
    return directory / TRACES / f"{name}.parquet"


def start_path(directory: Address, name: str, attempt: int) -> Address:
    """The path of the note that a run has begun."""
    return directory / STARTED / f"{name}-{attempt}"


def logs_in(directory: Address) -> Address:
    """The logs of a directory: for a sweep, its traces."""
    return directory / TRACES if (directory / OWNER).is_file() else directory


def make_folder(folder: Address) -> None:
    """Make a folder, with its parents, unless it exists."""
    if folder.is_local:
        files.make_directory(folder.local)


@contextlib.contextmanager
def aside(path: Address) -> Iterator[Path]:
    """Context manager for a file that is written atomically after the block."""
    try:
        with path.aside() as temporary:
            yield temporary
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot write {path}: {reason}; {_hint(error)}") from None


def write_aside(path: Address, content: bytes) -> None:
    """Write a file atomically."""
    with aside(path) as temporary:
        temporary.write_bytes(content)


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some space, then the same command resumes"
    return "choose a directory you may write to"


@contextlib.contextmanager
def hold(directory: Address) -> Iterator[Lease]:
    """Make the directory, and hold its lease: one sweep at a time, of one version of code.

    The lease ends with the process. Tasks may outlive both for some seconds: files that
    they still write are the same trace, and the record of the same run.
    """
    with contextlib.ExitStack() as stack:
        try:
            for name in (RECORDS, TRACES, STARTED):
                (directory / name).make_folder()
            held = stack.enter_context(lease(directory))
        except OSError as error:
            raise UserError(f"cannot work in {directory}: {error.strerror}") from None
        _check_owner(directory)
        _clean(directory)
        yield held


def _check_owner(directory: Address) -> None:
    """Refuse a directory that other code has written into: its runs are not comparable."""
    path = directory / OWNER
    code = sources_digest()
    try:
        record = json.loads(path.read_bytes())
        owner = str(record["code_version"])
        version = int(record["version"])
    except FileNotFoundError:
        content = {"version": RECORD_VERSION, "code_version": code}
        write_aside(path, json.dumps(content).encode())
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged: choose another directory") from None
    if (owner, version) != (code, RECORD_VERSION):
        raise UserError(
            f"{directory} holds runs of another version of the code ({owner[:12]}, this is "
            f"{code[:12]}): choose another directory, or remove this one"
        )


def _clean(directory: Address) -> None:
    """Remove unfinished files and notes of starts of killed processes."""
    for name in (directory / STARTED).names():
        (directory / STARTED / name).remove()
    if directory.is_local:
        for folder in (directory, directory / RECORDS):
            for path in files.asides_in(folder.local):
                path.unlink(missing_ok=True)


def write_record(directory: Address, name: str, record: Record) -> None:
    """Note that a run is finished."""
    content = json.dumps({**record, "version": RECORD_VERSION}, sort_keys=True)
    write_aside(record_path(directory, name), content.encode())


class Records(Mapping[int, Record]):
    """The records of finished runs by id, each read from its file on access.

    A record of a traced run takes a hundred kilobytes in memory, and a sweep may have 100,000.
    """

    def __init__(self, directory: Address, costs_s: Mapping[int, float]) -> None:
        self.costs_s = dict(costs_s)  # CPU seconds of each run
        self._directory = directory

    def __getitem__(self, run_id: int) -> Record:
        if run_id not in self.costs_s:
            raise KeyError(run_id)
        path = record_path(self._directory, name_of(run_id))
        try:
            return dict(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            raise UserError(f"{path} has changed: the same command does its run again") from None

    def __iter__(self) -> Iterator[int]:
        return iter(self.costs_s)

    def __len__(self) -> int:
        return len(self.costs_s)

    def with_more(self, more: Records) -> Records:
        """These and more records."""
        return Records(self._directory, self.costs_s | more.costs_s)


def read_records(directory: Address, runs: Iterable[PlannedRun]) -> Records:
    """The records of those of the runs that are finished.

    A record that is damaged, or whose trace is missing or another one, is
    left out: the run will be done again. One of other code is refused.
    """
    wanted = {run.run_id: run for run in runs}
    names = finished_names(directory)
    there = [run for run in wanted.values() if run.name in names]
    # Reading from a store is mostly waiting.
    with ThreadPoolExecutor(None if directory.is_local else READERS) as pool:
        costs_s = list(pool.map(lambda run: _check_record(directory, run), there))
    return Records(
        directory,
        {run.run_id: cost for run, cost in zip(there, costs_s, strict=True) if cost is not None},
    )


def _check_record(directory: Address, run: PlannedRun) -> float | None:
    """The cost of the run, or None if it has to be repeated."""
    try:
        record = json.loads(record_path(directory, run.name).read_bytes())
        same = record["version"] == RECORD_VERSION and record["digest"] == run.digest
        result, trace, code = record["result"], record["trace"], record["code_version"]
        if not (same and code and isinstance(result, dict)):
            return None
        if run.trace and not _is_trace(trace_path(directory, run.name), trace):
            return None
        cost_s = float(record["task_cpu_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if code != run.code_version:
        raise UserError(
            f"{directory} holds runs of {run.scenario.protocol} as it was before a change: choose "
            "another directory, or remove this one"
        )
    return cost_s


def _is_trace(path: Address, about: Mapping[str, Any]) -> bool:
    """Return whether a trace is the one of a record.

    In a store this compares its tag, since reading all of them would take as long as the sweep.
    """
    if path.is_local:
        return bool(path.digest() == about["sha256"])
    return bool(path.version() == about["version"])


def finished_names(directory: Address) -> set[str]:
    """The names of runs that have a record, without reading it."""
    names = (directory / RECORDS).names()
    return {name.removesuffix(".json") for name in names if not name.startswith(".")}


def begun_names(directory: Address) -> set[str]:
    """The names of runs that a process has begun, and neither finished nor found to fail."""
    return {name.rpartition("-")[0] for name in (directory / STARTED).names()}


def forget_starts(directory: Address, name: str) -> None:
    """Delete the notes of processes that a run has killed, except by running out of time."""
    for attempt in range(ATTEMPTS_MAX):
        note = start_path(directory, name, attempt)
        if not has_timed_out(note):
            note.remove()


def begin(note: Address) -> bool:
    """Note that a run has begun; return False if another process has noted it before."""
    if not note.is_local:
        if note.kind() is not None:
            return False
        note.put(b"")
        return True
    try:
        note.local.open("x").close()
    except FileExistsError:
        return False
    return True


def has_timed_out(note: Address) -> bool:
    """Return whether the process that began a run was ended because the run took too long.

    In a store this is unknown: the note of a process that ends stays on its machine.
    """
    with contextlib.suppress(OSError):
        return note.is_local and TIMED_OUT in note.read_bytes()
    return False
