"""Asks OAuth 2.0 token endpoints for access tokens (RFC 6749 4.4 and 6)."""

from __future__ import annotations

import contextlib
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote_plus

import aiohttp
import orjson
from aiohttp import hdrs
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from catalog.client.connection import read_limited
from catalog.client.errors import ClientError
from catalog.http.allowedaddresses import why_endpoint_refused
from catalog.model.backoff import parse_retry_after
from catalog.model.connectionfailure import why_unreachable
from catalog.model.credentials import OAuthClient, RefreshGrant
from catalog.model.masking import described
from catalog.settings import Settings

_LARGEST_ANSWER = 64 * 1024
# The lifetime if the endpoint states none: an early refresh does less harm than a late one.
_UNKNOWN_LIFETIME = 300.0
_LONGEST_LIFETIME = 10 * 365 * 24 * 3600.0
# The only errors that are shown (RFC 6749 5.2, RFC 8707 2): free text could repeat the token.
_ERRORS = {
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "invalid_target",
}


def _lifetime(value: object) -> float:
    """The lifetime of a token in seconds; some endpoints write the number as a string."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if isinstance(value, bool) or not math.isfinite(seconds):
        return _UNKNOWN_LIFETIME
    return min(max(seconds, 0.0), _LONGEST_LIFETIME)


class RefreshedToken(BaseModel):
    """A new access token.

    `scheme` is the type of the token, if the endpoint names it. `refresh` replaces the used refresh
    token, if the endpoint gives one.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    token: str = Field(alias="access_token", pattern=r"^[\x21-\x7e]{1,8192}$", repr=False)
    scheme: str | None = Field(None, alias="token_type", pattern=r"^[A-Za-z0-9-]{1,32}$")
    lifetime_seconds: Annotated[float, BeforeValidator(_lifetime)] = Field(
        _UNKNOWN_LIFETIME, alias="expires_in"
    )
    refresh: str | None = Field(
        None, alias="refresh_token", pattern=r"^[\x20-\x7e]{1,8192}$", repr=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshFailed:
    """The failure to get a new token; the first three members are as in `SinkRefused`.

    `may_pass` says whether the endpoint may issue a token later, without a change on either side.
    """

    reason: str
    cause: str = ""
    retry_after: float = 0.0
    may_pass: bool = True


async def refresh_token(
    session: aiohttp.ClientSession, settings: Settings, grant: RefreshGrant, now: datetime
) -> RefreshedToken | RefreshFailed:
    """Ask for a new access token; the session bounds the time and checks addresses."""
    form = {"grant_type": "refresh_token", "refresh_token": grant.token}
    return await _ask(session, settings, grant.endpoint, form, now, shown="refresh token")


async def client_token(
    session: aiohttp.ClientSession, settings: Settings, client: OAuthClient, now: datetime
) -> RefreshedToken | RefreshFailed:
    """Ask for an access token of a client; the session bounds the time and checks addresses."""
    asked = {"scope": client.scope, "resource": client.resource, "audience": client.audience}
    form = {"grant_type": "client_credentials", **{k: v for k, v in asked.items() if v}}
    headers: dict[str, str] = {}
    if client.authentication == "client_secret_basic":
        # Id and secret are form-encoded before Basic authentication encodes them (RFC 6749 2.3.1).
        named = quote_plus(client.clientid), quote_plus(client.clientsecret)
        headers[hdrs.AUTHORIZATION] = aiohttp.encode_basic_auth(*named)
    else:
        form |= {"client_id": client.clientid, "client_secret": client.clientsecret}
    return await _ask(
        session, settings, client.tokenurl, form, now, shown="client", headers=headers
    )


async def _ask(
    session: aiohttp.ClientSession,
    settings: Settings,
    endpoint: str,
    form: Mapping[str, str],
    now: datetime,
    *,
    shown: str,
    headers: Mapping[str, str] | None = None,
) -> RefreshedToken | RefreshFailed:
    # The settings may have changed since the endpoint was accepted.
    if refusal := why_endpoint_refused(endpoint, settings):
        return RefreshFailed(reason=f"the token endpoint is refused: {refusal}", may_pass=False)
    try:
        # A redirect could pass the secrets of the form on to a different host.
        async with session.post(
            endpoint,
            data=form,
            headers={"Accept": "application/json", **(headers or {})},
            allow_redirects=False,
        ) as response:
            body = await read_limited(response, _LARGEST_ANSWER)
            retry_after = parse_retry_after(response.headers.get("Retry-After"), now)
            return _answer(response.status, body, retry_after, shown)
    except (aiohttp.ClientError, ClientError, OSError) as error:
        return RefreshFailed(
            reason=f"the token endpoint {why_unanswered(error)}", cause=described(error)
        )


def _answer(
    status: int, body: bytes, retry_after: float, shown: str
) -> RefreshedToken | RefreshFailed:
    reason = f"the token endpoint answered {status}"
    if status == HTTPStatus.OK:
        try:
            return RefreshedToken.model_validate_json(body)
        except ValidationError as error:
            name = "".join(map(str, error.errors()[0]["loc"])) or "access_token"
            return RefreshFailed(reason=f"the token endpoint answered without a usable {name}")
    with contextlib.suppress(orjson.JSONDecodeError):
        found = orjson.loads(body)
        named = found.get("error") if isinstance(found, dict) else None
        if isinstance(named, str) and named in _ERRORS:
            reason = f"the token endpoint refused the {shown} ({named})"
    may_pass = status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS
    return RefreshFailed(reason=reason, retry_after=retry_after, may_pass=may_pass)


def why_unanswered(error: Exception, request: str = "") -> str:
    """The predicate of a sentence about a server that has not answered a request of aiohttp.

    Args:
        request: the name of the request, unless the server takes one kind of requests.
    """
    predicate = f"did not answer {request}".rstrip()
    if isinstance(error, TimeoutError):
        return f"{predicate} in time"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL | ssl.SSLError):
        return why_unreachable(error)
    return f"{predicate} as a whole"
