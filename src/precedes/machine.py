"""Resources of this machine that this process may use."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from precedes.errors import UserError

# Where the system does not say how much memory there is.
UNKNOWN_BYTES: Final = 8 << 30
CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")

# The environment variable that sets the size of reserves.
RESERVE: Final = "PRECEDES_RESERVE_MIB"
RESERVED_SHARE: Final = 4  # of the machine's memory, more than one table ever takes


def reserve_bytes() -> int:
    """The address space that one table of a protocol may take.

    It becomes memory as it is used. Where address space is counted (``ulimit -v``,
    ``vm.overcommit_memory=2``) the environment variable sets it to less.
    """
    text = os.environ.get(RESERVE, "")
    if not text:
        return machine_bytes() // RESERVED_SHARE
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{RESERVE} must be a whole number of MiB from 1 on, not {text!r}")
    return int(text) << 20


def resident_bytes() -> int:
    """The resident memory of this process; 0 where the system does not report it."""
    with contextlib.suppress(OSError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


@functools.cache
def machine_bytes() -> int:
    """The memory that this process may use: the machine's, or that of its control group."""
    limits = list(_group_limits())
    with contextlib.suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits, default=UNKNOWN_BYTES)


def _group_limits() -> Iterator[int]:
    """The limits of the control groups of this process; a group's limits bind those inside."""
    groups = Path("/proc/self/cgroup")
    with contextlib.suppress(OSError):
        for line in groups.read_text(encoding="utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                root, name = CONTROL_GROUPS, "memory.max"
            elif "memory" in controllers.split(","):
                root, name = CONTROL_GROUPS / "memory", "memory.limit_in_bytes"
            else:
                continue
            inner = PurePosixPath(path.lstrip("/"))
            for group in (inner, *inner.parents):
                with contextlib.suppress(OSError, ValueError):  # "max": none
                    yield int((root / group / name).read_text(encoding="ascii"))
