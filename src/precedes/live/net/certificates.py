"""A small certificate authority for tests; only this file needs ``cryptography``."""

from __future__ import annotations

import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NAME_MAX: Final = 64  # of a common name, by the standard
# Clocks of machines differ a little.
EARLY: Final = datetime.timedelta(minutes=5)


class Authority:
    """Signs certificates of members; its key never leaves this object."""

    def __init__(self, name: str, *, days: int) -> None:
        self._days = days
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "encipher_only", "decipher_only"),
            False,
        )  # fmt: skip
        identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.certificate = self._sign(
            self._name,
            self._key.public_key(),
            [
                (x509.BasicConstraints(ca=True, path_length=0), True),
                (
                    x509.KeyUsage(
                        digital_signature=True, key_cert_sign=True, crl_sign=True, **usage
                    ),
                    True,
                ),
                (identifier, False),
            ],
        )

    def issue(self, title: str, uri: str) -> tuple[bytes, bytes]:
        """A certificate for this name and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        extensions = [
            (x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri)]), False),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (issued_by, False),
        ]
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self._sign(_name(title), key.public_key(), extensions), text

    def _sign(self, subject: x509.Name, key: Any, extensions: list[tuple[Any, bool]]) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        end = now + datetime.timedelta(days=self._days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, end) - EARLY)
            .not_valid_after(end)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        signed = builder.sign(self._key, hashes.SHA256())
        return bytes(signed.public_bytes(serialization.Encoding.PEM))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:NAME_MAX])])
