"""Changes with their authors (`/-/changes`), and the contents of entities (`/-/revisions`)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace

from aiohttp import web

from catalog.access.identity import identity_of
from catalog.api.diff import (
    compare,
    content_at,
    knowledge_of,
    stored_xid,
    with_small_document,
    xid_of,
)
from catalog.context import CONTEXT
from catalog.http.flags import next_page, page_limit
from catalog.http.route import Route, model_response
from catalog.http.stream import in_search_time
from catalog.model.caller import EVERYTHING
from catalog.model.change import UNTOLD
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.roles import Permission
from catalog.operations import changes as declared
from catalog.operations.changes import ChangeEntry, RevisionAnswer
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.entities import load
from catalog.store.revisions import (
    ContentPurged,
    ToldChange,
    WantedChanges,
    content_after,
    content_before,
    purge,
    read_change,
    read_newest_changes,
)
from catalog.writing.writescope import check_writes

_END = Position.end_of(2**63 - 1)
_OF_CHANGE = ("xid", "kind", "action", "epoch", "changed", "authority", "origin")
_ADVICE = "Name a path, or a later time (`since`)."
_MOST_DIGITS = 18
_UNREACHED = (
    "the copies at catalogs that follow this one, and their revisions: purge there, too",
    "events that were delivered, and topics of copies",
    "conflicts, handovers and dead letters that are waiting",
    "backups and the files of PostgreSQL, until it has written over them (VACUUM)",
)


async def list_changes(request: web.Request, query: declared.CatalogChangesQuery) -> web.Response:
    """List changes of the catalog, the newest first, with their authors if the caller may know."""
    path = query.path and (query.path.rstrip("/") or "/")
    if path is not None and not path.startswith("/"):
        raise BadRequest(request.path, error_detail='"path" needs to begin with a slash')
    conditions = query.model_dump(exclude={"path", "before", "limit"})
    wanted = WantedChanges(path=path, **conditions)
    entries, headers = await page_of_changes(request, wanted, query.before, query.limit)
    return model_response(declared.ChangesAnswer(changes=entries), headers=headers)


async def page_of_changes(
    request: web.Request, wanted: WantedChanges, before: str | None, limit: int | None
) -> tuple[list[ChangeEntry], dict[str, str]]:
    """A page of changes, and the header that leads to the next page.

    Raises:
        BadRequest: `before` is no position.
    """
    most, known = page_limit(request, limit), await knowledge_of(request)
    place = _END if before is None else position_of(request, before)
    context = request[CONTEXT]
    async with in_search_time(request, _ADVICE), context.database.acquire() as connection:
        found = await read_newest_changes(connection, wanted, known, place, most + 1)
    entries = [entry_of(each) for each in found[:most]]
    if len(found) <= most:
        return entries, {}
    return entries, next_page(request, limit=most, before=entries[-1].sequence)


def position_of(request: web.Request, text: str) -> Position:
    """Read the place of a change.

    Raises:
        BadRequest
    """
    try:
        return Position.parse(text)
    except ValueError as error:
        fault = f'"{text[:100]}" is not the sequence of a change'
        raise BadRequest(request.path, error_detail=fault) from error


def entry_of(told: ToldChange) -> ChangeEntry:
    """A change in the form of answers."""
    shown = {name: getattr(told.change, name) for name in _OF_CHANGE}
    place = {"sequence": str(told.position), "time": told.at, "interaction": told.interaction}
    known = {"who": told.who, "content": told.content}
    return ChangeEntry.model_validate({**shown, **place, **known})


async def get_change(request: web.Request) -> declared.ChangeAnswer:
    """Show one change, with what was different before and after it."""
    context = request[CONTEXT]
    position = position_of(request, request.match_info["sequence"])
    known = await knowledge_of(request)
    async with context.database.snapshot() as connection:
        told = await read_change(connection, position, known)
        if told is None or told.change.action in UNTOLD:
            raise NotFound(request.path)
        contents = await _contents(connection, told)
    if contents is None:
        return declared.ChangeAnswer(change=entry_of(told))
    older, newer = contents
    return declared.ChangeAnswer(
        change=entry_of(told), difference=await compare(context, older, newer)
    )


async def _contents(connection: Connection, told: ToldChange) -> tuple[Entity, Entity] | None:
    """The contents before and after a change; nothing is an entity without attributes."""
    try:
        older = await content_before(connection, told)
        newer = await content_after(connection, told)
    except ContentPurged:
        return None
    if told.change.action == "created" and newer is not None:
        older = _nothing_like(newer, 0)
    if told.change.action == "deleted" and older is not None:
        newer = _nothing_like(older, told.change.epoch)
    if older is None or newer is None:
        return None
    return with_small_document(older), with_small_document(newer)


def _nothing_like(entity: Entity, epoch: int) -> Entity:
    return replace(entity, epoch=epoch, attributes={}, document=None, document_sha256=None)


async def list_revisions(request: web.Request, query: declared.RevisionsQuery) -> web.Response:
    """List the changes that made the contents of an entity, the newest first."""
    async with request[CONTEXT].database.acquire() as connection:
        of = await stored_xid(request, connection, query.of)
    wanted = WantedChanges(path=of, exactly=True, parents=True)
    entries, headers = await page_of_changes(request, wanted, query.before, query.limit)
    return model_response(declared.RevisionsAnswer(of=of, revisions=entries), headers=headers)


async def get_revision(request: web.Request, query: declared.RevisionQuery) -> RevisionAnswer:
    """Show the content that an entity had at an epoch."""
    text = request.match_info["epoch"]
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise BadRequest(request.path, error_detail=f'"{text[:50]}" is not an epoch')
    known = await knowledge_of(request)
    async with request[CONTEXT].database.snapshot() as connection:
        of = await stored_xid(request, connection, query.of)
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


async def purge_revisions(request: web.Request, query: declared.PurgeQuery) -> declared.PurgeAnswer:
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
    return declared.PurgeAnswer(of=path, purged=purged, isheld=is_held, unreached=list(_UNREACHED))


routes: Sequence[Route] = (
    Route(declared.LIST_CHANGES, list_changes),
    Route(declared.READ_CHANGE, get_change),
    Route(declared.LIST_REVISIONS, list_revisions),
    Route(declared.READ_REVISION, get_revision),
    Route(declared.PURGE_REVISIONS, purge_revisions),
)
