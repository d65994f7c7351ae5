"""The middleware that decides about every request: who sends it, and whether that caller may."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import IDENTITY, demand
from catalog.access.routeneeds import Anyone, need_of
from catalog.model.visibility import visibility
from catalog.model.writescope import writescope


@web.middleware
async def access_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request pass whose caller has the permission that its path and method need.

    A credential that is shown has to be valid even where none is needed, but for paths that do not
    ask: those of probes and of others' events. What the handler reads is what the caller may see,
    and what it writes has to be what the caller may write.
    """
    authentication = request.app[AUTHENTICATION]
    if authentication.is_open:
        return await handler(request)
    need = need_of(request)
    if need is Anyone.UNASKED:
        return await handler(request)
    identity = await authentication.identify(request)
    if need not in identity.permissions:
        identity = await authentication.with_rules(identity)
    request[IDENTITY] = identity
    if not isinstance(need, Anyone):
        demand(request, need)
    # The requests of one connection share a task, and so its context.
    seen, written = visibility.set(identity.visibility), writescope.set(identity.writescope)
    try:
        return await handler(request)
    finally:
        visibility.reset(seen)
        writescope.reset(written)
