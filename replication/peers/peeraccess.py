"""Shows the credential of a link to its peer, with access tokens that are fetched as they end."""

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
    """The credential of a link, as clients show it."""
    try:
        return PeerAccess(credential_of(link, context.keys), context.settings, link=link.id)
    except SecretUnreadable as error:
        _log.warning("the credential of a link cannot be read", link=link.id, cause=error.cause)
        fault = error.reason
        return PeerAccess(PeerCredential(), context.settings, link=link.id, fault=fault)


async def access_for(context: Context, url: str, given: PeerCredential) -> PeerAccess:
    """A credential for the catalog at a URL: the given one, else that of a link to there."""
    if given.is_empty:
        async with context.database.acquire() as connection:
            link = await find_leading_to(connection, url)
        if link is not None:
            return access_of(link, context)
    return PeerAccess(given, context.settings)


async def access_of_row(
    context: Context, url: str, sealed: bytes | None, table: str, id: str
) -> PeerAccess:
    """The same, where the column `sealed` of the row with this `id` has what was given."""
    try:
        given = open_credential(context.keys, sealed, table, id)
    except SecretUnreadable as error:
        _log.warning("a credential cannot be read", table=table, id=id, cause=error.cause)
        return PeerAccess(PeerCredential(), context.settings, fault=error.reason)
    return await access_for(context, url, given)


class PeerAccess:
    """A credential as clients show it (`catalog.client.Credential`).

    Access tokens are kept until shortly before they end. Clients that need one at the same time
    wait for the same answer of the token endpoint.

    Args:
        link: its id.
        fault: why there is no credential, though there should be one.
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
        """The TLS that shows the certificate; a context of its own shares no connections."""
        if not self._credential.needs_tls:
            return True
        return client_tls(self._credential.certificate, self._credential.cacertificate)

    async def headers(self) -> Mapping[str, str]:
        """The header with the token, which is fetched if there is none that lasts."""
        if self._fault is not None:
            raise CredentialUnusable(f"The credential cannot be read: {self._fault}.", self._advice)
        self._check_certificate()
        token = self._token
        if self._credential.oauth is not None:
            async with self._fetching:
                token = await self._lasting_token(self._credential.oauth)
        return {hdrs.AUTHORIZATION: f"Bearer {token}"} if token else {}

    async def renew(self, refused: Mapping[str, str]) -> bool:
        """Whether another token can be fetched in place of the one that was refused."""
        if self._credential.oauth is None:
            return False
        self.forget(refused)
        return True

    def forget(self, refused: Mapping[str, str] | None = None) -> None:
        """Fetch a new token next time, unless the token has changed since `refused` was shown."""
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
