"""What changed, when and by whom: `GET /-/changes`, and one change with its difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aiohttp import web

from catalog.api.contents import knowledge_of, with_small_document
from catalog.api.diff import compare
from catalog.context import CONTEXT
from catalog.http.flags import page_limit
from catalog.http.route import Route, model_response
from catalog.http.stream import in_search_time
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.operations.changes import (
    LIST_CHANGES,
    READ_CHANGE,
    CatalogChangesQuery,
    ChangeAnswer,
    ChangeAuthor,
    ChangeEntry,
    ChangesAnswer,
)
from catalog.store.changes import Position
from catalog.store.database import Connection
from catalog.store.revisions import (
    ContentPurged,
    ToldChange,
    WantedChanges,
    content_after,
    content_before,
    read_change,
    read_newest_changes,
)

_END = Position.end_of(2**63 - 1)
_ADVICE = "Name a path, or a later time (`since`)."


async def list_changes(request: web.Request, query: CatalogChangesQuery) -> web.Response:
    """List changes of the catalog, the newest first, with their authors if the caller may know."""
    path = query.path and (query.path.rstrip("/") or "/")
    if path is not None and not path.startswith("/"):
        raise BadRequest(request.path, error_detail='"path" needs to begin with a slash')
    wanted = WantedChanges(
        path=path,
        since=query.since,
        until=query.until,
        who=query.who,
        authority=query.authority,
        interaction=query.interaction,
        parents=query.parents,
    )
    entries, headers = await page_of_changes(request, wanted, query.before, query.limit)
    return model_response(ChangesAnswer(changes=entries), headers=headers)


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
    url = request.rel_url.update_query({"limit": str(most), "before": entries[-1].sequence})
    return entries, {"Link": f"<{context.base_url(request)}{url}>;rel=next"}


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
    change = told.change
    return ChangeEntry.model_validate(
        {
            "sequence": str(told.position),
            "time": told.at,
            "xid": change.xid,
            "kind": change.kind,
            "action": change.action,
            "epoch": change.epoch,
            "changed": list(change.changed),
            "who": told.who and ChangeAuthor.model_validate(told.who),
            "authority": change.authority,
            "origin": change.origin,
            "interaction": told.interaction,
            "content": told.content,
        }
    )


async def get_change(request: web.Request) -> ChangeAnswer:
    """Show one change, with what was different before and after it."""
    context = request[CONTEXT]
    position = position_of(request, request.match_info["sequence"])
    known = await knowledge_of(request)
    async with context.database.snapshot() as connection:
        told = await read_change(connection, position, known)
        if told is None or told.change.action in ("signed", "handed"):
            raise NotFound(request.path)
        contents = await _contents(connection, told)
    if contents is None:
        return ChangeAnswer(change=entry_of(told))
    older, newer = contents
    return ChangeAnswer(change=entry_of(told), difference=await compare(context, older, newer))


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


routes: Sequence[Route] = (Route(LIST_CHANGES, list_changes), Route(READ_CHANGE, get_change))
