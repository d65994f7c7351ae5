"""Handlers of POST and PUT of groups, resources and versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from catalog.dialects.registry04.attributechecks import creation_of
from catalog.dialects.registry04.exchange import Exchange
from catalog.dialects.registry04.load import load_version
from catalog.dialects.registry04.names import path_of
from catalog.dialects.registry04.nativeforms import (
    UNUSED_EPOCH,
    checked_group,
    cleared,
    group_patch,
    inherited,
    metadata_patch,
    native_group,
    native_version,
    new_meta,
)
from catalog.dialects.registry04.registryheaders import HEADER_PREFIX
from catalog.dialects.registry04.requestcontent import (
    check_identity,
    expected_epoch,
    new_id,
    read_content,
    read_metadata,
)
from catalog.dialects.versionnumbers import is_number, last_number
from catalog.http.body import read_object
from catalog.model.concorderrors import AlreadyExists
from catalog.model.errors import HeaderError, MismatchedEpoch, NotFound
from catalog.model.interaction import GroupUpsert, ResourceUpsert, VersionUpsert
from catalog.model.xid import Xid
from catalog.reading.loaded import Loaded
from catalog.store import entities as store


async def post_group(request: web.Request) -> web.Response:
    """Add a group, with the resources that it comes with."""
    collection = Exchange.of(request)
    types, layout = collection.types, collection.layout
    body = await read_object(request)
    exchange = collection.at(Xid(types.group.native, new_id(request.path, body.get("id"))))
    async with exchange.database.acquire() as connection:
        if await store.load(connection, [exchange.path]):
            raise AlreadyExists(exchange.path)
    native = native_group(types, layout, exchange.path, body)
    interaction = exchange.interaction()
    interaction.put_group(exchange.model, exchange.xid, native, patch=False)
    outcome = await exchange.apply(interaction, is_one=False)
    return await exchange.answer_written(outcome, location=layout.root + path_of(exchange.xid))


async def put_group(request: web.Request) -> web.Response:
    """Replace a group's attributes; its resources stay."""
    exchange = Exchange.of(request)
    body: Mapping[str, Any] = await read_object(request)
    check_identity(exchange.path, {"id": exchange.xid.gid}, body)
    own = checked_group(exchange.types, exchange.path, body)
    async with exchange.database.acquire() as connection:
        before = (await store.load(connection, [exchange.path])).get(exchange.path)
    if before is None:
        raise NotFound(exchange.path)
    patch = group_patch(exchange.types, exchange.layout, own, before)
    patch |= {"epoch": expected_epoch(request, body), **creation_of(exchange.path, body)}
    interaction = exchange.interaction()
    interaction.put_group(exchange.model, exchange.xid, patch, patch=True)
    return await exchange.answer_written(await exchange.apply(interaction))


async def post_resource(request: web.Request) -> web.Response:
    """Add a resource: its metadata in headers, and itself in the body."""
    group = Exchange.of(request)
    types, layout = group.types, group.layout
    content = await read_content(request, types)
    rid = new_id(request.path, content.headers.given.get("id"), content.body.get("id"))
    exchange = group.at(group.xid.child(types.resource.native, rid))
    async with group.database.acquire() as connection:
        found = await store.load(connection, [group.path, exchange.path])
    if group.path not in found:
        raise NotFound(group.path)
    if exchange.path in found:
        raise AlreadyExists(exchange.path)
    native, document = native_version(types, layout, exchange.xid, content)
    native |= creation_of(exchange.path, content.given)
    # A concurrent request may have added the resource since the check: then the write fails.
    native["meta"] = {**new_meta(types), "epoch": UNUSED_EPOCH}
    interaction = group.interaction()
    interaction.put_resource(group.model, exchange.xid, native, patch=False, document=document)
    outcome = await group.apply(interaction, is_one=False)
    return await exchange.answer_written(outcome, location=layout.root + path_of(exchange.xid))


async def post_version(request: web.Request) -> web.Response:
    """Add a version to a resource; metadata that the request does not name is inherited."""
    exchange = Exchange.of(request)
    types, layout, xid = exchange.types, exchange.layout, exchange.xid
    content = await read_content(request, types)
    if "version" in content.headers.given:
        detail = "the server gives new versions their numbers"
        raise HeaderError(request.path, name=f"{HEADER_PREFIX}version", error_detail=detail)
    async with exchange.database.acquire() as connection:
        loaded, latest = await load_version(connection, xid)
    given = (content.headers.given, content.body)
    check_identity(exchange.path, {"id": xid.rid}, *given)
    expected = expected_epoch(request, *given)
    if expected not in (None, latest.epoch):
        raise MismatchedEpoch(latest.xid, bad_epoch=str(expected), epoch=str(latest.epoch))
    native, document = native_version(types, layout, xid, content, latest)
    native = inherited(types, latest) | native
    vid = await _free_number(exchange, loaded)
    if vid:
        # Of concurrent requests with the same number, only the first may create the version.
        native["epoch"] = UNUSED_EPOCH
    has_rule = "compatibility" in loaded.entities[exchange.path].attributes
    versions = (VersionUpsert(vid=vid, body=native, patch=False, document=document),)
    meta = None if has_rule else new_meta(types) or None
    interaction = exchange.interaction()
    interaction.groups.append(GroupUpsert(xid=xid.group, body=None))
    interaction.resources.append(ResourceUpsert(xid=xid, patch=True, meta=meta, versions=versions))
    outcome = await exchange.apply(interaction)
    return await exchange.answer_written(outcome, location=layout.root + path_of(xid))


async def put_version(request: web.Request) -> web.Response:
    """Update a version, or the latest one of a resource; `?meta` its metadata alone."""
    exchange = Exchange.of(request)
    types, layout = exchange.types, exchange.layout
    meta = exchange.has("meta")
    content = await (read_metadata if meta else read_content)(request, types)
    given = (content.headers.given, content.body)
    async with exchange.database.acquire() as connection:
        _, version = await load_version(connection, exchange.xid)
    check_identity(exchange.path, layout.version(version, types), *given)
    document = None
    if meta:
        native = metadata_patch(types, layout, exchange.path, content.body, version)
    else:
        native, document = native_version(types, layout, exchange.xid, content, version)
        native = cleared(types, version) | native
    native["epoch"] = expected_epoch(request, *given)
    native |= creation_of(exchange.path, content.given)
    interaction = exchange.interaction()
    resource, vid = exchange.xid.resource, version.path.vid
    interaction.put_version(exchange.model, resource, vid, native, patch=True, document=document)
    outcome = await exchange.apply(interaction)
    return await exchange.at(version.path).answer_written(outcome, meta=meta)


async def _free_number(exchange: Exchange, loaded: Loaded) -> str:
    """The id of the next version; empty if the engine will choose the same id.

    The engine takes the lowest number that was never used, so that concurrent requests get
    different numbers. If the used numbers have gaps, the lowest unused number is not the largest
    number, and the version would not be the latest.
    """
    database, path = exchange.database, exchange.path
    async with database.acquire() as connection:
        authority = database.node.authority
        deleted = await store.numbers_of_deleted_versions(connection, authority, [path])
    spans = deleted.get(path, [])
    vids = [version.path.vid for version in loaded.children(f"{path}/versions")]
    last = last_number(vids, spans)
    used = {int(vid) for vid in vids if is_number(vid)}.union(*spans)
    return "" if len(used - {0}) == last else str(last + 1)
