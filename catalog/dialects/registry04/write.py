"""Handlers of POST and PUT of resources and versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs, web

from catalog.context import CONTEXT
from catalog.dialects.registry04.address import Address, Types, address_of
from catalog.dialects.registry04.answers import is_asked, show_for, version_answer
from catalog.dialects.registry04.attributechecks import (
    check_body,
    resource_attributes,
    without_implied_name,
    without_rivals,
)
from catalog.dialects.registry04.layout import Layout
from catalog.dialects.registry04.load import load_version
from catalog.dialects.registry04.nested import native_document, new_meta
from catalog.dialects.registry04.registryheaders import HEADER_PREFIX, RegistryHeaders, read_headers
from catalog.dialects.registry04.requestcontent import (
    UNUSED_EPOCH,
    apply,
    check_epoch,
    check_identity,
    expected_epoch,
    interaction_at,
    new_id,
    patch_of,
    read_optional_object,
)
from catalog.dialects.registry04.translate import (
    REGISTRY04_ATTRIBUTE,
    Json,
    from_entity,
    shown_of,
    to_entity,
)
from catalog.dialects.registry04.versions import next_version
from catalog.dialects.registry04.wellformed import creation_of
from catalog.http.body import read_body, read_object
from catalog.http.headers import interaction_headers
from catalog.model.entity import Entity
from catalog.model.errors import HeaderError, NotFound
from catalog.model.interaction import GroupUpsert, ResourceUpsert, VersionDocument, VersionUpsert
from catalog.model.ownerrors import AlreadyExists
from catalog.reading.loaded import Loaded
from catalog.store import entities as store

_METADATA = ("name", "description", "tags", "docs", "createdBy", "modifiedBy", "type")
# What only one version has, and no other inherits.
_OF_ONE = frozenset({"ancestorid", "contenttype", REGISTRY04_ATTRIBUTE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a request says of a resource: metadata in headers, and the resource in the body."""

    headers: RegistryHeaders
    body: Json
    document: bytes = b""

    @property
    def said(self) -> Json:
        """What headers and body say, as far as it is metadata."""
        return {**self.headers.given, **self.body}

    @property
    def is_empty(self) -> bool:
        return not self.body and not self.document

    def attributes(self, types: Types, kept: Mapping[str, Any]) -> Json:
        """All attributes, those `kept` among them.

        Raises:
            HeaderError: headers and body do not agree.
        """
        uri = _uri(types)
        if self.headers.given.get(uri) is not None and not self.is_empty:
            raise HeaderError(
                self.headers.path,
                name=HEADER_PREFIX + uri,
                error_detail="the body needs to be empty when the resource is elsewhere",
            )
        if not self.is_empty:
            kept = {name: value for name, value in kept.items() if name != uri}
        return self.headers.merge(kept, self.body)


def _uri(types: Types) -> str:
    return f"{types.resource.singular}URI"


async def _read(request: web.Request, types: Types) -> Content:
    headers = read_headers(request, types.resource.singular)
    if types.has_document:
        return Content(headers=headers, body={}, document=await read_body(request))
    return Content(headers=headers, body=await read_optional_object(request))


async def _load(request: web.Request, place: Address) -> tuple[Loaded, Entity]:
    async with request.app[CONTEXT].database.pool.acquire() as connection:
        return await load_version(connection, place)


