"""Addresses of members: "host:port", and what can be reached from where."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Final

from precedes.errors import UserError

PORT_MAX: Final = 65_535
ADDRESS: Final = re.compile(r"(\[[^\[\]\s]+\]|[^\[\]\s]+):([0-9]{1,5})")
# Connections that the operating system holds until they are taken.
ACCEPTED_MAX: Final = 256


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host stands in brackets."""
    if not isinstance(address, str):
        raise UserError(f"an address is host:port, not {address!r}")
    match = ADDRESS.fullmatch(address)
    if match is None or int(match[2]) > PORT_MAX:
        raise UserError(f"an address is host:port, not {address!r}")
    host, port = match[1], int(match[2])
    if ":" in host and not host.startswith("["):
        raise UserError(f"an IPv6 address needs brackets, [{host}]:{port}, not {address!r}")
    return host.strip("[]"), port


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen_on_loopback() -> socket.socket:
    """A socket that listens at a free port of this machine."""
    return socket.create_server(("127.0.0.1", 0), backlog=ACCEPTED_MAX)
