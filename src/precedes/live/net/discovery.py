"""Addresses of members: given in the settings, or learned from handshakes.

A member that was not given the addresses of the others asks its seeds, at every address that their
names resolve to. An answer has the address of the member that answers, and of those that it knows.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
import os
import random
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from precedes.errors import UserError

log = logging.getLogger("precedes.live")

# Waits before a failed operation is repeated (``backoff_s``).
RETRY_FIRST_S: Final = 0.02
RETRY_LAST_S: Final = 0.5
# Connections to the addresses of a seed at the same time.
ASKED_MAX: Final = 16
# A seed that has not answered in this many attempts, some seconds, is worth a line in the log.
ATTEMPTS_QUIET: Final = 8

PORT_MAX: Final = 65_535
ADDRESS: Final = re.compile(r"(\[[^\[\]\s]+\]|[^\[\]\s]+):([0-9]{1,5})")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host stands in brackets."""
    match = ADDRESS.fullmatch(str(address))
    if match is None or int(match[2]) > PORT_MAX:
        raise UserError(f"an address is host:port, not {address!r}")
    host, port = match[1], int(match[2])
    if ":" in host and not host.startswith("["):
        raise UserError(f"an IPv6 address needs brackets, [{host}]:{port}, not {address!r}")
    try:
        host.encode("idna")  # as a name is before it is resolved
    except UnicodeError:
        raise UserError(f"{host!r:.80} is not the name of a host") from None
    return host.strip("[]"), port


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def backoff_s() -> Iterator[float]:
    """Waits between attempts: exponential up to a bound, with random jitter.

    Without the jitter, members that lost a connection together would dial together.
    """
    wait_s = RETRY_FIRST_S
    while True:
        yield wait_s * random.uniform(0.5, 1.5)
        wait_s = min(2 * wait_s, RETRY_LAST_S)


def reason_of(error: OSError) -> str:
    """The reason for a failed connection or a name that does not resolve, in words."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or "no answer in time"


class Discovery:
    """The addresses of a group, by number.

    ``ask`` connects to a host and port of a seed, and returns why it did not answer, or "". Given
    addresses are kept. A learned one at which nothing answers is in doubt: the search goes on, and
    may replace it.
    """

    def __init__(
        self,
        given: Sequence[str],
        seeds: Sequence[str],
        *,
        ask: Callable[[str, int], Awaitable[str]],
        missing: Callable[[], bool],
    ) -> None:
        self.addresses = dict(enumerate(given))
        self.in_doubt: set[int] = set()
        self.failures: dict[str, str] = {}  # why the seeds that do not answer do not
        self.learned = asyncio.Event()  # set when there is another address
        self.has_asked = asyncio.Event()  # set when every seed has been asked
        self._given = len(given)
        self._seeds = seeds
        self._ask = ask
        self._missing = missing

    def learn(self, peer: int, address: str, *, direct: bool) -> None:
        """Note an address, from the member itself (``direct``) or from another one."""
        is_given = 0 <= peer < self._given
        if is_given or not (direct or peer not in self.addresses or peer in self.in_doubt):
            return
        self.addresses[peer] = address
        if direct:
            self.in_doubt.discard(peer)
        self.learned.set()

    def doubt(self, peer: int) -> None:
        """Nothing answers at the address of this member."""
        if peer >= self._given:
            self.in_doubt.add(peer)

    def admit(self, peer: int, address: str) -> None:
        """Note the address of a member of the view."""
        if peer >= self._given:
            self.addresses[peer] = address
            self.in_doubt.discard(peer)

    async def search(self) -> None:
        """Ask the seeds until no address is missing."""
        waits_s = backoff_s()
        for attempt in itertools.count(1):
            if not self._seeds or not self._missing():
                self.has_asked.set()
                return
            for seed in self._seeds:
                if failure := await self._ask_seed(seed):
                    self.failures[seed] = failure
                else:
                    self.failures.pop(seed, None)
            self.has_asked.set()
            if attempt == ATTEMPTS_QUIET:
                for seed, failure in self.failures.items():
                    log.warning("seed %s does not answer: %s", seed, failure)
            await asyncio.sleep(next(waits_s))

    async def _ask_seed(self, seed: str) -> str:
        """Ask all addresses of a seed; why none of them answers, or ""."""
        host, port = split_address(seed)
        try:
            resolved = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except OSError as error:
            return reason_of(error)
        places = list(dict.fromkeys((str(place[0]), int(place[1])) for *_, place in resolved))
        random.shuffle(places)
        failures = list[str]()
        for first in range(0, len(places), ASKED_MAX):
            asked = (self._ask(*place) for place in places[first : first + ASKED_MAX])
            failures += await asyncio.gather(*asked)
        return "" if "" in failures else failures[0] if failures else "it has no address"
