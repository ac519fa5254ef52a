"""Who is who: mutual TLS, with a member's number bound to its certificate.

All members trust one authority. A certificate is good for one member of one group: its
alternative names hold ``precedes:GROUP/MEMBER``, and the greeting of the other side must agree.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from precedes.model import PeerError, UserError

if TYPE_CHECKING:
    from precedes.live.config import Security

DAYS: Final = 30
DAYS_MAX: Final = 36_500
AUTHORITY: Final = "authority"
# What needs no escapes in a URI, and leaves room for a member's number in a common name.
GROUP_NAME_MAX: Final = 48
GROUP_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{GROUP_NAME_MAX}}}")


class Contexts(NamedTuple):
    """What a listening and a dialling side need; None without security."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None


def member_name(group: str, member: int) -> str:
    """The name that a member's certificate must carry."""
    return f"precedes:{group}/{member}"


def contexts(files: Security | None) -> Contexts:
    """TLS for both directions, or none."""
    if files is None:
        return Contexts(None, None)
    return Contexts(
        _context(files, ssl.PROTOCOL_TLS_SERVER), _context(files, ssl.PROTOCOL_TLS_CLIENT)
    )


def _context(files: Security, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the member's number is checked instead, see check_name
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.authority)
        context.load_cert_chain(files.certificate, files.key)
    except FileNotFoundError as error:
        missing = [name for name in vars(files).values() if not Path(name).exists()]
        raise UserError(f"there is no file {(missing or [error.filename])[0]}") from None
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error.strerror
        raise UserError(f"cannot use {files.certificate} with its key: {reason}") from None
    return context


def why(error: BaseException) -> str:
    """Why a handshake failed, in words; never anything of a key."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return f"no agreement on TLS: {error.reason.lower().replace('_', ' ')}"
    return "it ended the handshake of TLS"


def names_in(certificate: Mapping[str, Any] | None) -> list[str]:
    """The alternative names of a checked certificate."""
    found = (certificate or {}).get("subjectAltName", ())
    return [value for kind, value in found if kind == "URI"]


def check_name(names: list[str], group: str, member: int) -> None:
    """PeerError unless the certificate is that of the member."""
    if member_name(group, member) not in names:
        shown = ", ".join(names) or "nobody"
        raise PeerError(f"it says to be member {member}, but its certificate is of {shown}")


def key_files(directory: Path, members: int) -> list[Path]:
    """The files that ``make_keys`` writes."""
    names = [f"member-{member}.{kind}" for member in range(members) for kind in ("pem", "key")]
    return [directory / name for name in (f"{AUTHORITY}.pem", *names)]


def make_keys(
    directory: str | os.PathLike[str], *, group: str, members: int, days: int = DAYS
) -> None:
    """A test authority, and a key and a certificate for each member, as PEM files.

    ``authority.pem``, ``member-N.pem`` and ``member-N.key``; keys are readable by their owner
    alone. The authority's own key is thrown away: to add members, make all keys anew.
    """
    try:
        from precedes.live.certificates import Authority
    except ImportError:
        raise UserError("keys need the extra 'live': pip install 'precedes[live]'") from None
    if not GROUP_NAME.fullmatch(group):
        raise UserError(
            f"the name of a group with keys has up to {GROUP_NAME_MAX} letters, digits or ._-, "
            f"unlike {group!r:.80}"
        )
    if not abs(days) <= DAYS_MAX:
        raise UserError(f"a certificate is good for at most {DAYS_MAX} days, not {days}")
    target = Path(directory)
    authority = Authority(f"precedes {group}", days=days)
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{AUTHORITY}.pem").write_bytes(authority.certificate)
        for member in range(members):
            certificate, key = authority.issue(
                f"{group} member {member}", member_name(group, member)
            )
            (target / f"member-{member}.pem").write_bytes(certificate)
            path = target / f"member-{member}.key"
            path.unlink(missing_ok=True)
            flags = os.O_CREAT | os.O_WRONLY | os.O_EXCL
            with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
                file.write(key)
    except OSError as error:
        raise UserError(f"cannot write keys into {target}: {error.strerror}") from None
