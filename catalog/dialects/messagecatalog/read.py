"""Loads groups, definitions and versions, and answers GET (message catalog, 2.2 and 4.2 to 4.4)."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.dialects.handlers import next_link
from catalog.dialects.messagecatalog import uris
from catalog.dialects.messagecatalog.translate import authority_of, show_group, show_version
from catalog.dialects.versionnumbers import is_number
from catalog.http.flags import read_page
from catalog.http.responses import json_response
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, NotFound
from catalog.model.versions import Lineage, newest
from catalog.model.xid import Xid
from catalog.reading import entities
from catalog.reading.entities import Loaded
from catalog.reading.find import find_page
from catalog.store import entities as store
from catalog.store import linksources
from catalog.store.database import Connection

_LONGEST_URI = 4096


async def latest_version(
    connection: Connection, context: Context, loaded: Loaded, resource: Entity
) -> Entity | None:
    """The newest version of a definition, which may differ from the native default (2.2)."""
    # A default version that is not sticky is the newest version.
    if not resource.attributes.get("defaultversionsticky"):
        return loaded.default_of(resource)
    versions = await all_versions(connection, context, resource.path)
    return versions[0] if versions else None


async def all_versions(connection: Connection, context: Context, xid: Xid) -> list[Entity]:
    """The versions of a definition: the newest version, then the rest by time of creation."""
    page = await find_page(connection, xid, "versions", limit=None)
    loaded = await entities.read_members(connection, context.model, xid, page.xids)
    kind = context.model.resource_type(uris.MESSAGE_GROUPS, uris.GROUP_MESSAGES)
    versions = [loaded.entities[one] for one in page.xids]
    latest = newest(map(_lineage, versions), kind.versionmode if kind is not None else "manual")
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


async def find_by_uri(
    connection: Connection, context: Context, uri: str, bases: Collection[str]
) -> tuple[Entity, Entity] | None:
    """The version and definition of a URI; the latest version if the URI names no version.

    Args:
        bases: the URLs of the node's root.
    """
    reference = uris.parse_uri(uri)
    if reference is None:
        return None
    node = context.database.node.authority
    own = {f"{base.rstrip('/')}{uris.CATALOG_ROOT}" for base in bases} | {node}
    authorities = {reference.authority}
    if reference.authority.endswith(uris.CATALOG_ROOT) and reference.authority not in own:
        # A link's source without a public URL is the authority `urn:uuid:…`, but gives out URLs.
        root = reference.authority.removesuffix(uris.CATALOG_ROOT)
        found = await linksources.authorities_at(connection, root)
        authorities |= {uris.catalog_root(authority).rstrip("/") for authority in found}
    for xid in await _candidates(connection, reference):
        loaded = await entities.read_entities(connection, context.model, [xid])
        resource, entity = loaded.entities.get(str(xid.resource)), loaded.entities.get(str(xid))
        if resource is None or entity is None:
            continue
        version = entity if xid.vid else loaded.default_of(resource)
        if version is None:
            continue
        authority = authority_of(version, node)
        is_meant = (
            reference.authority in own
            if authority is None
            else authority.rstrip("/") in authorities
        )
        if is_meant and not xid.vid:
            version = await latest_version(connection, context, loaded, resource)
        if is_meant:
            return None if version is None else (version, resource)
    return None


async def _candidates(connection: Connection, reference: uris.DefinitionUri) -> list[Xid]:
    """The entities with the URI's path at the authority, regardless of the path here."""
    if reference.group:
        xid = Xid(uris.MESSAGE_GROUPS, reference.group, uris.GROUP_MESSAGES, reference.definition)
        at_authority = str(xid.version(reference.vid) if reference.vid else xid)
        found = await store.load_by_path_at_authority(connection, at_authority)
        return [one.path for one in found]
    groups = await store.load_ids(connection, f"/{uris.MESSAGE_GROUPS}")
    xids = [
        str(Xid(uris.MESSAGE_GROUPS, id, uris.GROUP_MESSAGES, reference.definition))
        for id in groups
    ]
    return [Xid.parse(xid) for xid in sorted(await store.load(connection, xids))]


