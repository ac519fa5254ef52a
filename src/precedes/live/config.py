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
from precedes.live.member.node import MEMBERS_MAX, Settings
from precedes.live.net import wire
from precedes.live.net.discovery import is_loopback, split_address
from precedes.live.net.links import LinkSettings
from precedes.live.net.security import Security

SLOW_POLICIES: Final = ("block", "raise")
SHOWN_MAX: Final = 8  # names of members in an error
TIMES: Final = (
    "evict_after_s", "test_every_s", "slow_after_s", "start_s", "drain_s", "linger_s",
    "gap_after_s", "blocked_s",
)  # fmt: skip


# Types of settings, and their descriptions.
KINDS: Final = (
    (("member",), str | Integral, "a name, or a number"),
    (
        ("window", "window_bytes", "payload_max_bytes", "state_max_bytes", "join_backlog_bytes"),
        Integral,
        "a whole number",
    ),
    (TIMES, Real, "a number of seconds"),
    (("name", "protocol", "key", "slow", "tier"), str, "text"),
    (("insecure", "echo"), bool, "true or false"),
    (("addresses", "seeds"), Iterable, "a list of host:port"),
    (("founders",), Iterable | Integral, "a list of names, or a count"),
    (("parameters",), Mapping, "a table of names and values"),
    (("trace",), str | os.PathLike | None, "a directory"),
    (("address", "listen", "metrics"), str | None, "host:port"),
    (("security",), Security | None, "a Security, in a file a table"),
)


