"""The contents that entities had: `GET /-/revisions`, and `DELETE` for a secret among them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from aiohttp import web

from catalog.access.identity import identity_of
from catalog.api.changes import entry_of, page_of_changes
from catalog.api.contents import content_at, knowledge_of, stored_xid, xid_of
from catalog.context import CONTEXT
from catalog.http.route import Route, model_response
from catalog.model.caller import EVERYTHING
from catalog.model.errors import BadRequest
from catalog.model.roles import Permission
from catalog.operations.revisions import (
    LIST_REVISIONS,
    PURGE_REVISIONS,
    READ_REVISION,
    PurgeAnswer,
    PurgeQuery,
    RevisionAnswer,
    RevisionQuery,
    RevisionsAnswer,
    RevisionsQuery,
)
from catalog.store.entities import load
from catalog.store.revisions import WantedChanges, purge
from catalog.writing.permission import check_writes

_MOST_DIGITS = 18
_UNREACHED = (
    "the copies at catalogs that follow this one, and their revisions: purge there, too",
    "events that were delivered, and topics of copies",
    "conflicts, handovers and dead letters that are waiting",
    "backups and the files of PostgreSQL, until it has written over them (VACUUM)",
)


async def list_revisions(request: web.Request, query: RevisionsQuery) -> web.Response:
    """List the changes that made the contents of an entity, the newest first."""
    xid, is_meta = xid_of(request, query.of)
    async with request[CONTEXT].database.acquire() as connection:
        of = await stored_xid(connection, xid, is_meta=is_meta)
    wanted = WantedChanges(path=of, exactly=True, parents=True)
    entries, headers = await page_of_changes(request, wanted, query.before, query.limit)
    return model_response(RevisionsAnswer(of=of, revisions=entries), headers=headers)


async def get_revision(request: web.Request, query: RevisionQuery) -> RevisionAnswer:
    """Show the content that an entity had at an epoch."""
    text = request.match_info["epoch"]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadRequest(request.path, error_detail=f'"{text[:50]}" is not an epoch')
    xid, is_meta = xid_of(request, query.of)
    known = await knowledge_of(request)
    async with request[CONTEXT].database.snapshot() as connection:
        of = await stored_xid(connection, xid, is_meta=is_meta)
        entity, told = await content_at(connection, of, int(text), known)
    return RevisionAnswer(
        of=of,
        epoch=int(text),
        change=None if told is None else entry_of(told),
        createdat=entity.createdat,
        modifiedat=entity.modifiedat,
        attributes=dict(entity.attributes),
        **_shown(entity.document),
    )


def _shown(document: bytes | None) -> dict[str, str]:
    if document is None:
        return {}
    try:
        return {"document": document.decode()}
    except UnicodeDecodeError:
        return {"documentbase64": b64encode(document).decode()}


async def purge_revisions(request: web.Request, query: PurgeQuery) -> PurgeAnswer:
    """Empty the former contents of an entity, and of all below it."""
    xid, _ = xid_of(request, query.of)
    context, path = request[CONTEXT], str(xid)
    async with context.database.transaction() as connection:
        scope = identity_of(request).scope_of(Permission.GRANT)
        if scope is not EVERYTHING:
            await check_writes(connection, scope, [path])
        purged = await purge(connection, path)
        is_held = bool(await load(connection, [path]))
        context.caller.author.name_target(path)
    return PurgeAnswer(of=path, purged=purged, isheld=is_held, unreached=list(_UNREACHED))


routes: Sequence[Route] = (
    Route(LIST_REVISIONS, list_revisions),
    Route(READ_REVISION, get_revision),
    Route(PURGE_REVISIONS, purge_revisions),
)
