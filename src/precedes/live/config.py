"""Settings of a member: addresses of the group, protocol, bounds and times."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final

from precedes import registry
from precedes.compiled import tiers
from precedes.compiled.tiers import Tier
from precedes.errors import UserError, meant
from precedes.live.member.node import Settings
from precedes.live.net.links import LinkSettings, is_loopback, split_address
from precedes.live.net.security import Security

SLOW_POLICIES: Final = ("block", "evict", "raise")
TIMES: Final = (
    "evict_after_s", "test_every_s", "slow_after_s", "start_s", "drain_s", "linger_s", "gap_after_s"
)  # fmt: skip


# Types of settings, and their descriptions.
KINDS: Final = (
    (("member", "window", "window_bytes", "payload_max_bytes"), Integral, "a whole number"),
    (TIMES, Real, "a number of seconds"),
    (("name", "protocol", "key", "slow", "tier"), str, "text"),
    (("quorum", "insecure", "echo"), bool, "true or false"),
    (("addresses",), Iterable, "a list of host:port"),
    (("parameters",), Mapping, "a table of names and values"),
    (("trace",), str | os.PathLike | None, "a directory"),
    (("metrics", "listen"), str | None, "host:port"),
    (("security",), Security | None, "a Security, in a file a table"),
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """One member of a group; all members must agree on all but ``member`` and the last block.

    ``addresses[i]`` is "host:port" of member i. ``key`` is a secret text of the group; protocols
    with a hash derive its key from it.
    """

    member: int
    addresses: tuple[str, ...]
    name: str = "group"
    protocol: str = "vector"
    parameters: dict[str, Any] = field(default_factory=dict)
    key: str = field(default="", repr=False)
    window: int = 512  # own messages that some member has not consumed yet
    payload_max_bytes: int = 1 << 20
    evict_after_s: float = 5.0  # evict a member that is silent for this long
    test_every_s: float = 0.5

    window_bytes: int = 1 << 24  # bytes of own messages that some member has not consumed yet
    slow: str = "block"  # what to do about a member that consumes no messages
    slow_after_s: float = 10.0
    quorum: bool = True  # stop when fewer than half of the members are left
    start_s: float = 60.0  # how long to wait for the others
    drain_s: float = 30.0  # how long to wait at the end until all have consumed the own messages
    linger_s: float = 5.0  # and how long until all others have finished too
    gap_after_s: float = 1.0  # report waits for messages, credit or a link from this on
    echo: bool = False  # hand out own messages too, in order with those of others
    security: Security | None = None
    insecure: bool = False  # listen beyond loopback without security
    listen: str | None = None  # "host:port" to listen at, if not at the member's address
    trace: str | None = None  # a directory for this member's log
    metrics: str | None = None  # "host:port" to serve metrics and health at
    tier: Tier = "auto"  # how the step runs: auto, compiled or interpreted

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "addresses", tuple(self.addresses))
        if self.slow not in SLOW_POLICIES:
            raise UserError(f"slow must be one of {', '.join(SLOW_POLICIES)}, not {self.slow!r}")
        tiers.resolve(self.tier)
        self._check_times()
        self.settings()  # refuses what makes no sense
        registry.load_live(self.protocol).make_parameters(self.parameters)
        places = [split_address(address) for address in self.addresses]
        for number, place in enumerate(places):
            if place[1] == 0:
                raise UserError(
                    f"member {number} has port 0 in {self.addresses[number]}, but others dial "
                    "this address: give it the port that the member listens at"
                )
            if place in places[:number]:
                first = places.index(place)
                raise UserError(
                    f"members {first} and {number} have one address, {self.addresses[number]}"
                )
        if split_address(self.listening)[1] == 0:
            raise UserError(f"listen has port 0 in {self.listen}: name the port that others reach")
        self._check_exposure(self.listening)
        if self.metrics is not None:
            self._check_exposure(self.metrics)
            if importlib.util.find_spec("prometheus_client") is None:
                raise UserError("metrics need the extra 'live': pip install 'precedes[live]'")

    def _check_kinds(self) -> None:
        for names, kind, what in KINDS:
            for name in names:
                value = getattr(self, name)
                # For Python true and false are numbers too.
                if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                    shown = type(value).__name__ if name == "key" else repr(value)
                    raise UserError(f"{name} must be {what}, not {shown}")
        if isinstance(self.addresses, str):
            raise UserError(f"addresses must be a list of host:port, not {self.addresses!r}")

    def _check_times(self) -> None:
        for name in TIMES:
            least = 0 if name in ("drain_s", "linger_s") else 0.001
            if not least <= getattr(self, name) <= 1e6:
                value = getattr(self, name)
                raise UserError(f"{name} must be between {least} and 1e6 seconds, not {value:g}")
        if self.test_every_s > self.evict_after_s:
            raise UserError(
                f"test_every_s ({self.test_every_s:g}) must not be above evict_after_s "
                f"({self.evict_after_s:g}): take a quarter of it or less"
            )

    def _check_exposure(self, address: str) -> None:
        host = split_address(address)[0]
        if self.insecure or is_loopback(host):
            return
        if self.security is None or address == self.metrics:
            what = "metrics are served in the clear" if address == self.metrics else "no security"
            raise UserError(
                f"{address} can be reached from outside this machine, and {what}: use 127.0.0.1, "
                "make keys with 'precedes keys', or say insecure"
            )

    @property
    def listening(self) -> str:
        """Where this member listens."""
        return self.addresses[self.member] if self.listen is None else self.listen

    def settings(self) -> Settings:
        """Settings of the node."""
        return Settings(
            member=self.member,
            members=len(self.addresses),
            protocol=self.protocol,
            parameters=self.parameters,
            window=self.window,
            window_bytes=self.window_bytes,
            payload_max_bytes=self.payload_max_bytes,
            key=int.from_bytes(self._digest(b"hash key")[:16], "big"),
            test_interval_ms=1000 * self.test_every_s,
            patience_ms=1000 * self.evict_after_s,
            echo=self.echo,
        )

    def link_settings(self) -> LinkSettings:
        """Settings of the links."""
        return LinkSettings(
            member=self.member,
            addresses=self.addresses,
            listen=self.listening,
            group=self.name,
            group_digest=self.group_digest(),
            security=self.security,
            window=self.window,
            test_every_s=self.test_every_s,
            frame_max_bytes=8 * (self.payload_max_bytes + (1 << 20)),
        )

    def group_digest(self) -> bytes:
        """16 bytes that are the same for all members that may connect to each other."""
        return self._digest(b"group")[:16]

    def _digest(self, purpose: bytes) -> bytes:
        common = {
            "name": self.name,
            "members": len(self.addresses),
            "protocol": Path(self.protocol).name,
            "parameters": {name: str(value) for name, value in self.parameters.items()},
            "window": self.window,
            "payload_max_bytes": self.payload_max_bytes,
        }
        text = json.dumps(common, sort_keys=True).encode()
        key = hashlib.sha256(self.key.encode()).digest()
        return hashlib.blake2b(text, key=key, person=purpose.ljust(16, b"\0")).digest()


def from_toml(path: str | os.PathLike[str], *, member: int, **more: Any) -> Config:
    """The configuration in a file that all members share; ``more`` overrides it."""
    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except FileNotFoundError:
        raise UserError(f"there is no group file {path}") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    known = sorted(item.name for item in dataclasses.fields(Config))
    unknown = sorted(set(found) - set(known))
    if unknown:
        name, names = unknown[0], ", ".join(known)
        raise UserError(f"{path}: unknown setting {name!r}{meant(name, known)}; known are {names}")
    try:
        if isinstance(found.get("security"), dict):
            filled = {
                name: str(value).replace("{member}", str(member))
                for name, value in found["security"].items()
            }
            found["security"] = Security(**filled)
        return Config(**{**found, "member": member, **more})
    except TypeError as error:
        raise UserError(f"{path}: {error}") from None
