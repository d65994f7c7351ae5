"""Records the authors of writes and the refused requests in the audit."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import structlog
from aiohttp import hdrs, web

from catalog.access.identity import identity_of
from catalog.context import SHARED, Context
from catalog.http.clientconnections import client_address, source_of
from catalog.model.caller import Author
from catalog.model.errors import ServerBusy, XRegistryError
from catalog.model.masking import described
from catalog.model.refusals import RefusalKind
from catalog.store.auditnotes import note_refusals

_log = structlog.get_logger(__name__)

_REFUSED = frozenset({401, 403, 429})
_METHODS = hdrs.METH_ALL - {"*"}
_PAUSE_SECONDS = 1.0
_LAST_SECONDS = 2.0


def author_of(request: web.Request) -> Author:
    """The author of the changes of a request, after the access control admitted or refused it."""
    identity = identity_of(request)
    return Author(
        kind=identity.kind,
        name=identity.name,
        issuer=identity.issuer,
        address=client_address(request),
        agent=request.headers.get(hdrs.USER_AGENT, ""),
        method=_method_of(request),
        path=request.path,
        is_published=request.app[SHARED].settings.publish_authors,
    )


def _method_of(request: web.Request) -> str:
    return request.method if request.method in _METHODS else "other"


def note_refusal(request: web.Request, error: XRegistryError) -> None:
    """Record a request in the audit if it was refused for lack of permission or for its rate."""
    if error.status not in _REFUSED:
        return
    identity = identity_of(request)
    resource = request.match_info.route.resource
    # Routes and known methods, since invented paths and methods must not add rows at will.
    kind = RefusalKind(
        source=source_of(client_address(request)),
        caller=(identity.kind, identity.name, identity.issuer),
        method=_method_of(request),
        route="" if resource is None else resource.canonical,
        status=error.status,
        reason=error.type.rpartition("#")[2].rpartition(":")[2],
    )
    refusals = request.app[SHARED].refusals
    now = datetime.now(UTC)
    refusals.add(kind, lambda: author_of(request), at=now, now=time.monotonic())


async def run_refusal_notes(context: Context) -> None:
    """Write the refusals of this process to the audit, for ever."""
    while True:
        try:
            await note_refused(context)
        except (ServerBusy, TimeoutError):
            await context.database.recovered()
        await asyncio.sleep(_PAUSE_SECONDS)


async def note_last_refused(app: web.Application) -> None:
    """Write the remaining refusals, after the last request was answered."""
    try:
        async with asyncio.timeout(_LAST_SECONDS):
            await note_refused(app[SHARED].for_node(), all=True)
    except (ServerBusy, TimeoutError) as error:
        _log.warning("the audit lacks the last refusals", error=described(error))


async def note_refused(context: Context, *, all: bool = False) -> None:
    """Write the refusals that are due; with `all`, also the refusals that are not due yet."""
    rows = context.shared.refusals.take(time.monotonic(), all=all)
    if not rows:
        return
    try:
        async with context.database.transaction() as connection:
            await note_refusals(connection, rows)
    except BaseException:
        # A cancellation must not lose the rows either: `note_last_refused` writes them.
        context.shared.refusals.give_back(rows)
        raise
