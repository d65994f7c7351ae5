"""Sessions of readers: a cookie names a session, and the node keeps the session's token.

The cookie holds a random secret. The database holds the digest of the secret, and the token sealed
by a key that is derived from the secret: neither alone reveals the token. Every process of a node
knows every session. A session ends with its token, since each request of the session is one of the
token.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from datetime import UTC, datetime

from aiohttp import hdrs, web
from yarl import URL

from catalog.config.settings import is_loopback
from catalog.context import CONTEXT
from catalog.keys.keyring import EncryptionKey, KeyRing, SecretPlace
from catalog.model.concorderrors import OriginRefused
from catalog.store.consolesessions import (
    LONGEST,
    add_session,
    find_session,
    is_open,
    remove_session,
)

_FORM = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_NAME = "concord"


def is_private(request: web.Request) -> bool:
    """Whether nobody on the way can read the requests of a session: TLS, or this machine alone."""
    base = _base(request)
    return base.scheme == "https" or is_loopback(base.host or "")


async def begin_session(request: web.Request, response: web.StreamResponse, token: str) -> None:
    """Begin a session with a token that the node accepts, and end the session before."""
    await end_session(request, response)
    secret = secrets.token_urlsafe(32)
    sealed = _keys_of(secret).seal(token.encode(), _place_of(secret))
    async with request[CONTEXT].database.transaction() as connection:
        await add_session(connection, _digest(secret), sealed, datetime.now(UTC))
    response.set_cookie(
        cookie_name(request, _NAME),
        secret,
        max_age=int(LONGEST.total_seconds()),
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
        sealed = await find_session(connection, _digest(secret), datetime.now(UTC))
    if sealed is None:
        return None
    return _keys_of(secret).open(sealed, _place_of(secret)).decode()


async def has_session(request: web.Request) -> bool:
    """Whether the session of a request has not ended; the question does not count as a use."""
    secret = _secret_in(request)
    if secret is None:
        return False
    async with request[CONTEXT].database.acquire() as connection:
        return await is_open(connection, _digest(secret), datetime.now(UTC))


async def end_session(request: web.Request, response: web.StreamResponse) -> None:
    """End the session of a request, if the request has one."""
    secret = _secret_in(request)
    if secret is None:
        return
    async with request[CONTEXT].database.transaction() as connection:
        await remove_session(connection, _digest(secret))
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


def _keys_of(secret: str) -> KeyRing:
    key = EncryptionKey.of(hashlib.sha256(b"concord console session\n" + secret.encode()).digest())
    return KeyRing(lambda: (key,))
