"""Sessions of readers: a cookie names a session, and the node keeps the session's token.

The cookie holds a random secret. The database holds the digest of the secret, and the token sealed
by a key that is derived from the secret: neither alone reveals the token. Every process of a node
knows every session. A session ends with its token, since each request of the session is one of the
token. A token of a provider that gives refresh tokens is renewed until the session ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from datetime import UTC, datetime

import orjson
from aiohttp import hdrs, web
from yarl import URL

from catalog.access.oidclogin import CodeLogin, LoginFailed, ProviderTokens
from catalog.context import CONTEXT
from catalog.keys.keyring import EncryptionKey, KeyRing, SecretPlace
from catalog.model.concorderrors import OriginRefused
from catalog.settings.settingtypes import is_loopback
from catalog.store import consolesessions

_FORM = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_NAME = "concord"
# A token is renewed shortly before its end, as a page makes several requests with it.
_EARLY_SECONDS = 30
_LOOKS, _LOOK_SECONDS = 60, 0.1


def is_private(request: web.Request) -> bool:
    """Whether nobody on the way can read the requests of a session: TLS, or this machine alone."""
    base = _base(request)
    return base.scheme == "https" or is_loopback(base.host or "")


async def begin_session(
    request: web.Request, response: web.StreamResponse, tokens: ProviderTokens
) -> None:
    """Begin a session with a token that the node accepts, and end the session before."""
    await end_session(request, response)
    secret = secrets.token_urlsafe(32)
    sealed = _sealed(secret, tokens)
    async with request[CONTEXT].database.transaction() as connection:
        await consolesessions.add_session(connection, _digest(secret), sealed, datetime.now(UTC))
    response.set_cookie(
        cookie_name(request, _NAME),
        secret,
        max_age=int(consolesessions.LONGEST.total_seconds()),
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="Lax",
    )


async def token_of(request: web.Request) -> str | None:
    """The token of the request's session; `None` without a session, or after its end."""
    secret = _secret_in(request)
    if secret is None:
        return None
    async with request[CONTEXT].database.acquire() as connection:
        sealed = await consolesessions.find_session(connection, _digest(secret), datetime.now(UTC))
    if sealed is None:
        return None
    tokens: ProviderTokens | None = _opened(secret, sealed)
    if tokens is not None and _is_due(tokens):
        tokens = await _renewed(request, secret, tokens)
    return None if tokens is None else tokens.access


def _is_due(tokens: ProviderTokens) -> bool:
    return bool(tokens.refresh) and (
        tokens.expiresat is not None and tokens.expiresat < time.time() + _EARLY_SECONDS
    )


async def _renewed(
    request: web.Request, secret: str, tokens: ProviderTokens
) -> ProviderTokens | None:
    """The next tokens of a session; `None` after its end, which a refusal of the provider is.

    Most providers take a refresh token once: of several requests, one asks, and the rest wait.
    """
    context, digest = request[CONTEXT], _digest(secret)
    # The mark is committed before the provider is asked: the others see it at once, and a slow
    # provider holds no connection of the database.
    async with context.database.transaction() as connection:
        is_first = await consolesessions.begin_renewal(connection, digest, datetime.now(UTC))
    if not is_first:
        return await _renewed_by_another(request, secret, tokens)
    try:
        found = await CodeLogin(request, context.settings, "").renewed(tokens.refresh)
    except LoginFailed as error:
        if not error.is_final:
            # The tokens are renewed early, so the present one may be valid until the next attempt.
            return tokens
        async with context.database.transaction() as connection:
            await consolesessions.remove_session(connection, digest)
        return None
    async with context.database.transaction() as connection:
        await consolesessions.renew_session(connection, digest, _sealed(secret, found))
    return found


async def _renewed_by_another(
    request: web.Request, secret: str, tokens: ProviderTokens
) -> ProviderTokens | None:
    for _ in range(_LOOKS):
        await asyncio.sleep(_LOOK_SECONDS)
        async with request[CONTEXT].database.acquire() as connection:
            sealed = await consolesessions.find_session(
                connection, _digest(secret), datetime.now(UTC)
            )
        if sealed is None:
            return None
        if (found := _opened(secret, sealed)) != tokens:
            return found
    return tokens


async def has_session(request: web.Request) -> bool:
    """Whether the session of a request has not ended; the question does not count as a use."""
    secret = _secret_in(request)
    if secret is None:
        return False
    async with request[CONTEXT].database.acquire() as connection:
        return await consolesessions.is_open(connection, _digest(secret), datetime.now(UTC))


async def end_session(request: web.Request, response: web.StreamResponse) -> None:
    """End the session of a request, if the request has one."""
    secret = _secret_in(request)
    if secret is None:
        return
    async with request[CONTEXT].database.transaction() as connection:
        await consolesessions.remove_session(connection, _digest(secret))
    name = cookie_name(request, _NAME)
    response.del_cookie(name, path="/", secure=is_secure(request), samesite="Lax")


def check_same_site(request: web.Request) -> None:
    """Refuse a form that a page of a different origin has sent.

    Browsers state the site of a form, or else the origin. `CONCORD_CORS_ORIGINS`, which lets pages
    of other origins write by the API, does not open the console.

    Raises:
        OriginRefused
    """
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get(hdrs.ORIGIN)
    own = str(_base(request).origin())
    if site == "same-origin" or (site is None and origin == own):
        return
    raise OriginRefused(
        request.path,
        origin=(origin or site or "none")[:256],
        detail="A form of the console is sent by a page of the console only.",
    )


def _secret_in(request: web.Request) -> str | None:
    secret = request.cookies.get(cookie_name(request, _NAME), "")
    return secret if _FORM.fullmatch(secret) else None


def cookie_name(request: web.Request, name: str) -> str:
    """The name of a cookie, with an unusual port: nodes at ports of a host share its cookies."""
    base = _base(request)
    name = name if base.is_default_port() else f"{name}-{base.port}"
    return f"__Host-{name}" if is_secure(request) else name


def is_secure(request: web.Request) -> bool:
    """Whether the browser reaches the node over TLS, and keeps its cookies from other ways."""
    return _base(request).scheme == "https"


def _base(request: web.Request) -> URL:
    return URL(request[CONTEXT].base_url(request))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _place_of(secret: str) -> SecretPlace:
    return SecretPlace("console_sessions", _digest(secret).hex(), "token")


def _sealed(secret: str, tokens: ProviderTokens) -> bytes:
    texts = orjson.dumps([tokens.access, tokens.refresh, tokens.expiresat])
    return _keys_of(secret).seal(texts, _place_of(secret))


def _opened(secret: str, sealed: bytes) -> ProviderTokens:
    texts = _keys_of(secret).open(sealed, _place_of(secret))
    access, refresh, expiresat = orjson.loads(texts)
    return ProviderTokens(access=access, refresh=refresh, expiresat=expiresat)


def _keys_of(secret: str) -> KeyRing:
    key = EncryptionKey.of(hashlib.sha256(b"concord console session\n" + secret.encode()).digest())
    return KeyRing(lambda: (key,))