async def post_resource(request: web.Request) -> web.Response:
    """Add a resource: its metadata in headers, and itself in the body."""
    context = request.app[CONTEXT]
    group = address_of(request, context.model)
    types = group.types
    content = await _read(request, types)
    rid = new_id(request.path, content.headers.given.get("id"), content.body.get("id"))
    place = Address(types=types, xid=group.xid.child(types.resource.native, rid))
    async with context.database.pool.acquire() as connection:
        found = await store.load(connection, [group.path, place.path])
    if group.path not in found:
        raise NotFound(group.path)
    if place.path in found:
        raise AlreadyExists(place.path)
    merged = content.attributes(types, {})
    native, document = _native(request, place, content, merged, None)
    native |= creation_of(place.path, content.said)
    native["meta"] = {**new_meta(types), "epoch": UNUSED_EPOCH}
    interaction = interaction_at(request, group)
    interaction.put_resource(context.model, place.xid, native, patch=False, document=document)
    headers = interaction_headers(await apply(request, interaction))
    headers[hdrs.LOCATION] = _url(show_for(request), place)
    return await version_answer(request, place, status=201, headers=headers, meta=False)


async def post_version(request: web.Request) -> web.Response:
    """Add a version to a resource; metadata that the request does not name is inherited."""
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    types, show = place.types, show_for(request)
    content = await _read(request, types)
    if "version" in content.headers.given:
        detail = "the server gives new versions their numbers"
        raise HeaderError(request.path, name=f"{HEADER_PREFIX}version", error_detail=detail)
    known, latest = await _load(request, place)
    shown = show.version(latest, types)
    check_identity(place.path, {"id": shown["id"]}, content.headers.given, content.body)
    check_epoch(latest, expected_epoch(request, content.headers.given, content.body))
    merged = content.attributes(types, _inherited(types, show, latest))
    native, document = _native(request, place, content, merged, latest.attributes)
    native = _hidden(types, latest) | native
    vid = await _free_number(request, known, place)
    if vid:
        native["epoch"] = UNUSED_EPOCH
    is_ruled = "compatibility" in known.entities[place.path].attributes
    version = VersionUpsert(vid=vid, body=native, patch=False, document=document)
    meta = None if is_ruled else new_meta(types) or None
    interaction = interaction_at(request, place)
    interaction.groups.append(GroupUpsert(xid=place.xid.group, body=None))
    interaction.resources.append(
        ResourceUpsert(xid=place.xid, patch=True, meta=meta, versions=(version,))
    )
    headers = interaction_headers(await apply(request, interaction, place))
    headers[hdrs.LOCATION] = _url(show, place)
    return await version_answer(request, place, status=201, headers=headers, meta=False)


async def put_resource(request: web.Request) -> web.Response:
    """Update the latest version of a resource, `?meta` its metadata alone."""
    return await _put_version(request)


async def put_version(request: web.Request) -> web.Response:
    """Update a version of a resource, `?meta` its metadata alone."""
    return await _put_version(request)


