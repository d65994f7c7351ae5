"""Makes a certificate authority of this federation, and a certificate of a server.

Usage: certificates.py DIRECTORY NAME...

What is there stays. Beside the server's PEM files, `ca.pem` is the authority, and `trusted.pem`
has it together with those that this machine trusts. The authority's key is thrown away.
"""

from __future__ import annotations

import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LIFE = timedelta(days=3650)


def make(directory: Path, names: list[str]) -> None:
    """Write the files; the group of a server may read its key."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = (
        begun("The authority of this federation", authority_key, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, SHA256())
    )
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    server = (
        begun(names[0], key, authority_key, authority.subject)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority_key, SHA256())
    )
    kept = directory / f"{names[0]}.key"
    kept.touch(mode=0o640)
    kept.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (directory / f"{names[0]}.pem").write_bytes(server.public_bytes(Encoding.PEM))
    own = authority.public_bytes(Encoding.PEM)
    trusted = ssl.get_default_verify_paths().cafile
    (directory / "trusted.pem").write_bytes((Path(trusted).read_bytes() if trusted else b"") + own)
    # The last one, since it says that all is there.
    (directory / "ca.pem").write_bytes(own)


def begun(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    authority_key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None = None,
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    authority = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority),
            critical=False,
        )
    )


if __name__ == "__main__":
    place, *hosts = sys.argv[1:]
    if not Path(place, "ca.pem").exists():
        make(Path(place), hosts)
