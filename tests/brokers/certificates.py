"""Certificates of an authority that only one test knows."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificates(directory: Path) -> str:
    """Write `server.pem` and `server.key` for `localhost`, and return the authority in PEM."""
    authority = CertificateAuthority()
    authority.write_server(directory)
    return authority.pem


class CertificateAuthority:
    """An authority that signs certificates of servers and of clients."""

    def __init__(self) -> None:
        self._key = _key()
        self._name = _name("an authority")
        own = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), False)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = own.public_bytes(serialization.Encoding.PEM).decode()

    def write_server(self, directory: Path) -> None:
        """Write `server.pem` and `server.key` for `localhost`."""
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        self._write(directory, "server", "localhost", x509.SubjectAlternativeName(hosts))

    def write_client(self, directory: Path, name: str, use: x509.ObjectIdentifier) -> None:
        """Write `NAME.pem` and `NAME.key` for a client of that name, with a use of its key."""
        self._write(directory, name, name, x509.ExtendedKeyUsage([use]))

    def _write(self, directory: Path, file: str, name: str, extension: x509.ExtensionType) -> None:
        key = _key()
        made = (
            _builder(_name(name), self._name, key.public_key())
            .add_extension(extension, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False
            )
            .sign(self._key, hashes.SHA256())
        )
        (directory / f"{file}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (directory / f"{file}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
