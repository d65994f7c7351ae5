"""The middleware that decides about every request: who sends it, and whether that caller may."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from catalog.access.audittrail import author_of
from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import IDENTITY, Identity, demand
from catalog.access.routeneeds import Anyone, Need, need_of
from catalog.http.etag import READING
from catalog.model.author import author
from catalog.model.visibility import visibility
from catalog.model.writescope import writescope


@web.middleware
async def access_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request pass whose caller has the permission that its path and method need.

    A credential that is shown has to be valid even where none is needed, but for paths that do not
    ask: those of probes and of others' events. What the handler reads is what the caller may see,
    and what it writes has to be what the caller may write; the caller is the author of that.
    """
    authentication, need = request.app[AUTHENTICATION], need_of(request)
    seen = written = None
    if not authentication.is_open and need is not Anyone.UNASKED:
        identity = await _admit(request, need)
        seen, written = identity.visibility, identity.writescope
    author.set(None if request.method in READING else author_of(request))
    # The requests of one connection share a task, and so its context.
    tokens = visibility.set(seen), writescope.set(written)
    try:
        return await handler(request)
    finally:
        visibility.reset(tokens[0])
        writescope.reset(tokens[1])


async def admit_again(request: web.Request) -> None:
    """Ask anew what the caller of a request that has waited may see, if that is not everything.

    Raises:
        Unauthenticated: its credential is no longer valid.
        Forbidden
    """
    if visibility.get() is not None and not request.app[AUTHENTICATION].is_open:
        visibility.set((await _admit(request, need_of(request))).visibility)


async def _admit(request: web.Request, need: Need) -> Identity:
    """The caller of a request, who has the permission that it needs."""
    authentication = request.app[AUTHENTICATION]
    identity = await authentication.identify(request)
    if need not in identity.permissions:
        identity = await authentication.with_rules(identity)
    request[IDENTITY] = identity
    if not isinstance(need, Anyone):
        demand(request, need)
    return identity
