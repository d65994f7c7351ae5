"""TLS that ends at the node, and the callers whom client certificates identify."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.access.identity import Identity
from catalog.model.roles import RoleRule, grants_from
from catalog.settings import Settings

_SUBJECT = {"commonName": "cn", "organizationName": "o", "organizationalUnitName": "ou"}
_ALTERNATIVE = {"DNS": "dns", "URI": "uri", "email": "email"}


class TlsUnusable(Exception):
    """A node cannot serve TLS with the configured files; the text gives the reason."""


def server_tls(settings: Settings) -> ssl.SSLContext | None:
    """The TLS of the node's listener; `None` for plain HTTP.

    The listener accepts clients without a certificate, too, since they may have a token.

    Raises:
        TlsUnusable
    """
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The suites of TLS 1.2 with forward secrecy and without CBC (RFC 9325, 4.2).
    context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")
    context.set_alpn_protocols(["http/1.1"])
    try:
        # An empty passphrase keeps OpenSSL from asking for a passphrase at the terminal.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password="")
        if settings.tls_client_ca is not None:
            context.load_verify_locations(settings.tls_client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except (OSError, ValueError) as error:
        names = "CONCORD_TLS_CERT, CONCORD_TLS_KEY or CONCORD_TLS_CLIENT_CA"
        raise TlsUnusable(f"{names}: {getattr(error, 'strerror', None) or error}") from error
    return context


def caller_of(certificate: Mapping[str, Any], rules: Sequence[RoleRule]) -> Identity | None:
    """The caller whom a verified certificate names; `None` once the certificate has expired.

    The handshake alone does not suffice, since a connection may outlast its certificate.
    """
    if ssl.cert_time_to_seconds(certificate["notAfter"]) <= time.time():
        return None
    claims = _claims(certificate)
    grants = grants_from(rules, claims)
    name = ", ".join(f"{kind}={value}" for kind, values in claims.items() for value in values)
    issuer = ", ".join(f"{kind}={value}" for kind, value in _named(certificate.get("issuer", ())))
    return Identity("certificate", name, issuer, grants, claims)


def _claims(certificate: Mapping[str, Any]) -> dict[str, list[str]]:
    claims: dict[str, list[str]] = {}
    for kind, value in _named(certificate.get("subject", ())):
        claims.setdefault(kind, []).append(value)
    for form, value in certificate.get("subjectAltName", ()):
        if form in _ALTERNATIVE:
            claims.setdefault(_ALTERNATIVE[form], []).append(value)
    return claims


def _named(name: Any) -> list[tuple[str, str]]:
    """The parts of a distinguished name that rules can compare."""
    parts = (part for relative in name for part in relative)
    return [(_SUBJECT[kind], value) for kind, value in parts if kind in _SUBJECT]