@dataclass(frozen=True, kw_only=True)
class Config:
    """One member of a group; all members must agree on ``founders`` and the second block.

    Members have names of 1 to 64 letters, digits or ._-, and positions, those of their names in
    ``founders``. A number is a name too. There are two ways to say where members are:
    ``addresses[i]`` is "host:port" of the member at position i, and ``founders`` may be left out if
    they are "0", "1", .... Or ``address`` is that of this member, and ``seeds`` are those of some
    members, which it asks for all others; names among them are resolved at every attempt, to all
    their addresses. ``founders`` may be a count then: of PREFIX-0, PREFIX-1, ... for a member of
    such a name. ``name`` is that of the group; ``key`` is a secret text of it; protocols with a
    hash derive its key from it.
    """

    member: str | int
    addresses: tuple[str, ...] = ()
    founders: tuple[str, ...] | int = ()
    address: str | None = None
    seeds: tuple[str, ...] = ()

    name: str = "group"
    protocol: str = "vector"
    parameters: dict[str, Any] = field(default_factory=dict)
    key: str = field(default="", repr=False)
    window: int = 512  # own messages that some member has not consumed yet
    payload_max_bytes: int = 1 << 20
    evict_after_s: float = 5.0  # suspect a member that is silent for this long
    test_every_s: float = 0.5

    window_bytes: int = 1 << 24  # bytes of own messages that some member has not consumed yet
    state_max_bytes: int = 1 << 30  # of the group's state, when this member joins
    join_backlog_bytes: int = 1 << 26  # of messages that wait for the state, when it joins
    slow: str = "block"  # what to do about a member that consumes no messages
    slow_after_s: float = 10.0
    start_s: float = 60.0  # how long to wait for the others
    drain_s: float = 30.0  # how long to wait at the end until all have consumed the own messages
    linger_s: float = 5.0  # and how long until all others have finished too
    blocked_s: float = 600.0  # end after so long without a quorum of the view
    gap_after_s: float = 1.0  # report waits for messages, credit or a link from this on
    echo: bool = False  # hand out own messages too, in order with those of others
    security: Security | None = None
    insecure: bool = False  # listen beyond loopback without security
    listen: str | None = None  # "host:port" to listen at, if not at ``address``
    trace: str | None = None  # a directory for this member's log
    metrics: str | None = None  # "host:port" to serve metrics and health at
    tier: Tier = "auto"  # how the step runs: auto, compiled or interpreted

    def __post_init__(self) -> None:
        self._check_kinds()
        object.__setattr__(self, "member", str(self.member))
        for name in ("addresses", "seeds", "founders"):
            value = getattr(self, name)
            value = int(value) if isinstance(value, Integral) else tuple(value)
            object.__setattr__(self, name, value)
        self._check_names()
        if self.slow not in SLOW_POLICIES:
            raise UserError(f"slow must be one of {', '.join(SLOW_POLICIES)}, not {self.slow!r}")
        tiers.resolve(self.tier)
        self._check_times()
        self.settings()  # raises for invalid combinations
        registry.load_live(self.protocol).make_parameters(self.parameters)
        self._check_addresses()
        if split_address(self.listening)[1] == 0:
            raise UserError(f"listen has port 0 in {self.listen}: name the port that others reach")
        self._check_exposure(self.listening)
        if self.metrics is not None:
            self._check_exposure(self.metrics)
            if importlib.util.find_spec("prometheus_client") is None:
                raise UserError("metrics need the extra 'live': pip install 'precedes[live]'")

    def _check_kinds(self) -> None:
        for names, kind, phrase in KINDS:
            for name in names:
                value = getattr(self, name)
                # In Python true and false are numbers too.
                if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                    shown = type(value).__name__ if name == "key" else repr(value)
                    raise UserError(f"{name} must be {phrase}, not {shown}")
                if phrase.startswith("a list") and isinstance(value, str):
                    raise UserError(f"{name} must be {phrase}, not {value!r}")

    def _check_names(self) -> None:
        if not self.founders and not self.addresses:
            raise UserError("name the members of the group: founders, or addresses")
        if isinstance(self.founders, int) and not 2 <= self.founders <= MEMBERS_MAX:
            raise UserError(f"a group has 2 to {MEMBERS_MAX} members, not {self.founders}")
        wire.check_names(self.names)
        wire.check_names([self.member])
        if self.member not in self.names and (self.addresses or not self.seeds):
            more = ", ..." if len(self.names) > SHOWN_MAX else ""
            shown = ", ".join(self.names[:SHOWN_MAX])
            raise UserError(
                f"there is no member {self.member} among the founders {shown}{more}: to join "
                "their group later, it needs address and seeds"
            )
        if self.addresses and len(self.addresses) != len(self.names):
            raise UserError(
                f"there are {len(self.addresses)} addresses for {len(self.names)} founders: "
                "give each its own, or use address and seeds"
            )

    def _check_addresses(self) -> None:
        if self.address is None and not self.addresses:
            raise UserError("address is missing: the host:port at which others reach this member")
        places = [split_address(address) for address in self.addresses]
        for number, (name, place) in enumerate(zip(self.names, places, strict=False)):
            if place[1] == 0:
                raise UserError(
                    f"member {name} has port 0 in {self.addresses[number]}, but others dial "
                    "this address: give it the port that the member listens at"
                )
            if place in places[:number]:
                first = self.names[places.index(place)]
                raise UserError(
                    f"members {first} and {name} have one address, {self.addresses[number]}"
                )
        for address in (self.advertised, *self.seeds):
            if split_address(address)[1] == 0:
                raise UserError(f"{address} has port 0: name the port that others dial")
        if len(self.advertised.encode()) > wire.ADDRESS_BYTES_MAX:
            raise UserError(f"an address has at most {wire.ADDRESS_BYTES_MAX} bytes")

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
            risk = "metrics are served in the clear" if address == self.metrics else "no security"
            raise UserError(
                f"{address} can be reached from outside this machine, and {risk}: use 127.0.0.1, "
                "make keys with 'precedes keys', or say insecure"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all members, by position."""
        if not isinstance(self.founders, int):
            return self.founders or tuple(map(str, range(len(self.addresses))))
        prefix, dash, number = str(self.member).rpartition("-")
        if not (dash and number.isdecimal()):
            raise UserError(
                f"founders is a count, of members PREFIX-0, PREFIX-1, ..., unlike {self.member!r}: "
                "list their names"
            )
        return tuple(f"{prefix}-{i}" for i in range(self.founders))

    @property
    def position(self) -> int | None:
        """The place of this member among the founders, from 0; None if it is not one of them."""
        return self.names.index(self.member) if self.member in self.names else None

    @property
    def advertised(self) -> str:
        """The address that others dial."""
        return self.address or self.addresses[self.names.index(str(self.member))]

    @property
    def listening(self) -> str:
        """The address at which this member listens."""
        return self.advertised if self.listen is None else self.listen

    def settings(
        self,
        position: int | None = None,
        members: int | None = None,
        *,
        epoch: int = 1,
        echo: bool | None = None,
    ) -> Settings:
        """Settings of the node of an epoch; without a position those of the first.

        One that is not a founder has none there: its first node is never run.
        """
        key = self._digest(b"hash key")[:16] + (epoch.to_bytes(4, "little") if epoch > 1 else b"")
        return Settings(
            member=(self.position or 0) if position is None else position,
            members=len(self.names) if members is None else members,
            protocol=self.protocol,
            parameters=self.parameters,
            window=self.window,
            window_bytes=self.window_bytes,
            payload_max_bytes=self.payload_max_bytes,
            key=int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big"),
            test_interval_ms=1000 * self.test_every_s,
            patience_ms=1000 * self.evict_after_s,
            echo=self.echo if echo is None else echo,
        )

    def link_settings(self) -> LinkSettings:
        """Settings of the links."""
        return LinkSettings(
            member=str(self.member),
            names=self.names,
            address=self.advertised,
            addresses=self.addresses,
            seeds=self.seeds,
            listen=self.listening,
            group=self.name,
            group_digest=self.group_digest(),
            security=self.security,
            window=self.window,
            is_fixed=registry.load_live(self.protocol).on_loss != "view",
            test_every_s=self.test_every_s,
            frame_max_bytes=8 * (self.payload_max_bytes + (1 << 20)),
        )

    def group_digest(self) -> bytes:
        """16 bytes that are the same for all members that may connect to each other."""
        return self._digest(b"group")[:16]

    def _digest(self, purpose: bytes) -> bytes:
        common = {
            "name": self.name,
            "members": self.names,
            "protocol": Path(self.protocol).name,
            "parameters": {name: str(value) for name, value in self.parameters.items()},
            "window": self.window,
            "payload_max_bytes": self.payload_max_bytes,
        }
        text = json.dumps(common, sort_keys=True).encode()
        key = hashlib.sha256(self.key.encode()).digest()
        return hashlib.blake2b(text, key=key, person=purpose.ljust(16, b"\0")).digest()


def from_toml(path: str | os.PathLike[str], *, member: int | str, **more: Any) -> Config:
    """The configuration in a file that all members share; ``more`` overrides it.

    ``{member}`` in ``address`` and in ``[security]`` is replaced by the member's name.
    """
    try:
        with Path(path).open("rb") as file:
            settings = tomllib.load(file)
    except FileNotFoundError:
        raise UserError(f"there is no group file {path}") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    known = sorted(item.name for item in dataclasses.fields(Config))
    unknown = sorted(set(settings) - set(known))
    if unknown:
        name, names = unknown[0], ", ".join(known)
        raise UserError(f"{path}: unknown setting {name!r}{meant(name, known)}; known are {names}")
    try:
        if isinstance(settings.get("security"), dict):
            filled = {
                name: str(value).replace("{member}", str(member))
                for name, value in settings["security"].items()
            }
            settings["security"] = Security(**filled)
        if isinstance(settings.get("address"), str):
            settings["address"] = settings["address"].replace("{member}", str(member))
        return Config(**{**settings, "member": member, **more})
    except TypeError as error:
        raise UserError(f"{path}: {error}") from None
