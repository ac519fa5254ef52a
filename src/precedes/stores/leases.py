"""Leases: exclusive use of a folder.

On this machine a lock of the operating system, released when the process ends. In a store
every contender puts a claim into the folder, and holds the lease once a listing shows no
other claim: of two that put theirs before they listed, at least one sees the other's. This requires
of a store only that a listing shows earlier puts, as S3, Google's, Azure's and HDFS all do;
pyarrow offers no put that fails if something is there.

The name of a claim begins with the time, so that of simultaneous contenders the first gets the
folder and the others step back. The holder renews its claim; one that was not renewed for
``EXPIRES_S``, by the store's own clock, belongs to a dead process and is ignored. A claim of a
process of this machine that no longer exists is ignored at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import platform
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from precedes.errors import UserError
from precedes.files import is_alive
from precedes.stores.address import Address, StoreError

LOCK: Final = ".lock"
CLAIMS: Final = ".lease"
CLAIM: Final = re.compile("[0-9a-f]{32}-([0-9]+)-([0-9a-f]*)-([A-Za-z0-9._-]*)")

EXPIRES_S: Final = 60.0
BEAT_S: Final = 10.0
# The first by name waits this long for the others to step back. One that does not has the folder:
# its clock is ahead.
STEP_BACK_S: Final = 20.0
STEP_BACK_POLL_S: Final = 0.2


class Lease:
    """A lease of a folder, until it is lost."""

    def __init__(self, folder: Address) -> None:
        self.folder = folder
        # Claims are never read, since they may change or disappear meanwhile: the name is enough.
        host = re.sub("[^A-Za-z0-9._-]", "_", platform.node())
        number = f"{time.time_ns():016x}{os.urandom(8).hex()}"
        self.claim = folder / CLAIMS / f"{number}-{os.getpid()}-{_machine()}-{host}"
        self.lost = False

    def check(self) -> None:
        """Raise if another process may have taken the lease."""
        if self.lost:
            raise StoreError(
                f"{self.folder} was not reached for {EXPIRES_S / 2:g} s, so that another process "
                "may have taken the lease: the same command resumes"
            )


@contextlib.contextmanager
def lease(folder: Address) -> Iterator[Lease]:
    """Hold the lease of an existing folder for a block; a UserError if another process has it.

    The block calls ``check`` before it commits to anything. However the process ends, the lease
    expires: at once on this machine, in a store after ``EXPIRES_S``.
    """
    if folder.is_local:
        with (folder / LOCK).local.open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise _in_use(folder) from None
            yield Lease(folder)
        return
    held = Lease(folder)
    ended = threading.Event()
    _claim(held)
    renewing = threading.Thread(target=_renew, args=(held, ended), daemon=True)
    renewing.start()
    try:
        yield held
    finally:
        ended.set()
        renewing.join()
        _give_up(held)


def _in_use(folder: Address, by: str = "another process") -> UserError:
    return UserError(f"{by} uses {folder}: wait for it, or choose another")


def _claim(wanted: Lease) -> None:
    begin_s = time.monotonic()
    wanted.claim.put(b"")
    try:
        while others := _others(wanted):
            first = min(others)
            if first < wanted.claim.name or time.monotonic() - begin_s > STEP_BACK_S:
                _, process, _, host = first.split("-", 3)
                raise _in_use(wanted.folder, f"process {process} of {host}")
            time.sleep(STEP_BACK_POLL_S)
        # A process that was suspended in between may have lost its claim.
        wanted.lost = time.monotonic() - begin_s > EXPIRES_S / 2
        wanted.check()
    except BaseException:
        _give_up(wanted)
        raise


def _give_up(held: Lease) -> None:
    with contextlib.suppress(StoreError):  # it expires
        held.claim.remove()


@functools.cache
def _machine() -> str:
    """Identity of the scope of process numbers: this machine, until it is rebooted."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return os.urandom(8).hex()
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:16]


def _is_dead(claim: str) -> bool:
    """Return whether a claim is that of a process which was on this machine."""
    match = CLAIM.fullmatch(claim)
    return match is not None and match[2] == _machine() and not is_alive(int(match[1]))


def _others(own: Lease) -> list[str]:
    """Claims of others; expired ones are removed, since they are ignored."""
    folder = own.claim.parent
    times_ns = {entry.name: entry.mtime_ns for entry in folder.entries() if entry.kind == "file"}
    if own.claim.name not in times_ns:
        raise StoreError(f"{own.claim} was put and is not there: use another store")
    now_ns = times_ns.pop(own.claim.name)
    for name, time_ns in list(times_ns.items()):
        if now_ns - time_ns > EXPIRES_S * 1e9 or _is_dead(name):
            (folder / name).remove()
            del times_ns[name]
    return [name for name in times_ns if CLAIM.fullmatch(name)]


def _renew(held: Lease, ended: threading.Event) -> None:
    """Renew the claim repeatedly; one that was removed, or is late, is lost."""
    renewed_s = time.monotonic()
    while not held.lost and not ended.wait(BEAT_S):
        begin_s = time.monotonic()
        with contextlib.suppress(StoreError):
            if begin_s - renewed_s > EXPIRES_S / 2 or not held.claim.is_file():
                held.lost = True
            else:
                held.claim.put(b"")
                renewed_s = begin_s
        held.lost = held.lost or time.monotonic() - renewed_s > EXPIRES_S / 2
