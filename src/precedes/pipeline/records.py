"""The directory of a sweep: who works in it, and which runs are finished.

A run is finished when its record is there: ``records/run-<id>.json``, written aside and renamed
after the run's trace was. A record says which run of which code it is of, so that whatever does
not match counts as not there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from precedes.compiled import sources_digest
from precedes.model import UserError
from precedes.pipeline.layout import (
    LOCK,
    OWNER,
    RECORD_VERSION,
    RECORDS,
    STARTED,
    TRACES,
    record_path,
    trace_path,
)
from precedes.pipeline.plan import PlannedRun

Record = dict[str, Any]


def write_aside(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole, or not at all."""
    aside = path.with_name(f".{path.name}.tmp-{platform.node()}-{os.getpid()}")
    try:
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise UserError(f"cannot write {path}: {error.strerror}; {_hint(error)}") from None


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some space, then the same command goes on"
    return "choose a directory you may write to"


@contextlib.contextmanager
def hold(directory: Path) -> Iterator[None]:
    """Make the directory, and be its only user: one sweep at a time, of one version of code.

    The lock goes with the process, however it ends.
    """
    try:
        for name in (RECORDS, TRACES, STARTED):
            (directory / name).mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("wb")
    except OSError as error:
        raise UserError(f"cannot work in {directory}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"another process is at work in {directory}: wait for it, or choose another"
            ) from None
        _check_owner(directory)
        _clean(directory)
        yield


def _check_owner(directory: Path) -> None:
    """Refuse a directory that other code has written into: its runs are not comparable."""
    path = directory / OWNER
    code = sources_digest()
    try:
        found = json.loads(path.read_bytes())
        owner = str(found["code_version"])
        version = int(found["version"])
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


def _clean(directory: Path) -> None:
    """Remove what killed processes have left: half-written files and notes of starts."""
    for path in (directory / STARTED).iterdir():
        path.unlink(missing_ok=True)
    for folder in (directory, directory / RECORDS):
        for path in folder.glob(".*.tmp-*"):
            path.unlink(missing_ok=True)


def write_record(directory: Path, name: str, record: Record) -> None:
    """Note that a run is finished."""
    content = json.dumps({**record, "version": RECORD_VERSION}, sort_keys=True)
    write_aside(record_path(directory, name), content.encode())


def read_records(directory: Path, runs: Iterable[PlannedRun]) -> dict[int, Record]:
    """The records of finished runs, by run id.

    A record that is damaged, or whose trace is missing or not the one it was written with, is
    left out: the run will be done again. One of other code is refused.
    """
    wanted = {run.run_id: run for run in runs}
    present = {entry.name for entry in os.scandir(directory / RECORDS)}
    there = [run for run in wanted.values() if f"{run.name}.json" in present]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda run: _read_record(directory, run), there))
    records = {run.run_id: record for run, record in zip(there, found, strict=True) if record}
    for run_id, record in records.items():
        if record["code_version"] != wanted[run_id].code_version:
            raise UserError(
                f"{directory} holds runs of {wanted[run_id].scenario.protocol} as it was before "
                "a change: choose another directory, or remove this one"
            )
    return records


def _read_record(directory: Path, run: PlannedRun) -> Record | None:
    try:
        record = json.loads(record_path(directory, run.name).read_bytes())
        same = record["version"] == RECORD_VERSION and record["digest"] == run.digest
        result, trace = record["result"], record["trace"]
        known = bool(record["code_version"]) and isinstance(result, dict)
        if not (same and known):
            return None
        if run.trace and digest_of_file(trace_path(directory, run.name)) != trace["sha256"]:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return dict(record)


def digest_of_file(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finished_names(directory: Path) -> set[str]:
    """The names of runs that have a record, without looking into it."""
    with os.scandir(directory / RECORDS) as entries:
        return {e.name.removesuffix(".json") for e in entries if not e.name.startswith(".")}
