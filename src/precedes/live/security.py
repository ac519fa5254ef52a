"""Who is who: mutual TLS, with a member's number bound to its certificate.

All members trust one authority. A certificate is good for one member of one group: its
alternative names hold ``precedes:GROUP/MEMBER``, and the greeting of the other side must agree.
"""

from __future__ import annotations

import datetime
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from precedes.model import PeerError, UserError

if TYPE_CHECKING:
    from precedes.live.config import Security

DAYS: Final = 30
AUTHORITY: Final = "authority"


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
    return Contexts(_context(files, ssl.PROTOCOL_TLS_SERVER), _context(files, ssl.PROTOCOL_TLS_CLIENT))


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


def names_in(certificate: Mapping[str, Any] | None) -> list[str]:
    """The alternative names of a checked certificate."""
    found = (certificate or {}).get("subjectAltName", ())
    return [value for kind, value in found if kind == "URI"]


def check_name(names: list[str], group: str, member: int) -> None:
    """PeerError unless the certificate is that of the member."""
    if member_name(group, member) not in names:
        shown = ", ".join(names) or "nobody"
        raise PeerError(f"it says to be member {member}, but its certificate is of {shown}")


def make_keys(directory: str | os.PathLike[str], *, group: str, members: int, days: int = DAYS) -> None:
    """A test authority, and a key and a certificate for each member, as PEM files.

    ``authority.pem``, ``member-N.pem`` and ``member-N.key``; keys are readable by their owner
    alone. The authority's own key is thrown away: to add members, make all keys anew.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise UserError("keys need the extra 'live': pip install 'precedes[live]'") from None
    target = Path(directory)
    now = datetime.datetime.now(datetime.UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"precedes {group}")])

    def certificate(subject: x509.Name, key: Any, extensions: list[Any]) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=days))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        signed = builder.sign(authority_key, hashes.SHA256())
        return bytes(signed.public_bytes(serialization.Encoding.PEM))

    try:
        target.mkdir(parents=True, exist_ok=True)
        basic = (x509.BasicConstraints(ca=True, path_length=0), True)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False,
            encipher_only=False, decipher_only=False,
        )  # fmt: skip
        identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
        extensions = [basic, (usage, True), (identifier, False)]
        (target / f"{AUTHORITY}.pem").write_bytes(
            certificate(issuer, authority_key.public_key(), extensions)
        )
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
        for member in range(members):
            key = ec.generate_private_key(ec.SECP256R1())
            subject = x509.Name(
                [x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{group} member {member}"[:64])]
            )
            name = x509.UniformResourceIdentifier(member_name(group, member))
            extensions = [
                (x509.SubjectAlternativeName([name]), False),
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (issued_by, False),
            ]
            (target / f"member-{member}.pem").write_bytes(
                certificate(subject, key.public_key(), extensions)
            )
            _write_key(target / f"member-{member}.key", key, serialization)
    except OSError as error:
        raise UserError(f"cannot write keys into {target}: {error.strerror}") from None


def _write_key(path: Path, key: Any, serialization: Any) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
