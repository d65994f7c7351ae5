"""Answers reads of the Message Catalog API (message catalog, 4.2 to 4.4)."""

from __future__ import annotations

from urllib.parse import quote

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.dialects.messagecatalog.address import (
    GROUP_MESSAGES,
    MESSAGE_GROUPS,
    definition_in,
    group_in,
    has_groups,
    message_type,
    version_in,
)
from catalog.dialects.messagecatalog.events import is_number
from catalog.dialects.messagecatalog.load import find
from catalog.dialects.messagecatalog.translate import show_group, show_version
from catalog.http.paging import read_page
from catalog.http.responses import json_response
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.versions import Lineage, newest
from catalog.model.xid import Xid
from catalog.reading import read
from catalog.reading.loaded import Loaded
from catalog.store.database import Connection

_LONGEST_URI = 4096


async def list_groups(request: web.Request) -> web.Response:
    """The ids of the message definition groups."""
    if not has_groups(request.app[CONTEXT].model):
        return json_response([])
    return await _list(request, Xid(), MESSAGE_GROUPS)


async def get_group(request: web.Request) -> web.Response:
    """A message definition group."""
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        return await read_group(request, connection)


async def read_group(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a group.

    Raises:
        NotFound
    """
    context = request.app[CONTEXT]
    xid = group_in(request, context)
    known = await read.read_entity(connection, context.model, xid)
    return json_response(show_group(known.entities[str(xid)]))


async def list_definitions(request: web.Request) -> web.Response:
    """The ids of a group's message definitions."""
    return await _list(request, group_in(request, request.app[CONTEXT]), GROUP_MESSAGES)


async def get_definition(request: web.Request) -> web.Response:
    """The latest version of a message definition."""
    async with request.app[CONTEXT].database.snapshot() as connection:
        return await read_definition(request, connection)


async def read_definition(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a definition.

    Raises:
        NotFound
    """
    context = request.app[CONTEXT]
    xid = definition_in(request, context)
    known = await read.read_entity(connection, context.model, xid)
    resource = known.entities[str(xid)]
    latest = await latest_version(connection, context, known, resource)
    if latest is None:
        raise NotFound(request.path)
    return _answer(context, latest, resource)


async def list_versions(request: web.Request) -> web.Response:
    """The numbers of a message definition's versions; ids that are none are left out."""
    context = request.app[CONTEXT]
    xid = definition_in(request, context)
    async with context.database.pool.acquire() as connection:
        _, xids = await read.read_page(connection, context.model, xid, "versions", "", None)
    ids = (Xid.parse(version).vid for version in xids)
    return json_response(sorted(int(vid) for vid in ids if is_number(vid)))


async def get_version(request: web.Request) -> web.Response:
    """One version of a message definition."""
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        return await read_version(request, connection)


async def read_version(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a version.

    Raises:
        NotFound
    """
    context = request.app[CONTEXT]
    xid = version_in(request, context)
    known = await read.read_entity(connection, context.model, xid)
    return _answer(context, known.entities[str(xid)], known.entities[str(xid.resource)])


async def find_definition(request: web.Request) -> web.Response:
    """The message definition version that a URI identifies, wherever it is from."""
    context = request.app[CONTEXT]
    message_type(request, context.model)
    uris = request.query.getall("uri", [])
    if len(uris) != 1 or not 0 < len(uris[0]) <= _LONGEST_URI:
        raise BadRequest(
            request.path,
            error_detail=f'"uri" is needed once, with a URI of up to {_LONGEST_URI} characters',
        )
    roots = {context.base_url(request), context.public_base}
    async with context.database.snapshot() as connection:
        known, xid = await find(connection, context, uris[0], roots)
        resource = known.entities.get(str(xid.resource))
        version = known.entities.get(str(xid))
        if resource is not None and not xid.vid:
            version = await latest_version(connection, context, known, resource)
    if version is None or resource is None:
        raise NotFound(request.path, detail="No definition here is known by this URI.")
    return _answer(context, version, resource)


async def latest_version(
    connection: Connection, context: Context, known: Loaded, resource: Entity
) -> Entity | None:
    """The newest version, which another one may stand in for natively (2.2)."""
    if not resource.attributes.get("defaultversionsticky"):
        return known.default_of(resource)
    versions = await all_versions(connection, context, resource.path)
    return versions[0] if versions else None


async def all_versions(connection: Connection, context: Context, xid: Xid) -> list[Entity]:
    """Every version of a message: the newest one, then the others by age."""
    known, xids = await read.read_page(connection, context.model, xid, "versions", "", None)
    kind = context.model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES)
    versions = [known.entities[one] for one in xids]
    lines = map(_lineage, versions)
    latest = newest(lines, kind.versionmode if kind is not None else "manual")
    if latest is None:
        return []
    return sorted(
        versions,
        key=lambda one: (one.path.vid == latest.vid, one.createdat, one.path.vid),
        reverse=True,
    )


def _lineage(version: Entity) -> Lineage:
    return Lineage(
        vid=version.path.vid,
        ancestor=version.attributes.get("ancestorid", version.path.vid),
        createdat=version.createdat,
        modifiedat=version.modifiedat,
    )


async def _list(request: web.Request, owner: Xid, plural: str) -> web.Response:
    context = request.app[CONTEXT]
    after, limit = read_page(request)
    async with context.database.pool.acquire() as connection:
        _, xids = await read.read_page(connection, context.model, owner, plural, after, limit + 1)
    ids = [Xid.parse(xid).id for xid in xids]
    return json_response(ids[:limit], headers=_next(request, context, ids, limit))


def _next(request: web.Request, context: Context, ids: list[str], limit: int) -> dict[str, str]:
    """Where the next page is, as native collections say it."""
    if len(ids) <= limit:
        return {}
    query = f"limit={limit}&after={quote(ids[limit - 1])}"
    return {"Link": f"<{context.base_url(request)}{request.path}?{query}>;rel=next"}


def _answer(context: Context, version: Entity, resource: Entity) -> web.Response:
    return json_response(show_version(version, resource, context.database.node.authority))
