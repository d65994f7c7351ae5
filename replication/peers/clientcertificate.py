"""The checks of client certificates, and the TLS contexts that show certificates to servers."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from catalog.model.peercredential import ClientCertificate
from catalog.model.timestamps import format_time

_ACCEPTED_USES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_LONGEST_SUBJECT = 256


def read_certificate(chain: str, key: str, now: datetime) -> ClientCertificate:
    """Check a certificate and its key, both in PEM.

    Raises:
        ValueError: the reason why servers would refuse the certificate; the text has no part of the
            key.
    """
    try:
        certificate, *_ = x509.load_pem_x509_certificates(chain.encode())
    except ValueError:
        raise ValueError("it needs to be a certificate in PEM") from None
    try:
        private = load_pem_private_key(key.encode(), password=None)
    except TypeError:
        raise ValueError("the key must not need a passphrase: nobody is there to type it") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("the key needs to be a private key in PEM") from None
    if certificate.public_key() != private.public_key():
        raise ValueError("the key is not the certificate's")
    if certificate.not_valid_after_utc <= now:
        raise ValueError(f"the certificate has ended at {format_time(_end_of(certificate))}")
    if certificate.not_valid_before_utc > now:
        begins = certificate.not_valid_before_utc
        raise ValueError(f"the certificate begins at {format_time(begins)}")
    if not _is_for_clients(certificate):
        raise ValueError("the certificate is not meant for clients (clientAuth)")
    made = ClientCertificate(
        chain=chain,
        key=key,
        subject=certificate.subject.rfc4514_string()[:_LONGEST_SUBJECT],
        endsat=format_time(_end_of(certificate)),
    )
    try:
        client_tls(made, "")
    except (OSError, ValueError) as error:
        raise ValueError("OpenSSL does not take the certificate and its key") from error
    return made


def client_tls(certificate: ClientCertificate | None, cacertificate: str) -> ssl.SSLContext:
    """A TLS context that shows a certificate.

    Args:
        certificate: the client certificate to show; `None` for none.
        cacertificate: the only trusted authorities in PEM; empty for the authorities of the system.

    Raises:
        ssl.SSLError, ValueError: the texts are not in PEM.
    """
    context = ssl.create_default_context(cadata=cacertificate or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # aiohttp speaks only HTTP/1.1, so the server must not choose HTTP/2.
    context.set_alpn_protocols(["http/1.1"])
    if certificate is not None:
        with _file_of(f"{certificate.key}\n{certificate.chain}") as path:
            # Without a passphrase, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password="")
    return context


def _end_of(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc.astimezone(UTC)


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return not _ACCEPTED_USES.isdisjoint(uses)


@contextlib.contextmanager
def _file_of(secret: str) -> Iterator[Path]:
    """A file with a secret, for a library that reads only files; in memory where possible."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("concord", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, secret.encode())
            yield Path(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(secret.encode())
        file.flush()
        yield Path(file.name)
