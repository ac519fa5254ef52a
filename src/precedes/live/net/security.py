"""Mutual TLS, with a member's name bound to its certificate.

All members trust one authority. A certificate is valid for one member of one group: its
alternative names hold ``precedes:GROUP/NAME``, and the handshake of the other side must agree.
"""

from __future__ import annotations

import datetime
import logging
import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from precedes.errors import PeerError, UserError
from precedes.live.net import wire
from precedes.model import printable

log = logging.getLogger("precedes.live")

DAYS: Final = 30
DAYS_MAX: Final = 36_500
AUTHORITY_DAYS: Final = 3650  # of an authority whose key is kept
AUTHORITY: Final = "authority"
# Needs no escapes in a URI, and leaves room for a short name in a common name.
GROUP_NAME_MAX: Final = 48
GROUP_NAME: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{GROUP_NAME_MAX}}}")

COMMON_NAME_MAX: Final = 64  # by the standard
# Clocks of machines differ slightly: certificates are valid from this time before now.
EARLY: Final = datetime.timedelta(minutes=5)

# Files are checked for changes before each handshake, and at this interval without one.
LOOK_EVERY_S: Final = 5.0
WARN_EVERY_S: Final = 3600.0
# With less than this share of its time left, a certificate should have been replaced.
LATE_SHARE: Final = 0.25


@dataclass(frozen=True, kw_only=True)
class Security:
    """Files for mutual TLS, as ``precedes keys`` makes them."""

    authority: str
    certificate: str
    key: str

    @classmethod
    def in_directory(cls, directory: Path, *, member: int | str) -> Self:
        """The files of a member where ``make_keys`` has put them."""
        return cls(
            authority=str(directory / f"{AUTHORITY}.pem"),
            certificate=str(directory / f"member-{member}.pem"),
            key=str(directory / f"member-{member}.key"),
        )


class Contexts(NamedTuple):
    """TLS of the listening and the dialling side; None without security."""

    server: ssl.SSLContext | None
    client: ssl.SSLContext | None


def _uri(group: str, member: str) -> str:
    """The alternative name that a member's certificate must carry."""
    return f"precedes:{group}/{member}"


def contexts(files: Security | None) -> Contexts:
    """TLS for both directions, or none."""
    if files is None:
        return Contexts(None, None)
    return Contexts(
        _context(files, ssl.PROTOCOL_TLS_SERVER), _context(files, ssl.PROTOCOL_TLS_CLIENT)
    )


class Credentials:
    """TLS of a member from its files, which are read again when they change.

    Files are replaced one after the other: while they are invalid, the previous ones stay in use.
    """

    def __init__(self, files: Security | None) -> None:
        self._files = files
        self._contexts = Contexts(None, None)
        self._seen: list[tuple[int, ...]] = []
        self._begin_s = self._end_s = 0.0  # of the certificate, in Unix time
        self._failure = ""
        self._looked_s = self._warned_s = -WARN_EVERY_S
        if files is not None:
            self._read(files)

    def _read(self, files: Security) -> None:
        seen = _stamps(files)
        tls = contexts(files)
        try:
            text = Path(files.certificate).read_text(encoding="ascii", errors="replace")
            first = text.index(ssl.PEM_HEADER)
            last = text.index(ssl.PEM_FOOTER, first) + len(ssl.PEM_FOOTER)
            begin_s, end_s = _times_in(ssl.PEM_cert_to_DER_cert(text[first:last]))
        except (OSError, ValueError, IndexError):
            raise UserError(f"cannot read the dates of {files.certificate}") from None
        authorities = [] if tls.server is None else tls.server.get_ca_certs()
        ends_s = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in authorities]
        self._begin_s, self._end_s = begin_s, min(end_s, max(ends_s, default=end_s))
        self._contexts, self._seen, self._failure = tls, seen, ""

    def contexts(self) -> Contexts:
        """TLS for the next handshake."""
        if self._files is not None and _stamps(self._files) != self._seen:
            try:
                self._read(self._files)
                log.info("the certificate %s was read again", self._files.certificate)
            except UserError as error:
                if str(error) != self._failure:
                    log.warning("%s; the previous files stay in use", error)
                self._failure = str(error)
        return self._contexts

    @property
    def left_s(self) -> float | None:
        """Seconds until the certificate, or the last of its authorities, expires."""
        return None if self._files is None else self._end_s - time.time()

    @property
    def is_late(self) -> bool:
        """Return whether the certificate should have been replaced."""
        left_s = self.left_s
        return left_s is not None and left_s < LATE_SHARE * (self._end_s - self._begin_s)

    def tend(self) -> None:
        """Check the files for changes, and log a warning if they should have been replaced."""
        now_s = time.monotonic()
        if self._files is None or now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        self.contexts()
        if self.is_late and now_s - self._warned_s >= WARN_EVERY_S:
            self._warned_s = now_s
            end = datetime.datetime.fromtimestamp(self._end_s, datetime.UTC)
            log.warning("%s is valid until %s: replace it", self._files.certificate, end)


