"""Handlers of GET: groups, definitions and their versions (message catalog, 4.2 to 4.4)."""

from __future__ import annotations

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.dialects.handlers import next_link
from catalog.dialects.messagecatalog.address import (
    check_has_definitions,
    definition_in,
    group_in,
    has_definitions,
    version_in,
)
from catalog.dialects.messagecatalog.load import find_by_uri, latest_version
from catalog.dialects.messagecatalog.translate import show_group, show_version
from catalog.dialects.messagecatalog.uris import GROUP_MESSAGES, MESSAGE_GROUPS
from catalog.dialects.versionnumbers import is_number
from catalog.http.flags import read_page
from catalog.http.responses import json_response
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.store.database import Connection

_LONGEST_URI = 4096


async def list_groups(request: web.Request) -> web.Response:
    """The ids of the message definition groups."""
    if not has_definitions(request[CONTEXT].model):
        return json_response([])
    return await _list(request, Xid(), MESSAGE_GROUPS)


async def get_group(request: web.Request) -> web.Response:
    """A message definition group."""
    async with request[CONTEXT].database.acquire() as connection:
        return await read_group(request, connection)


async def read_group(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a group; raises `NotFound`."""
    model = request[CONTEXT].model
    xid = group_in(request, model)
    loaded = await entities.read_entity(connection, model, xid)
    return json_response(show_group(loaded.entities[str(xid)]))


async def list_definitions(request: web.Request) -> web.Response:
    """The ids of a group's message definitions."""
    return await _list(request, group_in(request, request[CONTEXT].model), GROUP_MESSAGES)


async def _list(request: web.Request, owner: Xid, plural: str) -> web.Response:
    context = request[CONTEXT]
    after, limit = read_page(request)
    async with context.database.acquire() as connection:
        _, xids, has_more = await entities.read_page(
            connection, context.model, owner, plural, after, limit
        )
    ids = [Xid.parse(xid).id for xid in xids]
    last = ids[-1] if has_more else ""
    return json_response(ids, headers=next_link(request, last, limit))


async def get_definition(request: web.Request) -> web.Response:
    """The latest version of a message definition."""
    async with request[CONTEXT].database.snapshot() as connection:
        return await read_definition(request, connection)


async def read_definition(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a definition; raises `NotFound`."""
    context = request[CONTEXT]
    xid = definition_in(request, context.model)
    loaded = await entities.read_entity(connection, context.model, xid)
    resource = loaded.entities[str(xid)]
    latest = await latest_version(connection, context, loaded, resource)
    if latest is None:
        raise NotFound(request.path)
    return _answer(context, latest, resource)


async def list_versions(request: web.Request) -> web.Response:
    """The numbers of a message definition's versions; ids that are none are left out."""
    context = request[CONTEXT]
    xid = definition_in(request, context.model)
    async with context.database.acquire() as connection:
        _, xids, _ = await entities.read_page(connection, context.model, xid, "versions", "", None)
    ids = (Xid.parse(version).vid for version in xids)
    return json_response(sorted(int(vid) for vid in ids if is_number(vid)))


async def get_version(request: web.Request) -> web.Response:
    """One version of a message definition."""
    async with request[CONTEXT].database.acquire() as connection:
        return await read_version(request, connection)


async def read_version(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a version; raises `NotFound`."""
    context = request[CONTEXT]
    xid = version_in(request, context.model)
    loaded = await entities.read_entity(connection, context.model, xid)
    return _answer(context, loaded.entities[str(xid)], loaded.entities[str(xid.resource)])


async def find_definition(request: web.Request) -> web.Response:
    """The message definition version that a URI identifies, whichever its authority is."""
    context = request[CONTEXT]
    check_has_definitions(request, context.model)
    uris = request.query.getall("uri", [])
    if len(uris) != 1 or not 0 < len(uris[0]) <= _LONGEST_URI:
        detail = f'"uri" is needed once, with a URI of up to {_LONGEST_URI} characters'
        raise BadRequest(request.path, error_detail=detail)
    bases = {context.base_url(request), context.public_base}
    async with context.database.snapshot() as connection:
        found = await find_by_uri(connection, context, uris[0], bases)
    if found is None:
        raise NotFound(request.path, detail="No definition here is known by this URI.")
    return _answer(context, *found)


def _answer(context: Context, version: Entity, resource: Entity) -> web.Response:
    return json_response(show_version(version, resource, context.database.node.authority))
