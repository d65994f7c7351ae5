"""Keeps the answers of one caller from others whose requests pass the same cache."""

from __future__ import annotations

from aiohttp import hdrs, web

from catalog.access.identity import IDENTITY
from catalog.http.etag import NEVER_KEPT


def keep_private(request: web.Request, response: web.StreamResponse) -> None:
    """Let a cache that is shared keep only what a request without a credential is told.

    Also that one is only for others without one (RFC 9110, 12.5.5).
    """
    identity = request.get(IDENTITY)
    if identity is None:
        return
    headers = response.headers
    headers.add(hdrs.VARY, hdrs.AUTHORIZATION)
    if identity.kind == "anonymous" or headers.get(hdrs.CACHE_CONTROL) == NEVER_KEPT:
        return
    rule = headers.get(hdrs.CACHE_CONTROL)
    headers[hdrs.CACHE_CONTROL] = "private" if rule is None else f"private, {rule}"