def _stamps(files: Security) -> list[tuple[int, ...]]:
    """Values that change with the files."""
    stamps: list[tuple[int, ...]] = []
    for name in (files.authority, files.certificate, files.key):
        try:
            about = os.stat(name)
            stamps.append((about.st_ino, about.st_mtime_ns, about.st_size))
        except OSError:
            stamps.append(())
    return stamps


def _times_in(der: bytes) -> tuple[float, float]:
    """The two times of a certificate (RFC 5280, section 4.1); the standard library reads others'.

    The order in the signed part is version, serial number, algorithm, issuer, times.
    """
    at = _element(der, _element(der, 0)[1])[1]
    tag, _, end = _element(der, at)
    at = end if tag == 0xA0 else at  # the version may be left out
    for _ in range(3):
        at = _element(der, at)[2]
    _, at, end = _element(der, at)
    times = []
    while at < end:
        tag, begin, at = _element(der, at)
        form = "%y%m%d%H%M%SZ" if tag == 0x17 else "%Y%m%d%H%M%SZ"
        when = datetime.datetime.strptime(der[begin:at].decode(), form)
        times.append(when.replace(tzinfo=datetime.UTC).timestamp())
    return times[0], times[1]


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """An element of DER: its tag, and where its content begins and ends."""
    tag, size = der[at], der[at + 1]
    at += 2
    if size & 0x80:
        more = size & 0x7F
        size = int.from_bytes(der[at : at + more], "big")
        at += more
    return tag, at, at + size


