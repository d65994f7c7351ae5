"""Handlers of POST, PUT and DELETE of groups, resources and versions.

A DELETE of several entities deletes all or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from catalog.dialects.handlers import answer_written, delete_members
from catalog.dialects.registry04 import nativeforms
from catalog.dialects.registry04.load import latest_version, load_resource, load_version
from catalog.dialects.registry04.names import path_of
from catalog.dialects.registry04.read import Exchange
from catalog.dialects.registry04.requestcontent import (
    HEADER_PREFIX,
    check_epoch,
    check_identity,
    expected_epoch,
    new_id,
    read_content,
    read_headers,
    read_metadata,
)
from catalog.dialects.versionnumbers import is_number, last_number
from catalog.http.body import read_json, read_object
from catalog.http.responses import interaction_headers
from catalog.model import errors
from catalog.model.concorderrors import AlreadyExists
from catalog.model.entity import Entity
from catalog.model.interaction import GroupUpsert, Interaction, ResourceUpsert, VersionUpsert
from catalog.model.xid import Xid, is_valid_id
from catalog.reading.entities import Loaded
from catalog.store import entities as store

_MOST_LISTED = 1000


async def delete_group(request: web.Request) -> web.Response:
    """Delete a group with the contents of the group."""
    exchange = Exchange.of(request)
    async with exchange.database.acquire() as connection:
        answer = await exchange.show(connection)
    interaction = exchange.interaction()
    interaction.delete(exchange.xid, _epoch(exchange))
    return await _answer(exchange, interaction, answer)


async def delete_groups(request: web.Request) -> web.Response:
    """Delete the groups that the body lists, or all of a type."""
    return await _delete_listed(request)


async def delete_resource(request: web.Request) -> web.Response:
    """Delete a resource with all of its versions."""
    exchange = Exchange.of(request)
    async with exchange.database.acquire() as connection:
        answer = await exchange.show(connection)
        latest = latest_version(*await load_resource(connection, exchange.xid))
    interaction = exchange.interaction()
    _delete_resource(exchange, interaction, latest, _epoch(exchange))
    return await _answer(exchange, interaction, answer)


def _delete_resource(
    exchange: Exchange, interaction: Interaction, latest: Entity, epoch: int | None
) -> None:
    """Delete a resource on the condition that the latest version is at an epoch.

    Edition 0.4 shows the epoch of the latest version, not the native epoch of the resource. The
    interaction therefore writes the version first, in the same transaction, and fails if the
    version is at a different epoch.
    """
    resource = latest.path.resource
    if epoch is not None:
        body = {"epoch": epoch}
        interaction.put_version(exchange.model, resource, latest.path.vid, body, patch=True)
    interaction.delete(resource, None)


async def delete_resources(request: web.Request) -> web.Response:
    """Delete the resources that the body lists, or all of a group."""
    return await _delete_listed(request)


async def _delete_listed(request: web.Request) -> web.Response:
    exchange = Exchange.of(request)
    owner, types = exchange.xid, exchange.types
    plural = types.resource.native if owner.gid else types.group.native
    if not request.can_read_body:
        return await delete_members(request, exchange.configuration, owner, plural)
    interaction, shown = exchange.interaction(), {}
    async with exchange.database.acquire() as connection:
        for id, epoch in (await _read_list(request)).items():
            xid = owner.child(plural, id) if owner.gid else Xid(plural, id)
            if owner.gid:
                latest = latest_version(*await load_resource(connection, xid))
                shown[id] = exchange.layout.version(latest, types)
                _delete_resource(exchange, interaction, latest, epoch)
            else:
                shown[id] = await exchange.at(xid).load_group(connection)
                interaction.delete(xid, epoch)
    return answer_written(await exchange.apply(interaction, is_one=False), shown)


async def delete_version(request: web.Request) -> web.Response:
    """Delete a version of a resource, unless it is the only one."""
    exchange = Exchange.of(request)
    async with exchange.database.acquire() as connection:
        loaded, _ = await load_resource(connection, exchange.xid)
        answer = await exchange.show(connection)
    interaction = _delete_versions(exchange, loaded, {exchange.xid: _epoch(exchange)})
    return await _answer(exchange, interaction, answer)


async def delete_versions(request: web.Request) -> web.Response:
    """Delete the versions that the body lists, or all but the latest; never all of them."""
    exchange = Exchange.of(request)
    async with exchange.database.acquire() as connection:
        loaded, resource = await load_resource(connection, exchange.xid)
    if request.can_read_body:
        listed = await _read_list(request, exchange.xid.rid)
        epochs = {exchange.xid.version(id): epoch for id, epoch in listed.items()}
    else:
        latest = latest_version(loaded, resource)
        versions = loaded.children(f"{resource.xid}/versions")
        epochs = {version.path: None for version in versions if version is not latest}
    if missing := [xid for xid in epochs if str(xid) not in loaded.entities]:
        raise errors.NotFound(str(missing[0]))
    interaction = _delete_versions(exchange, loaded, epochs)
    outcome = await exchange.apply(interaction, is_one=False)
    layout, types = exchange.layout, exchange.types
    shown = {xid.vid: layout.version(loaded.entities[str(xid)], types) for xid in epochs}
    return answer_written(outcome, shown)


def _delete_versions(
    exchange: Exchange, loaded: Loaded, epochs: Mapping[Xid, int | None]
) -> Interaction:
    """Delete versions at the given epochs, but never every version, even by concurrent requests."""
    resource = loaded.entities[str(exchange.xid.resource)]
    children = loaded.children(f"{resource.xid}/versions")
    if {version.path for version in children} <= epochs.keys():
        raise errors.MissingVersions(resource.xid, detail="Delete the resource itself instead.")
    interaction = exchange.interaction()
    # Every new or deleted version changes the epoch of the meta, so a concurrent deletion fails.
    interaction.put_meta(exchange.model, resource.path, {"epoch": resource.epoch}, patch=True)
    for xid, epoch in epochs.items():
        interaction.delete(xid, epoch)
    return interaction


def _epoch(exchange: Exchange) -> int | None:
    """The epoch that a request expects of the entity at the path."""
    headers = read_headers(exchange.request, exchange.types.resource.singular)
    return expected_epoch(exchange.request, {"epoch": headers.given.get("epoch")})


async def _answer(
    exchange: Exchange, interaction: Interaction, answer: web.Response
) -> web.Response:
    """Apply the interaction, and answer with the entity before the deletion."""
    answer.headers.update(interaction_headers(await exchange.apply(interaction)))
    return answer


async def _read_list(request: web.Request, rid: str = "") -> dict[str, int | None]:
    """Read the ids in a body, and the expected epochs of the entities, if given.

    Versions of the resource `rid` can be listed by number.
    """
    body = await read_json(request)
    if not isinstance(body, list) or len(body) > _MOST_LISTED:
        detail = f"the body needs to be an array of at most {_MOST_LISTED} objects"
        raise errors.BadRequest(request.path, error_detail=detail)
    listed = dict(_read_item(request, item, rid) for item in body)
    if len(listed) < len(body):
        raise errors.BadRequest(request.path, error_detail="the body lists something twice")
    return listed


def _read_item(request: web.Request, item: Any, rid: str) -> tuple[str, int | None]:
    if not isinstance(item, dict):
        raise errors.BadRequest(
            request.path, error_detail="the body needs to be an array of objects"
        )
    id = item.get("id")
    if rid and item.get("version") is not None:
        check_identity(request.path, {"id": rid}, item)
        id = item["version"]
        id = str(id) if type(id) is int else id
    if not isinstance(id, str) or not is_valid_id(id):
        raise errors.InvalidAttribute(request.path, name="id", error_detail="it needs to be an id")
    epoch = item.get("epoch")
    if epoch is not None:
        check_epoch(request.path, epoch)
    return id, epoch


async def post_group(request: web.Request) -> web.Response:
    """Add a group, with the resources that it comes with."""
    collection = Exchange.of(request)
    types, layout = collection.types, collection.layout
    body = await read_object(request)
    exchange = collection.at(Xid(types.group.native, new_id(request.path, body.get("id"))))
    async with exchange.database.acquire() as connection:
        if await store.load(connection, [exchange.path]):
            raise AlreadyExists(exchange.path)
    native = nativeforms.native_group(types, layout, exchange.path, body)
    interaction = exchange.interaction()
    interaction.put_group(exchange.model, exchange.xid, native, patch=False)
    outcome = await exchange.apply(interaction, is_one=False)
    return await exchange.answer_written(outcome, location=layout.root + path_of(exchange.xid))


async def put_group(request: web.Request) -> web.Response:
    """Replace a group's attributes; its resources stay."""
    exchange = Exchange.of(request)
    body: Mapping[str, Any] = await read_object(request)
    check_identity(exchange.path, {"id": exchange.xid.gid}, body)
    own = nativeforms.checked_group(exchange.types, exchange.path, body)
    async with exchange.database.acquire() as connection:
        before = (await store.load(connection, [exchange.path])).get(exchange.path)
    if before is None:
        raise errors.NotFound(exchange.path)
    patch = nativeforms.group_patch(exchange.types, exchange.layout, own, before)
    patch |= {
        "epoch": expected_epoch(request, body),
        **nativeforms.creation_of(exchange.path, body),
    }
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
        raise errors.NotFound(group.path)
    if exchange.path in found:
        raise AlreadyExists(exchange.path)
    native, document = nativeforms.native_version(types, layout, exchange.xid, content)
    native |= nativeforms.creation_of(exchange.path, content.given)
    # A concurrent request may have added the resource since the check: then the write fails.
    native["meta"] = {**nativeforms.new_meta(types), "epoch": nativeforms.UNUSED_EPOCH}
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
        raise errors.HeaderError(request.path, name=f"{HEADER_PREFIX}version", error_detail=detail)
    async with exchange.database.acquire() as connection:
        loaded, latest = await load_version(connection, xid)
    given = (content.headers.given, content.body)
    check_identity(exchange.path, {"id": xid.rid}, *given)
    expected = expected_epoch(request, *given)
    if expected not in (None, latest.epoch):
        raise errors.MismatchedEpoch(latest.xid, bad_epoch=str(expected), epoch=str(latest.epoch))
    native, document = nativeforms.native_version(types, layout, xid, content, latest)
    native = nativeforms.inherited(types, latest) | native
    vid = await _free_number(exchange, loaded)
    if vid:
        # Of concurrent requests with the same number, only the first may create the version.
        native["epoch"] = nativeforms.UNUSED_EPOCH
    has_rule = "compatibility" in loaded.entities[exchange.path].attributes
    versions = (VersionUpsert(vid=vid, body=native, patch=False, document=document),)
    meta = None if has_rule else nativeforms.new_meta(types) or None
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
        native = nativeforms.metadata_patch(types, layout, exchange.path, content.body, version)
    else:
        native, document = nativeforms.native_version(types, layout, exchange.xid, content, version)
        native = nativeforms.cleared(types, version) | native
    native["epoch"] = expected_epoch(request, *given)
    native |= nativeforms.creation_of(exchange.path, content.given)
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
