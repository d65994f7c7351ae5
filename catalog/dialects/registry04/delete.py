"""Handlers of DELETE, of one entity or of several entities: all or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from catalog.dialects.handlers import answer_written, delete_members
from catalog.dialects.registry04.exchange import Exchange
from catalog.dialects.registry04.layout import latest_version
from catalog.dialects.registry04.load import load_resource
from catalog.dialects.registry04.registryheaders import read_headers
from catalog.dialects.registry04.requestcontent import check_epoch, check_identity, expected_epoch
from catalog.http.body import read_json
from catalog.http.responses import interaction_headers
from catalog.model.entity import Entity
from catalog.model.errors import BadRequest, InvalidAttribute, MissingVersions, NotFound
from catalog.model.interaction import Interaction
from catalog.model.xid import Xid, is_valid_id
from catalog.reading.loaded import Loaded

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
    exchange = Exchange.of(request)
    native = exchange.types.group.native
    if not request.can_read_body:
        return await delete_members(request, exchange.configuration, Xid(), native)
    interaction, shown = exchange.interaction(), {}
    async with exchange.database.acquire() as connection:
        for gid, epoch in (await _read_list(request)).items():
            xid = Xid(native, gid)
            shown[gid] = await exchange.at(xid).load_group(connection)
            interaction.delete(xid, epoch)
    return answer_written(await exchange.apply(interaction, is_one=False), shown)


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
    exchange = Exchange.of(request)
    native = exchange.types.resource.native
    if not request.can_read_body:
        return await delete_members(request, exchange.configuration, exchange.xid, native)
    interaction, shown = exchange.interaction(), {}
    async with exchange.database.acquire() as connection:
        for rid, epoch in (await _read_list(request)).items():
            xid = exchange.xid.child(native, rid)
            latest = latest_version(*await load_resource(connection, xid))
            shown[rid] = exchange.layout.version(latest, exchange.types)
            _delete_resource(exchange, interaction, latest, epoch)
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
        raise NotFound(str(missing[0]))
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
        raise MissingVersions(resource.xid, detail="Delete the resource itself instead.")
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
        raise BadRequest(request.path, error_detail=detail)
    listed = dict(_read_item(request, item, rid) for item in body)
    if len(listed) < len(body):
        raise BadRequest(request.path, error_detail="the body lists something twice")
    return listed


def _read_item(request: web.Request, item: Any, rid: str) -> tuple[str, int | None]:
    if not isinstance(item, dict):
        raise BadRequest(request.path, error_detail="the body needs to be an array of objects")
    id = item.get("id")
    if rid and item.get("version") is not None:
        check_identity(request.path, {"id": rid}, item)
        id = item["version"]
        id = str(id) if type(id) is int else id
    if not isinstance(id, str) or not is_valid_id(id):
        raise InvalidAttribute(request.path, name="id", error_detail="it needs to be an id")
    epoch = item.get("epoch")
    if epoch is not None:
        check_epoch(request.path, epoch)
    return id, epoch