def _context(files: Security, side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the member's name is checked instead, see check_name
    context.verify_mode = ssl.CERT_REQUIRED
    # A resumed session skips the certificate, so one that has expired since would be accepted.
    # TLS 1.3 resumes by tickets alone; session ids belong to TLS 1.2, which is refused above.
    context.options |= ssl.OP_NO_TICKET
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
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


def why(error: ssl.SSLError) -> PeerError:
    """The reason for a failed handshake, in words; never part of a key."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return PeerError("its certificate is not accepted", error.verify_message)
    return PeerError("no agreement on TLS", (error.reason or "").lower().replace("_", " "))


def names_in(certificate: Mapping[str, Any] | None) -> list[str]:
    """The alternative names of a checked certificate."""
    names = (certificate or {}).get("subjectAltName", ())
    return [value for kind, value in names if kind == "URI"]


def check_name(names: list[str], group: str, member: str) -> None:
    """PeerError unless the certificate is that of the member."""
    if _uri(group, member) not in names:
        shown = printable(", ".join(names)) or "nobody"
        raise PeerError(
            "its certificate is of another member",
            f"it claims to be member {member}, but its certificate is of {shown}",
        )


def _names(members: int | Sequence[str]) -> list[str]:
    """The names of members: given, or numbers from 0."""
    names = list(map(str, range(members) if isinstance(members, int) else members))
    wire.check_names(names)
    return names


def key_files(directory: Path, members: int | Sequence[str]) -> list[Path]:
    """The files that ``make_keys`` writes for members, and the authority's certificate."""
    names = [f"member-{name}.{kind}" for name in _names(members) for kind in ("pem", "key")]
    return [directory / name for name in (f"{AUTHORITY}.pem", *names)]


def make_keys(
    directory: str | os.PathLike[str],
    *,
    group: str,
    members: int | Sequence[str],
    days: float = DAYS,
    keep_authority: bool = False,
) -> None:
    """A test authority, and a key and a certificate for each member, as PEM files.

    ``members`` are names, or a count: of members 0, 1, .... The files are ``authority.pem``,
    ``member-NAME.pem`` and ``member-NAME.key``; keys are readable by their owner alone. With
    ``keep_authority`` the authority's key is ``authority.key``, for ``add_keys``, and its
    certificate is valid for ten years or more; otherwise the key is not kept.
    """
    ec = _curves()
    if not GROUP_NAME.fullmatch(group):
        raise UserError(
            f"the name of a group with keys has up to {GROUP_NAME_MAX} letters, digits or ._-, "
            f"unlike {group!r:.80}"
        )
    _check_days(days)
    names, target = _names(members), Path(directory)
    issuer = ec.generate_private_key(ec.SECP256R1())
    subject = f"precedes {group}"
    try:
        target.mkdir(parents=True, exist_ok=True)
        authority_days = max(days, AUTHORITY_DAYS) if keep_authority else days
        certificate = _sign(subject, issuer, subject, issuer, days=authority_days)
        (target / f"{AUTHORITY}.pem").write_bytes(certificate)
        kept = target / f"{AUTHORITY}.key"
        kept.unlink(missing_ok=True)  # of an authority before this one
        if keep_authority:
            _write_key(kept, issuer)
        for member in names:
            _make_member(target, group, member, issuer, days)
    except OSError as error:
        raise UserError(f"cannot write keys into {target}: {error.strerror}") from None


def add_keys(
    directory: str | os.PathLike[str],
    *,
    group: str | None = None,
    members: int | Sequence[str],
    days: float = DAYS,
) -> str:
    """Add or replace keys of members, signed by the authority that is there; return its group.

    The directory has ``authority.pem`` and ``authority.key``, as ``make_keys`` keeps them.
    UserError if they are of another group than ``group``.
    """
    _curves()
    _check_days(days)
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    target = Path(directory)
    names, path = _names(members), target / f"{AUTHORITY}.key"
    try:
        issuer: Any = load_pem_private_key(path.read_bytes(), None)
        authority = x509.load_pem_x509_certificate((target / f"{AUTHORITY}.pem").read_bytes())
    except FileNotFoundError as error:
        raise UserError(
            f"there is no {error.filename} to sign keys of more members: make the keys of all "
            "members again, and keep the key of their authority"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from None
    except (TypeError, ValueError):
        raise UserError(f"cannot read the authority in {target}: its files are damaged") from None
    if authority.public_key() != issuer.public_key():
        raise UserError(f"{path} is not the key of {AUTHORITY}.pem")
    common = authority.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    name = str(common[0].value).removeprefix("precedes ") if common else ""
    if not GROUP_NAME.fullmatch(name) or group not in (None, name):
        raise UserError(f"the authority in {target} is of group {name!r:.80}, not {group}")
    left = authority.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    left_days = left / datetime.timedelta(days=1)
    if left_days <= 0:
        raise UserError(f"the authority in {target} has expired: make all keys again")
    try:
        for member in names:
            _make_member(target, name, member, issuer, min(days, left_days))
    except OSError as error:
        raise UserError(f"cannot write keys into {target}: {error.strerror}") from None
    return name


def _curves() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise UserError("keys need the extra 'live': pip install 'precedes[live]'") from None
    return ec


def _check_days(days: float) -> None:
    if not abs(days) <= DAYS_MAX:
        raise UserError(f"a certificate is valid for at most {DAYS_MAX} days, not {days}")


def _make_member(target: Path, group: str, member: str, issuer: Any, days: float) -> None:
    """Write the key and the certificate of a member."""
    ec = _curves()
    key, uri = ec.generate_private_key(ec.SECP256R1()), _uri(group, member)
    subject = f"{group} member {member}"
    certificate = _sign(f"precedes {group}", issuer, subject, key, days=days, uri=uri)
    (target / f"member-{member}.pem").write_bytes(certificate)
    _write_key(target / f"member-{member}.key", key)


def _write_key(path: Path, key: Any) -> None:
    """Write a key that its owner alone can read."""
    path.unlink(missing_ok=True)
    flags = os.O_CREAT | os.O_WRONLY | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(_private_bytes(key))


def _private_bytes(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def _sign(
    authority: str, issuer: Any, subject: str, key: Any, *, days: float, uri: str | None = None
) -> bytes:
    """A certificate of a member for this URI, or the authority's own, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    def name(text: str) -> x509.Name:
        attribute = x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:COMMON_NAME_MAX])
        return x509.Name([attribute])

    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(authority))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - EARLY)
        .not_valid_after(end)
    )
    if uri is None:
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        other_uses = (
            "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
            "encipher_only", "decipher_only",
        )  # fmt: skip
        usage = {"digital_signature": True, "key_cert_sign": True, "crl_sign": True}
        usage |= dict.fromkeys(other_uses, False)
        builder = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
            .add_extension(x509.KeyUsage(**usage), True)
            .add_extension(identifier, False)
        )
    else:
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)])
        builder = (
            builder.add_extension(names, False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(issued_by, False)
        )
    signed = builder.sign(issuer, hashes.SHA256())
    return bytes(signed.public_bytes(serialization.Encoding.PEM))