async def _put_version(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    place = address_of(request, context.model)
    types, show, meta = place.types, show_for(request), is_asked(request, "meta")
    content = await (_read_meta(request, types) if meta else _read(request, types))
    given, body = content.headers.given, content.body
    _, version = await _load(request, place)
    check_identity(place.path, show.version(version, types), given, body)
    document = None
    if meta:
        native = _native_meta(place, show, body, version)
    else:
        merged = content.attributes(types, _inherited(types, show, version))
        native, document = _native(request, place, content, merged, version.attributes)
        native = _absent(types, version) | native
    native |= {
        "epoch": expected_epoch(request, given, body),
        **creation_of(place.path, content.said),
    }
    interaction = interaction_at(request, place)
    resource, vid = place.xid.resource, version.path.vid
    interaction.put_version(context.model, resource, vid, native, patch=True, document=document)
    headers = interaction_headers(await apply(request, interaction, place))
    place = Address(types=types, xid=version.path)
    return await version_answer(request, place, status=200, headers=headers, meta=meta)


async def _read_meta(request: web.Request, types: Types) -> Content:
    """Metadata that is the body, so that it must not be in headers as well."""
    headers = read_headers(request, types.resource.singular)
    for name in (*headers.given, *headers.deleted):
        detail = "metadata is in the body here"
        raise HeaderError(request.path, name=f"{HEADER_PREFIX}{name}", error_detail=detail)
    return Content(headers=headers, body=await read_object(request))


def _url(show: Layout, place: Address) -> str:
    group, resource = place.types.group.plural, place.types.resource.plural
    return f"{show.root}/{group}/{place.xid.gid}/{resource}/{place.xid.rid}"


def _inherited(types: Types, show: Layout, version: Entity) -> Json:
    """What a request keeps that does not mention it.

    Where the resource is a document, that is everything beside it. A definition is its
    attributes, so only the metadata that all entities have is beside it.
    """
    fill = show.fill(types.resource_type.version_attributes)
    own = from_entity(types.resource_kind, version.attributes, fill, show.references)
    uri = _uri(types)
    if not types.has_document:
        return {name: own[name] for name in (*_METADATA, uri) if name in own}
    if (url := version.attributes.get(f"{types.resource_type.singular}url")) is not None:
        own[uri] = url
    return own


def _native(
    request: web.Request,
    place: Address,
    content: Content,
    merged: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> tuple[Json, VersionDocument | None]:
    """The native form of a version whose document, if any, is the body.

    An empty body erases what a document held `before`, and a new version of it has none.
    """
    types, show = place.types, show_for(request)
    own = resource_attributes(types, merged)
    own = without_implied_name(own, place.xid.rid, before)
    check_body(types.resource_kind, place.path, own)
    fill = show.fill(types.resource_type.version_attributes)
    native = to_entity(types.resource_kind, own, before, fill, show.references)
    if not types.has_document:
        return native, None
    if content.document:
        native["contenttype"] = request.headers.get(hdrs.CONTENT_TYPE)
        return native, VersionDocument(body=content.document)
    elsewhere = native_document(types, place.path, merged)
    if elsewhere or before is None:
        return native | elsewhere, None
    return native, VersionDocument(body=None)


def _native_meta(place: Address, show: Layout, body: Mapping[str, Any], version: Entity) -> Json:
    """The patch for what a request says of metadata; null deletes, and all else stays."""
    types = place.types
    definitions = types.resource_type.version_attributes
    said = resource_attributes(types, body)
    shown = from_entity(
        types.resource_kind, version.attributes, show.fill(definitions), show.references
    )
    own = {**without_rivals(types, shown, said), **said}
    own = without_implied_name(own, place.xid.rid, version.attributes)
    check_body(types.resource_kind, place.path, own)
    native = patch_of(types.resource_kind, own, version, show, definitions)
    document = native_document(types, place.path, body)
    if not document and types.has_document and _uri(types) in body:
        document = {types.resource_type.singular: None}
    return native | document


def _absent(types: Types, version: Entity) -> Json:
    """What a version is rid of unless it is written again."""
    shown = shown_of(types.resource_kind, version.attributes) | _OF_ONE - {"ancestorid"}
    return {name: None for name in shown if name in version.attributes}


def _hidden(types: Types, version: Entity) -> Json:
    """What edition 0.4 does not show of a version, and the next one has as well."""
    kind = types.resource_type
    left_out = shown_of(types.resource_kind, version.attributes) | kind.managed | _OF_ONE
    left_out |= {f"{kind.singular}url"}
    return {n: value for n, value in version.attributes.items() if n not in left_out}


async def _free_number(request: web.Request, known: Loaded, place: Address) -> str:
    """The id of the next version; empty where that is the one that the engine will choose.

    The engine takes the lowest number that was never used, so that two requests at once get
    two; only where numbers are missing is it not the largest.
    """
    database = request.app[CONTEXT].database
    async with database.pool.acquire() as connection:
        authority = database.node.authority
        deleted = await store.numbers_of_deleted_versions(connection, authority, [place.path])
    spans = deleted.get(place.path, [])
    vids = [version.path.vid for version in known.children(f"{place.path}/versions")]
    following = next_version(vids, spans)
    used = {int(vid) for vid in vids if vid.isdigit()}.union(*spans)
    return "" if len(used - {0}) == int(following) - 1 else following
