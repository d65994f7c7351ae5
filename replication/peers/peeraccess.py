"""Shows the credential of a link to its peer, and renews access tokens before they expire."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import structlog
from aiohttp import hdrs

from catalog.client import CredentialUnusable
from catalog.config import Settings
from catalog.context import Context
from catalog.http.outbound import open_session
from catalog.keys.keyring import SecretUnreadable
from catalog.model.peercredential import OAuthClient, PeerCredential
from catalog.model.timestamps import parse_time
from catalog.model.tokenlifetime import REFRESH_SECONDS, refresh_time
from catalog.store.links import Link
from catalog.store.peercredentials import open_credential
from catalog.subscriptions.sinks.tokenendpoint import RefreshFailed, client_token
from replication.peers.accessadvice import another_credential
from replication.peers.clientcertificate import client_tls
from replication.store.linkcredentials import credential_of, find_leading_to

_log = structlog.get_logger(__name__)

_FETCH_SECONDS = 10.0


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
        """The header with the token; fetches a token if the kept token is about to expire."""
        if self._fault is not None:
            raise CredentialUnusable(f"The credential cannot be read: {self._fault}.", self._advice)
        self._check_certificate()
        token = self._token
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

    def _check_certificate(self) -> None:
        certificate = self._credential.certificate
        if certificate is not None and parse_time(certificate.endsat) <= datetime.now(UTC):
            message = f"The client certificate of the link has ended at {certificate.endsat}."
            raise CredentialUnusable(message, self._advice)

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
            now + timedelta(seconds=answer.lifetime_seconds),
            now,
            lead_seconds=REFRESH_SECONDS,
        )
        return self._token