async def list_groups(request: web.Request) -> web.Response:
    """The ids of the message definition groups."""
    if not uris.has_definitions(request[CONTEXT].model):
        return json_response([])
    return await _list(request, Xid(), uris.MESSAGE_GROUPS)


async def get_group(request: web.Request) -> web.Response:
    """A message definition group."""
    async with request[CONTEXT].database.acquire() as connection:
        return await read_group(request, connection)


async def read_group(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a group; raises `NotFound`."""
    model = request[CONTEXT].model
    xid = uris.group_in(request, model)
    loaded = await entities.read_entity(connection, model, xid)
    return json_response(show_group(loaded.entities[str(xid)]))


async def list_definitions(request: web.Request) -> web.Response:
    """The ids of a group's message definitions."""
    return await _list(request, uris.group_in(request, request[CONTEXT].model), uris.GROUP_MESSAGES)


async def _list(request: web.Request, owner: Xid, plural: str) -> web.Response:
    context = request[CONTEXT]
    after, limit = read_page(request)
    async with context.database.acquire() as connection:
        page = await find_page(connection, owner, plural, after=after, limit=limit)
    ids = [Xid.parse(xid).id for xid in page.xids]
    return json_response(ids, headers=next_link(request, page.following, limit))


async def get_definition(request: web.Request) -> web.Response:
    """The latest version of a message definition."""
    async with request[CONTEXT].database.snapshot() as connection:
        return await read_definition(request, connection)


async def read_definition(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a definition; raises `NotFound`."""
    context = request[CONTEXT]
    xid = uris.definition_in(request, context.model)
    loaded = await entities.read_entity(connection, context.model, xid)
    resource = loaded.entities[str(xid)]
    latest = await latest_version(connection, context, loaded, resource)
    if latest is None:
        raise NotFound(request.path)
    return _answer(context, latest, resource)


async def list_versions(request: web.Request) -> web.Response:
    """The numbers of a message definition's versions; ids that are none are left out."""
    context = request[CONTEXT]
    xid = uris.definition_in(request, context.model)
    async with context.database.acquire() as connection:
        page = await find_page(connection, xid, "versions", limit=None)
    ids = (Xid.parse(version).vid for version in page.xids)
    return json_response(sorted(int(vid) for vid in ids if is_number(vid)))


async def get_version(request: web.Request) -> web.Response:
    """One version of a message definition."""
    async with request[CONTEXT].database.acquire() as connection:
        return await read_version(request, connection)


async def read_version(request: web.Request, connection: Connection) -> web.Response:
    """The answer to a GET of a version; raises `NotFound`."""
    context = request[CONTEXT]
    xid = uris.version_in(request, context.model)
    loaded = await entities.read_entity(connection, context.model, xid)
    return _answer(context, loaded.entities[str(xid)], loaded.entities[str(xid.resource)])


async def find_definition(request: web.Request) -> web.Response:
    """The message definition version that a URI identifies, whichever its authority is."""
    context = request[CONTEXT]
    uris.check_has_definitions(request, context.model)
    given = request.query.getall("uri", [])
    if len(given) != 1 or not 0 < len(given[0]) <= _LONGEST_URI:
        detail = f'"uri" is needed once, with a URI of up to {_LONGEST_URI} characters'
        raise BadRequest(request.path, error_detail=detail)
    bases = {context.base_url(request), context.public_base}
    async with context.database.snapshot() as connection:
        found = await find_by_uri(connection, context, given[0], bases)
    if found is None:
        raise NotFound(request.path, detail="No definition here is known by this URI.")
    return _answer(context, *found)


def _answer(context: Context, version: Entity, resource: Entity) -> web.Response:
    return json_response(show_version(version, resource, context.database.node.authority))
