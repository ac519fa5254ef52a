"""Addresses of members: "host:port", and what can be reached from where."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from precedes.errors import UserError

PORT_MAX: Final = 65_535
# Connections that the operating system holds until they are taken.
ACCEPTED_MAX: Final = 256


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host stands in brackets."""
    if not isinstance(address, str):
        raise UserError(f"an address is host:port, not {address!r}")
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > PORT_MAX:
        raise UserError(f"an address is host:port, not {address!r}")
    return host, int(port)


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
