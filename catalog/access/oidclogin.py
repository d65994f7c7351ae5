"""The log-in of people at an OpenID Connect provider, by an authorization code.

Sources: OpenID Connect Core 1.0, section 3.1; RFC 7636 (PKCE); RFC 9207 (the issuer in the answer);
RFC 8707 (the resource that a token is for).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.providers import IssuerUnusable, TokenInvalid, object_in, read_discovery
from catalog.http.allowedaddresses import why_endpoint_refused
from catalog.http.outboundconnections import open_session
from catalog.model.masking import described
from catalog.settings import Settings
from catalog.settings.settingtypes import is_loopback

_SECONDS = 5.0
_LONGEST_TOKEN = 8000
_LONGEST_TEXT = 300
# RFC 8707, 2.2: the resource is named where the token is given out, too.
_RESOURCE = "resource"
_BASIC, _POST = "client_secret_basic", "client_secret_post"


class LoginFailed(Exception):
    """A provider did not log somebody in; the text is a sentence for the user.

    Args:
        is_final: whether the provider has refused, so that the same request fails again.
    """

    def __init__(self, fault: str, *, is_final: bool = True) -> None:
        super().__init__(fault)
        self.is_final = is_final


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTokens:
    """The tokens of somebody who has logged in.

    Args:
        access: the token by which the node is called.
        refresh: the token by which the provider gives the next tokens; "" if it gives none.
        expiresat: the end of the access token, in seconds since 1970; `None` if it is not told.
    """

    access: str
    refresh: str = ""
    expiresat: float | None = None


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """The secrets of one log-in, all derived from a secret that only the browser keeps."""

    secret: str

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """The code verifier of PKCE."""
        return self._derived("verifier")

    def _derived(self, purpose: str) -> str:
        digest = hmac.digest(self.secret.encode(), f"concord log-in {purpose}".encode(), "sha256")
        return _text_of(digest)


class CodeLogin:
    """The log-in at the provider that the settings name.

    Args:
        request: a request to the node, whose application verifies ID tokens.
        settings: with a client id.
        callback: the URL to which the provider sends the browser back.
    """

    def __init__(self, request: web.Request, settings: Settings, callback: str) -> None:
        self.issuer = settings.login_issuer
        self._verifier = request.app[AUTHENTICATION].jwts
        self._settings = settings
        self._callback = callback
        self._client = settings.oidc_login_client or ""

    async def address(self, attempt: LoginAttempt) -> str:
        """The page of the provider to which the browser goes.

        Raises:
            LoginFailed: the provider cannot be reached, or does not do what is needed.
        """
        async with self._session() as session:
            page = self._endpoint(await self._metadata(session), "authorization_endpoint")
        parts = urlsplit(page)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise LoginFailed(f"The page for the log-in of {self.issuer} is not at an https URL.")
        challenge = _text_of(hashlib.sha256(attempt.verifier.encode()).digest())
        query = {
            **self._settings.login_parameters,
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": self._callback,
            "scope": self._settings.oidc_login_scope,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{page}{'&' if parts.query else '?'}{urlencode(query)}"

    async def tokens(self, attempt: LoginAttempt, answer: Mapping[str, str]) -> ProviderTokens:
        """The tokens for the answer of the provider that the browser has brought.

        Raises:
            LoginFailed
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise LoginFailed(
                "This log-in was not begun in this browser, or long ago: begin again."
            )
        if answer.get("iss", self.issuer) != self.issuer:
            raise LoginFailed("The answer is of another provider than the one that was asked.")
        if "code" not in answer:
            raise LoginFailed(_refusal(answer))
        given = {
            "grant_type": "authorization_code",
            "code": answer["code"],
            "redirect_uri": self._callback,
            "code_verifier": attempt.verifier,
        }
        found = await self._ask(given)
        try:
            await self._verifier.verify_id_token(
                str(found.get("id_token", "")),
                issuer=self.issuer,
                client=self._client,
                nonce=attempt.nonce,
            )
        except TokenInvalid as error:
            raise LoginFailed(f"The ID token of the provider is not valid: {error}.") from error
        return _tokens_in(found)

    async def renewed(self, refresh: str) -> ProviderTokens:
        """The next tokens (OpenID Connect Core, section 12).

        Raises:
            LoginFailed: the provider refuses, or does not answer; see `is_final`.
        """
        found = await self._ask({"grant_type": "refresh_token", "refresh_token": refresh})
        return _tokens_in(found, refresh)

    def _session(self) -> aiohttp.ClientSession:
        return open_session(self._settings, total_seconds=_SECONDS)

    async def _metadata(self, session: aiohttp.ClientSession) -> Mapping[str, Any]:
        try:
            return await read_discovery(session, self.issuer, self._settings)
        except (IssuerUnusable, aiohttp.ClientError, OSError, ValueError) as error:
            raise self._unusable(error) from error

    async def _ask(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """Ask the provider for tokens (RFC 6749, 3.2)."""
        async with self._session() as session:
            metadata = await self._metadata(session)
            endpoint = self._endpoint(metadata, "token_endpoint")
            if refusal := why_endpoint_refused(endpoint, self._settings):
                raise LoginFailed(f"The provider's {endpoint} cannot be asked: {refusal}.")
            fields, headers = self._authenticated(metadata, given)
            try:
                async with session.post(endpoint, data=fields, headers=headers) as response:
                    found = await object_in(response)
            except (IssuerUnusable, aiohttp.ClientError, OSError) as error:
                raise self._unusable(error) from error
        if response.status >= 500:
            raise self._unusable(f"it answered with {response.status}")
        if response.status >= 400:
            raise LoginFailed(_refusal({name: str(value) for name, value in found.items()}))
        return found

    def _authenticated(
        self, metadata: Mapping[str, Any], given: Mapping[str, str]
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The fields and headers of a request of the client (OpenID Connect Core, section 9)."""
        fields, headers = dict(given), {"Accept": "application/json"}
        if (resource := self._settings.login_parameters.get(_RESOURCE)) is not None:
            fields[_RESOURCE] = resource
        secret = self._settings.oidc_login_secret
        methods = metadata.get("token_endpoint_auth_methods_supported", [_BASIC])
        if secret is not None and _BASIC in methods:
            pair = f"{quote(self._client, safe='')}:{quote(secret.get_secret_value(), safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            return fields, headers
        fields["client_id"] = self._client
        if secret is not None:
            fields["client_secret"] = secret.get_secret_value()
        return fields, headers

    def _endpoint(self, metadata: Mapping[str, Any], name: str) -> str:
        found = metadata.get(name)
        if not isinstance(found, str) or urlsplit(found).scheme not in ("http", "https"):
            raise LoginFailed(f"{self.issuer} names no {name} in its discovery document.")
        return found

    def _unusable(self, cause: Exception | str) -> LoginFailed:
        why = cause if isinstance(cause, str) else described(cause)
        return LoginFailed(f"{self.issuer} cannot be used now: {why}.", is_final=False)


def _tokens_in(found: Mapping[str, Any], refresh: str = "") -> ProviderTokens:
    """The tokens in an answer; without a new refresh token, the one before stays."""
    access, next_refresh = found.get("access_token"), found.get("refresh_token", refresh)
    seconds = found.get("expires_in")
    texts = (access, next_refresh)
    if not all(isinstance(text, str) and len(text) <= _LONGEST_TOKEN for text in texts):
        raise LoginFailed("The provider gave no token that can be used.")
    return ProviderTokens(
        access=str(access),
        refresh=str(next_refresh),
        expiresat=time.time() + seconds if isinstance(seconds, int) else None,
    )


def _refusal(answer: Mapping[str, str]) -> str:
    """A refusal of a provider (RFC 6749, 4.1.2.1 and 5.2), as a sentence."""
    cause, detail = (answer.get(name, "") for name in ("error", "error_description"))
    texts = [text[:_LONGEST_TEXT] for text in (cause, detail) if text.isprintable() and text]
    return f"The provider did not log you in: {': '.join(texts) or 'it gave no reason'}."


def _text_of(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
