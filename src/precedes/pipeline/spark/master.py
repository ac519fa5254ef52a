"""Addresses of Spark masters: their kinds, and whether they are reachable."""

from __future__ import annotations

import re
import socket
from typing import Final
from urllib.parse import urlsplit

from precedes.errors import UserError

LOOPBACK: Final = "127.0.0.1"
DEFAULT: Final = "local[*]"

KNOWN: Final = re.compile(r"(local(\[[^]]+\])?|local-cluster\[[^]]+\]|yarn)$|(spark|k8s|sc)://.")
LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")
CONNECT: Final = "sc://"
STANDALONE: Final = "spark://"
PORTS: Final = {CONNECT: 15002, STANDALONE: 7077}

# A process may die of a run; the run is given up before the task is (execute.ATTEMPTS_MAX).
FAILURES_MAX: Final = 8

# Reaching a master takes milliseconds; Spark itself would try for a minute.
CONNECT_S: Final = 5.0


def with_retries(master: str) -> str:
    """A local master that retries a task; by itself it would give up at the first failure."""
    match = LOCAL.fullmatch(master)
    return master if match is None else f"local[{match[1] or 1},{FAILURES_MAX}]"


def is_connect(master: str) -> bool:
    """Return whether it is a server of Spark Connect, which has all of Spark but its context."""
    return master.startswith(CONNECT)


def is_one_process(master: str) -> bool:
    """Return whether tasks are processes of this machine that run what this process runs."""
    return re.match(r"local(\[|$)", master) is not None


def is_here(master: str) -> bool:
    """Return whether no other machine has to reach this one."""
    return master.startswith("local") or urlsplit(master).hostname in (LOOPBACK, "localhost", "::1")


def own_address(master: str) -> str | None:
    """The address at which others reach this machine; None if that is left to Spark."""
    if is_here(master):
        return LOOPBACK
    if not master.startswith(STANDALONE):
        return None
    parts = urlsplit(f"//{master.removeprefix(STANDALONE).partition(',')[0]}")
    try:
        # Nothing is sent: this asks the system for its route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((parts.hostname, parts.port or PORTS[STANDALONE]))
            return str(way.getsockname()[0])
    except (OSError, ValueError):
        return None


def check_reachable(master: str) -> None:
    """Raise at once for an invalid master, and for an address without a listener."""
    if not KNOWN.match(master):
        raise UserError(
            f"{master!r:.80} is not a Spark master: use local[*], local[N], spark://HOST:PORT or "
            "sc://HOST:PORT"
        )
    scheme = next((known for known in PORTS if master.startswith(known)), None)
    if scheme is None:
        return
    # Parameters of a connection to Spark Connect follow a semicolon.
    addresses = master.removeprefix(scheme).partition("/")[0].split(",")
    failures = []
    for address in addresses:
        parts = urlsplit(f"//{address}")
        try:
            where = (parts.hostname or "", parts.port or PORTS[scheme])
            socket.create_connection(where, timeout=CONNECT_S).close()
            return
        except ValueError:
            failures.append(f"{address} is not HOST:PORT")
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
    kind = "Spark Connect server" if scheme == CONNECT else "Spark master"
    raise UserError(f"no {kind} at {master} ({'; '.join(failures)}): check `master`")
