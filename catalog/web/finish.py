"""Finishes an answer: the headers of every response, before the first byte is sent."""

from __future__ import annotations

from aiohttp import hdrs, web
from multidict import istr

from catalog.access.identity import IDENTITY, Identity
from catalog.access.ratelimits import RATE_HEADERS
from catalog.context import SHARED
from catalog.http.conditions import NEVER_KEPT
from catalog.http.positionwait import READ_AS_OF
from catalog.http.requestchecks import SHOWN_ONLY, TLS_ONLY, share_with_origins
from catalog.http.responses import MORE_HEADERS, POSITION, leave_untyped

REQUEST_HEADER = istr("X-Request-ID")
_SHOWN_ONLY = [(istr(name), value) for name, value in SHOWN_ONLY.items()]
REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)


async def finish(request: web.Request, response: web.StreamResponse) -> None:
    """Complete the headers of an answer, which aiohttp is about to send."""
    shared, headers = request.app[SHARED], response.headers
    # Asking the request for a missing key costs an exception.
    noted = {*request}
    # core/http.md, "xRegistry Root HTTP Header"
    headers.add(hdrs.LINK, f"<{shared.base_url(request)}>;rel=xregistry-root")
    leave_untyped(response)
    if REQUEST_ID in noted:
        headers[REQUEST_HEADER] = request[REQUEST_ID]
    if MORE_HEADERS in noted:
        headers.update(request[MORE_HEADERS])
    if READ_AS_OF in noted:
        headers[POSITION] = request[READ_AS_OF]
    if RATE_HEADERS in noted:
        headers.update(request[RATE_HEADERS])
    if IDENTITY in noted:
        _keep_private(request[IDENTITY], response)
    for name, value in _SHOWN_ONLY:
        headers.setdefault(name, value)
    # A proxy that ends TLS adds the header itself.
    if request.secure:
        headers.setdefault(*TLS_ONLY)
    share_with_origins(request, response, shared.settings.cors_origins)
    if not request.content.is_eof():
        # The rest of a refused body is not read, so that no request can follow on the connection.
        headers[hdrs.CONNECTION] = "close"
        response.force_close()


def _keep_private(identity: Identity, response: web.StreamResponse) -> None:
    """Let a shared cache keep only answers to requests without a credential.

    `Vary` keeps a cached answer from requests with a credential (RFC 9110, 12.5.5).
    """
    headers = response.headers
    headers.add(hdrs.VARY, hdrs.AUTHORIZATION)
    rule = headers.get(hdrs.CACHE_CONTROL)
    if identity.kind != "anonymous" and rule != NEVER_KEPT:
        headers[hdrs.CACHE_CONTROL] = "private" if rule is None else f"private, {rule}"
