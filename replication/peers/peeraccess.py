"""The credential of a link: checked when an operator gives it, shown to the peer, and renewed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from aiohttp import hdrs
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from catalog.client import CredentialUnusable
from catalog.context import Context
from catalog.http.allowedaddresses import why_endpoint_refused
from catalog.http.outboundconnections import open_session
from catalog.http.tokenendpoint import RefreshFailed, client_token
from catalog.keys.keyring import SecretUnreadable
from catalog.model.credentials import (
    REFRESH_SECONDS,
    ClientCertificate,
    OAuthClient,
    PeerCredential,
    PeerPassword,
    refresh_time,
)
from catalog.model.errors import InvalidAttribute
from catalog.model.timestamps import format_time, parse_time
from catalog.operations.links import LinkTerms
from catalog.operations.peercredentials import GivenCredential
from catalog.settings import Settings
from catalog.store.links import Link, LinkDefinition
from catalog.store.secrets import open_credential
from replication.peers.linkerrors import another_credential
from replication.store.linkstates import credential_of, find_leading_to

_ACCEPTED_USES = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
_LONGEST_SUBJECT = 256
_log = structlog.get_logger(__name__)

_FETCH_SECONDS = 10.0


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
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if ends <= now:
        raise ValueError(f"the certificate has ended at {format_time(ends)}")
    if begins > now:
        raise ValueError(f"the certificate begins at {format_time(begins)}")
    if not _is_for_clients(certificate):
        raise ValueError("the certificate is not meant for clients (clientAuth)")
    made = ClientCertificate(
        chain=chain,
        key=key,
        subject=certificate.subject.rfc4514_string()[:_LONGEST_SUBJECT],
        endsat=format_time(ends),
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


def given_credential(
    body: LinkTerms, definition: LinkDefinition, settings: Settings, subject: str
) -> PeerCredential | None:
    """The credential in a body; `None` if the body has no credential.

    Raises:
        InvalidAttribute: the body has both a token and a credential, the mode of the link sends
            none, servers would refuse the credential, or the node does not connect to the token
            endpoint.
    """
    if body.token is None and body.credential is None:
        return None
    name, given = "credential", peer_credential(body.credential, subject)
    if body.token is not None:
        if body.credential is not None:
            raise InvalidAttribute(subject, name="token", error_detail="`credential` has it, too")
        name, given = "token", PeerCredential(token=body.token.get_secret_value())
    if definition.terms.is_topic or not definition.peer:
        detail = f'a link of mode "{definition.mode}" sends none'
        raise InvalidAttribute(subject, name=name, error_detail=detail)
    check_credential(given, definition.peer, settings, subject)
    return given


def peer_credential(given: GivenCredential | None, subject: str) -> PeerCredential:
    """The checked credential of an operator; empty if none was given.

    Raises:
        InvalidAttribute: servers would refuse the certificate.
    """
    if given is None:
        return PeerCredential()
    oauth, basic, certificate = None, None, None
    if given.oauth is not None:
        oauth = OAuthClient(**given.oauth.model_dump(mode="json", exclude_none=True))
    if given.basic is not None:
        password = given.basic.password.get_secret_value()
        basic = PeerPassword(user=given.basic.user, password=password)
    if (shown := given.certificate) is not None:
        try:
            key = shown.key.get_secret_value()
            certificate = read_certificate(shown.chain, key, datetime.now(UTC))
        except ValueError as error:
            name = "credential.certificate"
            raise InvalidAttribute(subject, name=name, error_detail=str(error)) from error
    return PeerCredential(
        token=given.token.get_secret_value(),
        oauth=oauth,
        basic=basic,
        certificate=certificate,
        cacertificate=given.cacertificate or "",
    )


def check_credential(given: PeerCredential, url: str, settings: Settings, subject: str) -> None:
    """Refuse a credential that cannot be shown to the catalog at a URL.

    Raises:
        InvalidAttribute
    """
    if given.needs_tls and urlsplit(url).scheme != "https":
        detail = "certificates need an https URL at the other end"
        raise InvalidAttribute(subject, name="credential", error_detail=detail)
    if given.oauth and (refusal := why_endpoint_refused(given.oauth.tokenurl, settings)):
        name = "credential.oauth.tokenurl"
        raise InvalidAttribute(subject, name=name, error_detail=refusal)


def access_of(link: Link, context: Context) -> PeerAccess:
    """The credential of a link in the form that clients show."""
    try:
        return PeerAccess(credential_of(link, context.keys), context.settings, link=link.id)
    except SecretUnreadable as error:
        _log.warning("the credential of a link cannot be read", link=link.id, cause=error.cause)
        fault = error.reason
        return PeerAccess(PeerCredential(), context.settings, link=link.id, fault=fault)


async def access_for(context: Context, url: str, given: PeerCredential) -> PeerAccess:
    """A credential for the catalog at a URL: the given one, or that of a link to the catalog."""
    if given.is_empty:
        async with context.database.acquire() as connection:
            link = await find_leading_to(connection, url)
        if link is not None:
            return access_of(link, context)
    return PeerAccess(given, context.settings)


async def access_of_row(
    context: Context, url: str, sealed: bytes | None, table: str, id: str
) -> PeerAccess:
    """A credential as by `access_for`, given in the column `sealed` of the row with this `id`."""
    try:
        given = open_credential(context.keys, sealed, table, id)
    except SecretUnreadable as error:
        _log.warning("a credential cannot be read", table=table, id=id, cause=error.cause)
        return PeerAccess(PeerCredential(), context.settings, fault=error.reason)
    return await access_for(context, url, given)


class PeerAccess:
    """A credential in the form that clients show (`catalog.client.Credential`).

    Access tokens are kept until shortly before they expire. Clients that need a token at the same
    time wait for the same answer of the token endpoint.

    Args:
        link: the id of the link.
        fault: the reason why the credential cannot be read, if it cannot.
    """

    def __init__(
        self,
        credential: PeerCredential,
        settings: Settings,
        *,
        link: str = "ID",
        fault: str | None = None,
    ) -> None:
        self._credential = credential
        self._settings = settings
        self._fault = fault
        self._advice = f"Give the link another one: {another_credential(link)}."
        self._fetching = asyncio.Lock()
        self._token = credential.token
        self._fetchat: datetime | None = None

    @functools.cached_property
    def tls(self) -> ssl.SSLContext | bool:
        """The TLS context with the certificate; different contexts share no connections."""
        if not self._credential.needs_tls:
            return True
        return client_tls(self._credential.certificate, self._credential.cacertificate)

    async def headers(self) -> Mapping[str, str]:
        """The header with the password or token; fetches a token if the kept one ends soon."""
        if self._fault is not None:
            raise CredentialUnusable(f"The credential cannot be read: {self._fault}.", self._advice)
        certificate, token = self._credential.certificate, self._token
        if certificate is not None and parse_time(certificate.endsat) <= datetime.now(UTC):
            message = f"The client certificate of the link has ended at {certificate.endsat}."
            raise CredentialUnusable(message, self._advice)
        if self._credential.basic is not None:
            return {hdrs.AUTHORIZATION: self._credential.basic.header}
        if self._credential.oauth is not None:
            async with self._fetching:
                token = await self._lasting_token(self._credential.oauth)
        return {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Whether a new token can be fetched in place of the refused token."""
        if self._credential.oauth is None:
            return False
        self.forget(refused)
        return True

    def forget(self, refused: Mapping[str, str] | None = None) -> None:
        """Fetch a new token next time, unless the token has changed since `refused` was shown."""
        # Of concurrent requests with the same refused token, only the first makes a new token
        # necessary.
        shown = {hdrs.AUTHORIZATION: f"Bearer {self._token}"}
        if refused is None or refused == shown:
            self._fetchat = None

    async def _lasting_token(self, client: OAuthClient) -> str:
        now = datetime.now(UTC)
        if self._fetchat is not None and now < self._fetchat:
            return self._token
        async with open_session(self._settings, total_seconds=_FETCH_SECONDS) as session:
            answer = await client_token(session, self._settings, client, now)
        if isinstance(answer, RefreshFailed):
            if answer.cause:
                _log.warning("no access token", endpoint=client.tokenurl, cause=answer.cause)
            message = f"{answer.reason[0].upper()}{answer.reason[1:]}: {client.tokenurl}."
            raise CredentialUnusable(
                message,
                "" if answer.may_pass else self._advice,
                is_retryable=answer.may_pass,
                retry_after=answer.retry_after,
            )
        self._token = answer.token
        self._fetchat = refresh_time(
            now + timedelta(seconds=answer.lifetime_seconds), now, lead_seconds=REFRESH_SECONDS
        )
        return self._token
